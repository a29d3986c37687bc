"""The wheel in an empty environment outside the checkout: its cards come along, and so do its commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def linked(wheel: Path, empty: Path) -> None:
    """The wheel installed; of what it asks for, and of what that asks for, the files of this environment."""
    into = ["--python", str(empty / "bin/python")]
    subprocess.run([*PIP, *into, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    (installed,) = distributions(path=[str(packages_of(empty))])
    for found in asked_for(installed, {}):
        for name in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (packages_of(empty) / name).symlink_to(str(found.locate_file(name)))


def downloaded(wheel: Path, empty: Path) -> None:
    """The wheel and all that it asks for, from the index."""
    subprocess.run([*PIP, "--python", str(empty / "bin/python"), "install", str(wheel)], check=True)


def asked_for(of: Distribution, seen: dict[str, Distribution]) -> Iterator[Distribution]:
    """Each distribution that ``of`` needs without extras, once; here in a version that it allows."""
    for needed in map(Requirement, of.requires or ()):
        name = canonicalize_name(needed.name)
        if name not in seen and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            found = seen[name] = distribution(needed.name)
            assert needed.specifier.contains(found.version), f"{of.name} {needed} and {found.version}"
            yield found
            yield from asked_for(found, seen)


def packages_of(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


@pytest.mark.wheel
@pytest.mark.parametrize("installed", [linked, pytest.param(downloaded, marks=pytest.mark.slow)])
def test_the_wheel_predicts_in_an_empty_environment(tmp_path: Path, installed: Callable[[Path, Path], None]) -> None:
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([*PIP, *build, str(PROJECT)], check=True)
    (wheel,) = tmp_path.glob("ssdsim-*.whl")
    empty = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(empty)], check=True)
    installed(wheel, empty)
    done = subprocess.run(
        [str(empty / "bin/ssdsim"), *"predict --b 16 --p-hit 0.85 --json".split()],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={},
    )
    assert json.loads(done.stdout)["strategies"]["ssd"]["tokens_per_second"] > 0
    listed = subprocess.run(
        [str(empty / "bin/ssdsim"), "models", "list"], capture_output=True, text=True, check=True, cwd=tmp_path, env={}
    )
    assert "llama-3.1-70b" in listed.stdout
    assert not (packages_of(empty) / "torch").exists()
