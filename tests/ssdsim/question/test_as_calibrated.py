"""A profile that was calibrated says for what, and that is taken where nobody says otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim import find_hardware, predict, recommend, report, sweep
from ssdsim.advise.candidates import candidates
from ssdsim.base.errors import InputError
from ssdsim.base.settings import CALIBRATED
from ssdsim.hardware.catalog import full_hardware_name, own_profiles
from ssdsim.hardware.profile import Calibrated
from ssdsim.hardware.runtime_catalog import find_runtime, runtime_of, save_runtime
from tests.ssdsim.cli.in_process import asked

MADE_FOR = Calibrated(
    target="llama-3.1-8b", draft="llama-3.2-1b", dtype="bfloat16", tp=2, context=2048, devices=("cuda:0", "cuda:1")
)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one profile of the user's, called my-h100."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SSDSIM_DATA", str(folder))
    find_hardware("h100-sxm").changed(name="my-h100", calibrated=MADE_FOR).save(folder / "my-h100.json")
    return folder


def settings_of(**given: Any) -> dict[str, Any]:
    settings = predict(hardware="my-h100", strategies=["ar", "sd"], **given).configuration.settings
    return {name: settings[name] for name in ("target", "draft", "tp", "context")}


@pytest.mark.usefixtures("mine")
def test_its_models_and_sizes_are_defaults_which_options_replace() -> None:
    assert settings_of() == {"target": "llama-3.1-8b", "draft": "llama-3.2-1b", "tp": 2, "context": 2048}
    assert settings_of(tp=1, context=512)["tp"] == 1
    assert settings_of(draft="llama-3.2-3b") == settings_of() | {"draft": "llama-3.2-3b"}
    other = settings_of(target="qwen3-32b")
    assert other == {"target": "qwen3-32b", "draft": "qwen3-0.6b", "tp": 4, "context": 2048}


@pytest.mark.usefixtures("mine")
def test_the_header_says_what_is_of_the_profile() -> None:
    told = " ".join(asked("predict", "--hardware", "my-h100", "--tp", "1").stdout.split())
    assert "on my-h100, TP 1, context 2048 (target, draft, context, dtype: as calibrated)" in told
    answer = json.loads(asked("predict", "--hardware", "my-h100", "--json").stdout)
    assert answer["scenario"]["target"] == {"value": "llama-3.1-8b", "source": CALIBRATED}
    assert "as calibrated" not in asked("predict").stdout


@pytest.mark.usefixtures("mine")
def test_a_grid_takes_each_profiles_own() -> None:
    table = sweep(hardware=["h100-sxm", "my-h100"], strategies=["ar"], tp=[2])
    alone = [predict(hardware=name, strategies=["ar"], tp=2).estimates["ar"] for name in ("h100-sxm", "my-h100")]
    assert list(table["ar_tokens_per_second"]) == pytest.approx([each.tokens_per_second for each in alone])


def test_a_run_folder_keeps_the_profile(mine: Path, tmp_path: Path) -> None:
    sweep(hardware="my-h100", strategies=["ar", "sd"], b=[1, 2], folder=tmp_path / "run")
    (mine / "my-h100.json").unlink()
    assert "llama-3.1-8b" in report(tmp_path / "run").html


def test_the_users_profiles_are_listed_found_and_completed(mine: Path) -> None:
    assert full_hardware_name("my-h100") == full_hardware_name("MY_H100") == str(mine / "my-h100.json")
    assert list(own_profiles()) == ["my-h100"]
    assert asked("hardware", "list").stdout.split("\n")[1].split()[0] == "my-h100"
    assert asked("hardware", "show", "my-h100").stdout.startswith("my-h100: ")
    assert find_hardware("h100").name == "h100-sxm"  # no short name of a bundled one is taken over
    with pytest.raises(InputError, match=r"unknown hardware 'mine'.* my-h100, "):
        find_hardware("mine")


def test_a_name_of_a_bundled_profile_is_not_taken_over(mine: Path) -> None:
    (mine / "my-h100.json").rename(mine / "h100-sxm.json")
    with pytest.raises(InputError, match=r"hardware 'h100-sxm' is bundled, and yours in .*h100-sxm.json: rename that"):
        find_hardware("h100-sxm")
    assert find_hardware(mine / "h100-sxm.json").calibrated == MADE_FOR


def test_a_profile_of_before_says_nothing_and_asks_as_before(tmp_path: Path) -> None:
    find_hardware("h100-sxm").save(tmp_path / "old.json")
    assert "calibrated" not in json.loads((tmp_path / "old.json").read_text())
    assert predict(hardware=str(tmp_path / "old.json")).configuration.settings["target"] == "llama-3.1-70b"


@pytest.mark.long
@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("named", [[], ["ar"]])
def test_a_search_is_for_the_profiles_models(named: list[str]) -> None:
    request = {"hardware": "my-h100", **({"strategies": named} if named else {})}
    found = recommend(gpus=2, b=4, **request).request.options
    assert (found["target"], found["context"]) == ("llama-3.1-8b", 2048)
    assert recommend(gpus=2, b=4, target="qwen3-32b", **request).request.options["target"] == "qwen3-32b"
    assert candidates(b=1, context=512, **request).options["target"] == "llama-3.1-8b"


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("verb", ["why", "recommend --gpus 2", "window"])
def test_other_verbs_call_it_by_its_name(verb: str, mine: Path) -> None:
    told = asked(*verb.split(), "--hardware", "my-h100", "--quiet").stdout
    assert "my-h100" in told
    assert str(mine) not in told


def test_the_runtime_beside_it_is_its_own(mine: Path) -> None:
    save_runtime(find_runtime("kernels").changed(name="mine"), mine / "my-h100.runtime.toml")
    assert runtime_of(find_hardware("my-h100"), "my-h100")[0].name == "mine"
    assert "beside my-h100" in " ".join(asked("hardware", "show", "my-h100").stdout.split())
