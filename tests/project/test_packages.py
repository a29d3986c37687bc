"""What packages ssdsim for others: the container, the completion of shells, the pages that a project has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.shell_completion import ShellComplete

import ssdsim
from site_generator.shown import PROJECT
from ssdsim.cli.main import cli
from ssdsim.hardware.catalog import hardware_names

BIN = Path(sys.executable).parent


def test_the_dockerfile_pleases_a_linter() -> None:
    done = subprocess.run([BIN / "hadolint", PROJECT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_dockerfile_copies_what_the_package_is_made_of() -> None:
    left_out = (PROJECT / ".dockerignore").read_text().split()
    for needed in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "hatch_build.py",
        "site_generator",
        "ssdsim",
        "calibration",
        "models",
    ):
        assert (PROJECT / needed).exists()
        assert needed not in left_out


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ssdsim pred", ["predict"]),
        ("ssdsim predict --draft-har", ["--draft-hardware"]),
        ("ssdsim predict --hardware h100-sxm-", ["h100-sxm-torch"]),
        ("ssdsim predict --b 4 --target llama-3.2-", ["llama-3.2-1b", "llama-3.2-3b"]),
        ("ssdsim recommend --strategies ar,pe", ["ar,pearl"]),
        ("ssdsim runtimes show compi", ["compiled"]),
    ],
)
def test_a_shell_completes_verbs_options_and_names(line: str, expected: list[str]) -> None:
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_SSDSIM_COMPLETE": "bash_complete"}
    env = {**os.environ, **asked}
    done = subprocess.run([BIN / "ssdsim"], capture_output=True, text=True, check=False, env=env)
    assert [item.partition(",")[2] for item in done.stdout.splitlines()] == expected


def test_every_option_that_names_a_card_completes_it() -> None:
    offered = ShellComplete(cli, {}, "ssdsim", "_SSDSIM_COMPLETE").get_completions
    for words in ("predict --hardware", "sweep --draft-hardware", "calibrate --machine", "hardware show"):
        assert [each.value for each in offered(words.split(), "")] == list(hardware_names()), words
    assert not offered(["predict"], "")


@pytest.mark.long
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_one_command_installs_completion(shell: str, tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "SHELL": f"/usr/bin/{shell}"}
    command = [BIN / "ssdsim", "--install-completion"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    (script,) = (path for path in tmp_path.rglob("*ssdsim*") if path.is_file())
    assert str(script) in done.stdout
    assert "_SSDSIM_COMPLETE" in script.read_text()


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (ssdsim.__version__, "Apache-2.0")


@pytest.mark.parametrize("name", ["ci", "site"])
def test_a_workflow_names_versions_of_what_it_uses(name: str) -> None:
    workflow = yaml.safe_load((PROJECT / f".github/workflows/{name}.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert steps
    assert all("@v" in step["uses"] for step in steps if "uses" in step)


def test_the_hosted_workflow_publishes_the_site_with_its_addresses() -> None:
    (job,) = yaml.safe_load((PROJECT / ".github/workflows/site.yml").read_text())["jobs"].values()
    (build,) = (step for step in job["steps"] if "mkdocs build" in step.get("run", ""))
    assert set(re.findall(r"!ENV \[(\w+)", (PROJECT / "mkdocs.yml").read_text())) <= build["env"].keys()
    assert any("deploy-pages" in step.get("uses", "") for step in job["steps"])
