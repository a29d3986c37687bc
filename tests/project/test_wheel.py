"""The wheel in an empty environment outside the checkout: its cards come along, and so do its commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.mark.wheel
def test_the_wheel_predicts_in_an_empty_environment(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(PROJECT)], check=True)
    (wheel,) = tmp_path.glob("ssdsim-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "empty")], check=True)
    subprocess.run([str(tmp_path / "empty/bin/pip"), "install", "-q", str(wheel)], check=True)
    done = subprocess.run(
        [str(tmp_path / "empty/bin/ssdsim"), *"predict --b 16 --p-hit 0.85 --json".split()],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={},
    )
    assert json.loads(done.stdout)["strategies"]["ssd"]["tokens_per_second"] > 0
    listed = subprocess.run(
        [str(tmp_path / "empty/bin/ssdsim"), "models", "list"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "llama-3.1-70b" in listed.stdout
    installed = tmp_path / "empty/lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    assert not (installed / "torch").exists()
