"""The wheel in an empty environment outside the checkout: its cards come along, and so do its commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def linked(wheel: Path, empty: Path, extras: Sequence[str] = ()) -> None:
    """The wheel installed; of what it and its extras ask for, in turn, the files of this environment."""
    into = ["--python", str(empty / "bin/python")]
    subprocess.run([*PIP, *into, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    (installed,) = distributions(path=[str(packages_of(empty))])
    for found in asked_for(installed, {}, ("", *extras)):
        for name in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (packages_of(empty) / name).symlink_to(str(found.locate_file(name)))


def downloaded(wheel: Path, empty: Path) -> None:
    """The wheel and all that it asks for, from the index."""
    subprocess.run([*PIP, "--python", str(empty / "bin/python"), "install", str(wheel)], check=True)


def asked_for(of: Distribution, seen: dict[str, Distribution], extras: Sequence[str] = ("",)) -> Iterator[Distribution]:
    """Each distribution that ``of`` needs with these extras, once; here in a version that it allows."""
    for needed in map(Requirement, of.requires or ()):
        name = canonicalize_name(needed.name)
        if name not in seen and (
            needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras)
        ):
            found = seen[name] = distribution(needed.name)
            assert needed.specifier.contains(found.version), f"{of.name} {needed} and {found.version}"
            yield found
            yield from asked_for(found, seen)


def packages_of(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of the source distribution, which is all that a packager has."""
    folder = tmp_path_factory.mktemp("dist")
    for kind in ("sdist", "wheel"):
        build = f"import hatchling.build as b, sys; b.build_{kind}(sys.argv[1])"
        source = PROJECT if kind == "sdist" else unpacked(next(folder.glob("*.tar.gz")))
        subprocess.run([sys.executable, "-c", build, str(folder)], check=True, cwd=source, capture_output=True)
    return next(folder.glob("ssdsim-*.whl"))


def unpacked(archive: Path) -> Path:
    with tarfile.open(archive) as file:
        file.extractall(archive.parent, filter="data")
    return archive.parent / archive.name.removesuffix(".tar.gz")


def environment(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def said(empty: Path, command: str) -> subprocess.CompletedProcess[str]:
    """What ssdsim says there, from another folder and without this checkout."""
    ssdsim = [str(empty / "bin/ssdsim"), *command.split()]
    return subprocess.run(ssdsim, capture_output=True, text=True, check=False, cwd=empty, env={})


@pytest.mark.wheel
@pytest.mark.parametrize("installed", [linked, pytest.param(downloaded, marks=pytest.mark.slow)])
def test_the_core_predicts_and_names_the_extra_of_other_verbs(
    wheel: Path, tmp_path: Path, installed: Callable[[Path, Path], None]
) -> None:
    empty = environment(tmp_path / "empty")
    installed(wheel, empty)
    for package in ("torch", "pandas", "pyarrow"):
        assert not (packages_of(empty) / package).exists()
    answer = json.loads(said(empty, "predict --b 16 --p-hit 0.85 --json").stdout)
    assert answer["strategies"]["ssd"]["tokens_per_second"] > 0
    assert "llama-3.1-70b" in said(empty, "models list").stdout
    for command in (
        "recommend --gpus 2 --tp 2 --k 4 --b 4",
        "plan --rate 4 --solver closed",
        "compare --gpus 4 --tp 4 --k 4",
        "export --format vllm",
    ):
        assert said(empty, command).returncode == 0, command
    for command in ("sweep --b 1,2", "why", "report run", "sweep --help"):
        done = said(empty, command)
        assert done.returncode == 2, command
        assert re.fullmatch(r"error: .*pip install 'ssdsim\[tables\]'\n", done.stderr), done.stderr
    imported = [str(empty / "bin/python"), "-c", "import ssdsim; ssdsim.sweep"]
    done = subprocess.run(imported, capture_output=True, text=True, check=False, cwd=empty, env={})
    assert done.stderr.splitlines()[-1].endswith("pip install 'ssdsim[tables]'")


@pytest.mark.wheel
def test_with_tables_every_example_of_the_readme_runs_anywhere(wheel: Path, tmp_path: Path) -> None:
    empty = environment(tmp_path / "empty")
    linked(wheel, empty, ["tables"])
    for command in ("sweep --b 1,2 -o run", "report run", "window", "export --format vllm --b 1 --k 4"):
        done = said(empty, command)
        assert done.returncode == 0, done.stderr
    assert (empty / "run/report.html").is_file()


@pytest.mark.wheel
def test_the_wheel_has_the_types_that_its_build_made(wheel: Path) -> None:
    made = {"ssdsim/__init__.pyi", "ssdsim/question/typed_options.py", "ssdsim/serving/typed_options.py"}
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as source:
        assert not made & {name.partition("/")[2] for name in source.getnames()}
    assert made <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.wheel
def test_an_index_would_take_both_packages(wheel: Path) -> None:
    checked = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), *map(str, wheel.parent.glob("*.tar.gz"))]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
