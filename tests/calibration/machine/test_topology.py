"""Links between GPUs, read from samples written after the format that nvidia-smi prints."""

from __future__ import annotations

from calibration.machine import inventory
from calibration.machine.drivers import parse_links
from calibration.machine.inventory import Gpu

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
    links = parse_links(CUBE_MESH)
    assert links == {(0, 1): "NV1", (0, 2): "NV2", (0, 3): "SYS", (1, 2): "NODE", (1, 3): "NV1", (2, 3): "NV2"}


def test_a_header_in_colour_is_read_too() -> None:
    assert parse_links(CUBE_MESH.replace("GPU0", "\x1b[4mGPU0", 1)) == parse_links(CUBE_MESH)


def test_nothing_is_read_from_nothing() -> None:
    assert parse_links("") == {}


UUIDS = """\
0, GPU-0b48ae3c-3f8f-31c5-8b4a-2a3f6e1d7f01
1, GPU-1C48AE3C-3f8f-31c5-8b4a-2a3f6e1d7f01
2, GPU-2d48ae3c-3f8f-31c5-8b4a-2a3f6e1d7f01
3, GPU-3e48ae3c-3f8f-31c5-8b4a-2a3f6e1d7f01
"""


def gpus(*rows: int, peers: bool = True) -> dict[str, Gpu]:
    """Torch's GPUs 0, 1, ... where they are these rows of nvidia-smi."""
    uuids = {row: uuid for uuid, row in inventory.parse_uuids(UUIDS).items()}
    names = [f"cuda:{number}" for number in range(len(rows))]
    others = {name: frozenset(names) - {name} if peers else frozenset() for name in names}
    return {
        name: Gpu("Tesla V100", uuids[row], (7, 0), memory_bytes=1, free_bytes=1, compute_units=80, peers=others[name])
        for name, row in zip(names, rows, strict=True)
    }


def described(gpus: dict[str, Gpu], matrix: str = CUBE_MESH) -> str:
    links = inventory.links_of(gpus, inventory.parse_uuids(UUIDS), parse_links(matrix))
    return inventory.describe(gpus, links)


def test_uuids_are_read_as_torch_writes_them() -> None:
    found = inventory.parse_uuids(UUIDS)
    assert found["1c48ae3c-3f8f-31c5-8b4a-2a3f6e1d7f01"] == 1
    assert sorted(found.values()) == [0, 1, 2, 3]
    assert inventory.parse_uuids("NVIDIA-SMI has failed because it couldn't communicate") == {}


def test_what_is_linked_is_named() -> None:
    assert described(gpus(0, 1)) == "0-1 NV1"
    assert described(gpus(2)) == "one GPU"


def test_a_pair_that_crosses_the_host_is_named() -> None:
    found = described(gpus(0, 1, 3))
    assert found.startswith("no direct link from target to draft (GPUs 0-2): ")
    assert "0-1 NV1" in found


def test_hidden_and_reordered_gpus_have_the_links_of_their_own_rows() -> None:
    """As with ``CUDA_VISIBLE_DEVICES=3,1``, or where CUDA orders by speed."""
    assert described(gpus(3, 1)) == "0-1 NV1"
    assert described(gpus(3, 2, 0)).startswith("no direct link from target to draft (GPUs 0-2): 0-1 NV2")
    assert described(gpus(1, 2)).startswith("no direct link from target to draft (GPUs 0-1)")


def test_peer_access_tells_where_nvidia_smi_does_not() -> None:
    assert described(gpus(0, 1), matrix="") == "every pair has peer access"
    assert described(gpus(0, 1, peers=False), matrix="") == "no direct link from target to draft (GPUs 0-1)"


def test_cores_share_memory() -> None:
    assert inventory.topology(["cpu:0", "cpu:1"]) == "cores that share memory"
