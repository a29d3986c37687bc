"""Links between GPUs, read from samples written after the format that nvidia-smi prints."""

from __future__ import annotations

import pytest

from calibration import topology

CUBE_MESH = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV1\tNV2\tSYS\tPIX\t0-19\t0
GPU1\tNV1\t X \tNODE\tNV1\tPIX\t0-19\t0
GPU2\tNV2\tNODE\t X \tNV2\tSYS\t20-39\t1
GPU3\tSYS\tNV1\tNV2\t X \tSYS\t20-39\t1
mlx5_0\tPIX\tPIX\tSYS\tSYS\t X

Legend:
  X    = Self
"""


def test_links_are_read_by_pair() -> None:
    links = topology.parse_links(CUBE_MESH)
    assert links == {(0, 1): "NV1", (0, 2): "NV2", (0, 3): "SYS", (1, 2): "NODE", (1, 3): "NV1", (2, 3): "NV2"}


def test_a_header_in_colour_is_read_too() -> None:
    assert topology.parse_links(CUBE_MESH.replace("GPU0", "\x1b[4mGPU0", 1)) == topology.parse_links(CUBE_MESH)


def test_nothing_is_read_from_nothing() -> None:
    assert topology.parse_links("") == {}


@pytest.mark.parametrize(("devices", "says"), [(["cuda:0", "cuda:1"], "0-1 NV1"), (["cuda:2"], "one GPU")])
def test_what_is_linked_is_named(monkeypatch: pytest.MonkeyPatch, devices: list[str], says: str) -> None:
    monkeypatch.setattr(topology, "_nvidia_smi", lambda *_: CUBE_MESH)
    assert topology.topology(devices) == (says if len(devices) > 1 else "one GPU")


def test_a_pair_that_crosses_the_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_nvidia_smi", lambda *_: CUBE_MESH)
    found = topology.topology(["cuda:0", "cuda:1", "cuda:3"])
    assert found.startswith("no direct link from target to draft (GPUs 0-3): ")
    assert "0-1 NV1" in found


def test_cores_share_memory() -> None:
    assert topology.topology(["cpu:0", "cpu:1"]) == "cores that share memory"
