"""The copies that a run folder keeps of the files that its options name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssdsim.runs.named_files import keep, names_in_folder
from ssdsim.transformer.huggingface import quantisation_file


def test_files_of_one_name_never_share_a_copy(tmp_path: Path) -> None:
    """Even where the number that tells two apart is another one's own name."""
    given = [tmp_path / place for place in ("x/a.json", "y/a.json", "z/a-2.json")]
    for path in given:
        path.parent.mkdir()
        path.write_text(str(path))
    names = names_in_folder(tmp_path / "run", given)
    assert list(names.values()) == ["files/a.json", "files/a-2.json", "files/a-2-2.json"]
    keep(tmp_path / "run", names)
    assert [(tmp_path / "run" / name).read_text() for name in names.values()] == [str(path) for path in given]


def test_a_models_folder_is_kept_as_its_config_under_its_name(tmp_path: Path) -> None:
    for place in ("one/hf", "two/hf"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "config.json").write_text(place)
    given = [tmp_path / "one/hf", tmp_path / "two/hf", tmp_path / "one/hf/config.json", "llama-3.1-8b"]
    names = names_in_folder(tmp_path / "run", given)
    assert list(names.values()) == ["files/hf/config.json", "files/hf-2/config.json", "files/hf/config.json"]
    keep(tmp_path / "run", names)
    assert (tmp_path / "run/files/hf-2/config.json").read_text() == "two/hf"


@pytest.mark.parametrize("prefix", ["", "Some--Model_"])
def test_what_says_how_a_model_is_quantised_is_kept_beside_its_config(tmp_path: Path, prefix: str) -> None:
    given = tmp_path / "hf" / f"{prefix}config.json"
    given.parent.mkdir()
    given.write_text("config")
    given.with_name(f"{prefix}hf_quant_config.json").write_text("quantisation")
    names = names_in_folder(tmp_path / "run", [given])
    keep(tmp_path / "run", names)
    kept = tmp_path / "run" / names[str(given)]
    assert kept.read_text() == "config"
    assert quantisation_file(kept).read_text() == "quantisation"
    assert not list(kept.parent.glob("*.partial"))


def test_a_profiles_runtime_is_kept_beside_it(tmp_path: Path) -> None:
    given = tmp_path / "m.json"
    given.write_text("profile")
    given.with_name("m.runtime.toml").write_text("runtime")
    names = names_in_folder(tmp_path / "run", [given])
    keep(tmp_path / "run", names)
    assert (tmp_path / "run" / names[str(given)]).with_name("m.runtime.toml").read_text() == "runtime"
