"""Four people who come for the first time: the commands that the pages show them, in a real terminal of 80 columns."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from site_generator.notebooks import PROJECT
from tests.ssdsim.cli.test_terminal import in_real_terminal

pytestmark = pytest.mark.long
V100S = "\n".join(f"{n}, Tesla V100-SXM2-32GB, 7.0, 32768 MiB" for n in range(8))


def documented(page: str, command: str) -> str:
    """What a command of a page prints, which no line has more than 80 columns of."""
    assert command in (PROJECT / page).read_text(), f"{page} does not show {command}"
    return told(command)


def told(command: str) -> str:
    text = in_real_terminal(command.removeprefix("ssdsim "), 80)
    assert "Traceback" not in text
    assert max(map(len, text.splitlines())) <= 80
    return text


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]))


def test_a_researcher() -> None:
    """From the README's first command to a sweep of his own."""
    first = documented("README.md", "ssdsim predict --b 16 --p-hit 0.85")
    assert "SSD is probably the fastest" in first
    assert len(first.strip().splitlines()) <= 15
    assert re.search(r"^AR +52\.2 +", first, flags=re.MULTILINE)
    assert "T_SD" in documented("docs/tutorial.md", "ssdsim predict --t-sd 0.2 --alpha 0.9 --k 5 --p-hit 0.85")
    page = told("ssdsim predict --help")
    assert len(page.splitlines()) < 90
    assert "Example:" in page
    assert "Predicted fastest: " in told("ssdsim sweep --t-sd 0.1,0.3 --alpha 80%,90% --k 3:5 -o run --quiet")


def test_an_infrastructure_engineer_with_a_log_of_vllm(tmp_path: Path) -> None:
    """His log becomes acceptance, acceptance a decision; his flags are those of his engine."""
    shown = re.findall(r"^> (\{.*\})$", (PROJECT / "docs/how-to/acceptance.md").read_text(), flags=re.MULTILINE)
    (tmp_path / "responses.jsonl").write_text("\n".join(line for line in shown if "speculative_decoding" in line))
    imported = documented(
        "docs/how-to/acceptance.md",
        "ssdsim import acceptance vllm responses.jsonl --temperature 0 --draft llama-3.2-1b -o pair.json",
    )
    assert "written to pair.json" in imported
    decided = told("ssdsim predict --batch-size 8 --tensor-parallel-size 4 --k 3 --pair pair.json --engine vllm")
    assert "SSD" not in decided  # which vLLM does not have


def test_an_owner_of_v100s_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """He is told which torch to install before he installs one, and sees the plan without it."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    (tmp_path / "gpus.csv").write_text(V100S + "\n")
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\ncat {tmp_path}/gpus.csv\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    wheel = "pip install torch --index-url https://download.pytorch.org/whl/cu126"
    guide = (PROJECT / "docs" / "how-to" / "calibrate.md").read_text()
    assert 0 < guide.index(wheel) < guide.index("pip install 'ssdsim[torch]'")  # first
    seen = "".join(documented("docs/how-to/calibrate.md", "ssdsim doctor").split())
    assert "8xTeslaV100-SXM2-32GB" in seen
    assert "".join(wheel.split()) in seen
    plan = told("ssdsim calibrate --dry-run --gpus 0-4 --target llama-2-13b --draft llama-2-7b")
    assert "v100-sxm2-32gb: 8 x Tesla V100-SXM2-32GB" in plan
    refused = told("ssdsim calibrate --gpus 0-4 -o mine.json")
    assert "".join(wheel.split()) in "".join(refused.split())


def test_a_reader_of_a_report() -> None:
    """Somebody gave him a folder; a wrong path is told in a line."""
    told("ssdsim sweep --t-sd 0.1,0.3 --k 3,5 --p-hit 0.85 -o run --quiet")
    shown = documented("docs/how-to/sweep.md", "ssdsim report run --quiet")
    assert "run/report.html: " in shown
    assert "SSD is" in shown
    assert told("ssdsim report nowhere").startswith("error: nowhere")
