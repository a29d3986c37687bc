"""``ssdsim validate pair``: a trained pair on two real ranks, beside what its file predicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from site_generator.json_reference import undescribed
from ssdsim.tokens.pair_file import load_pair
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked

pytestmark = [pytest.mark.long, pytest.mark.ranks]

MEASURED = 12  # prompts, from the beginning of the file; others are answered


@pytest.fixture(scope="module")
def pair(trained_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``pair.json`` at temperature 0, and ``others.jsonl`` with prompts that it was not measured on."""
    folder = tmp_path_factory.mktemp("pair")
    lines = (trained_pair / "code.jsonl").read_text().splitlines()
    (folder / "asked.jsonl").write_text("\n".join(lines[:MEASURED]))
    (folder / "others.jsonl").write_text("\n".join(lines[MEASURED:]))
    models = ["--target", str(trained_pair / "target"), "--draft", str(trained_pair / "draft")]
    prompts = ["--prompts", str(folder / "asked.jsonl"), "--temperature", "0", "--max-new-tokens", "40"]
    done = asked("measure", *models, *prompts, "-o", str(folder / "pair.json"), "--quiet")
    assert done.returncode == 0, done.stderr
    for role in ("target", "draft"):
        (folder / role).symlink_to(trained_pair / role)
    return folder / "pair.json"


def arguments(pair: Path, *more: str) -> list[str]:
    prompts = ["--prompts", str(pair.with_name("others.jsonl"))]
    return ["validate", "pair", str(pair), *prompts, *more, "--quiet"]


def test_real_models_say_what_the_target_would(pair: Path, tmp_path: Path) -> None:
    """The models lie beside the file that names them. How fast they are is told, and not asserted: cores are shared."""
    size = ["--requests", "3", "--repeats", "2", "--max-new-tokens", "24", "--k", "3", "--f", "2", "--visits", "24"]
    done = asked(*arguments(pair, *size, "-o", str(tmp_path / "run"), "--json"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert undescribed("validate pair", document) == []
    by_name = {each["strategy"]: each for each in document["comparisons"]}
    assert list(by_name) == ["ar", "sd", "ssd"]
    for each in by_name.values():
        greedy = each["greedy"]
        assert (greedy["requests"], greedy["bugs"]) == (6, 0)
        assert greedy["identical"] + greedy["near_ties"] == 6
        assert len(each["measured"]) == len(each["beside"]) == 2
        assert min(*each["measured"], *each["beside"], each["predicted"]) > 0.0
    assert by_name["ar"]["tokens_per_round"] == {"measured": 1.0, "predicted": 1.0}
    sd, ssd = by_name["sd"], by_name["ssd"]
    # greedy, with the same draft on a hit and on a miss
    assert sd["tokens_per_round"]["measured"] == ssd["tokens_per_round"]["measured"]
    assert sd["tokens_per_round"]["predicted"] == pytest.approx(ssd["tokens_per_round"]["predicted"])
    assert 1.0 < sd["tokens_per_round"]["measured"] <= 4.0
    assert sd["acceptance"]["predicted"] == load_pair(pair).by_temperature[0].alpha.mean
    assert 0.0 < ssd["p_hit"]["measured"] <= 1.0
    steps = json.loads((tmp_path / "run" / "steps.json").read_text())["seconds"]
    assert set(steps["ssd"]) > {"verify", "pre-speculate", "fallback", "outcome", "speculation"}


def test_what_cannot_be_run_is_told(pair: Path, trained_pair: Path, tmp_path: Path) -> None:
    folder = ["-o", str(tmp_path)]
    cases = [
        (["validate", "pair", str(pair), *folder], "--prompts"),
        (arguments(pair, "--rounds", "9"), "--rounds"),
        (["validate", "--visits", "20"], "--visits"),
        (arguments(pair, "--strategies", "ar,pearl", *folder), "pearl"),
        (arguments(pair, "--strategies", "sd", *folder), "ar"),
        (arguments(pair, "--target-device", "cpu:0-1", *folder), "one device for each model"),
        (arguments(pair, "--max-new-tokens", "4", *folder), "--max-new-tokens, 10"),
        (
            arguments(pair, "--draft", str(trained_pair / "target"), *folder),
            "is not the model that pair.json was measured",
        ),
    ]
    for command, names in cases:
        assert_refused(asked(*command), *names.split(", "))
