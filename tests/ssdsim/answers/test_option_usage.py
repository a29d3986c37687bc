"""An option that nobody asked for reads is a mistake; one that some strategy or some point reads is none."""

from __future__ import annotations

from typing import Any

import pytest

from ssdsim import predict, sweep
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

UNIT_FREE: dict[str, Any] = {"t_sd": 0.2}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strategies": "ar", "k": 5}, "--k"),
        ({"strategies": "ar", "alpha": 0.8}, "--alpha"),
        (
            {"strategies": "ar,sd", "f": 3},
            "--f",
        ),
        ({"strategies": "ssd", "sd_k": 3}, "--sd-k"),
        (
            {"strategies": "ar,pearl", "budget": 8},
            "--budget",
        ),
        ({"strategies": "ar,sd", "t_b": 0.1}, "--t-b"),
    ],
)
def test_what_no_strategy_reads_is_refused_by_predict_and_sweep(given: dict[str, Any], message: str) -> None:
    with refused(message):
        predict(**UNIT_FREE, **given)
    with refused(message):
        sweep(**UNIT_FREE, **given, b=[1, 2])


@pytest.mark.long
@pytest.mark.parametrize("verb", ["predict", "simulate --rounds 10", "sweep --b 1,2"])
def test_the_command_line_refuses_it_in_one_line(verb: str) -> None:
    done = asked(*verb.split(), "--strategies", "ar,sd", "--draft-gpus", "2")
    assert (done.returncode, done.stdout) == (2, "")
    only = "only SSD, Tree SSD, SSD by enumeration read it here"
    assert done.stderr == f"error: --draft-gpus has no effect with --strategies ar,sd: {only}\n"


@pytest.mark.parametrize(
    "given",
    [
        {"strategies": "ar", "b": 4, "context": 2048, "tp": 4, "temperature": 0.5, "spread": 0.0, "subject": "ar"},
        {"strategies": "sd", "k": 5, "sd_k": 3, "t_sd": 0.2},
        {"strategies": "ssd", "flm": [2, 1], "fl": [1, 2], "k": 1, "hit_c": 0.3, "t_sd": 0.1, "t_b": 0.0},
        {"strategies": "ar,ssd", "p_hit": 0.8, "p_hit_backup": 0.6, "alpha_backup": 0.1, "backup_ms": 0.1},
    ],
)
def test_what_one_of_them_reads_is_no_mistake(given: dict[str, Any]) -> None:
    assert predict(**given).estimates.keys() == set(given["strategies"].split(","))


def test_of_a_grid_some_point_has_to_read_it() -> None:
    table = sweep(**UNIT_FREE, strategies=[["ar"], ["ar", "ssd"]], f=[1, 2])
    assert list(table["ssd_tokens_per_second"].isna()) == [True, True, False, False]
    with refused("--f", "--strategies ar,sd"):
        sweep(**UNIT_FREE, strategies=[["ar"], ["ar", "sd"]], f=[1, 2])


def test_what_a_preset_brings_along_is_not_refused() -> None:
    assert len(sweep(preset="proposal-unit-free", strategies="sd", alpha=0.8, k=3, b=1, t_sd=0.2)) == 11


def test_a_strategy_without_room_may_have_read_it() -> None:
    assert predict(strategies="ar,ssd", tp=8, k=5).configuration.no_room.keys() == {"ssd"}


def test_a_drafter_is_nothing_where_nobody_drafts() -> None:
    with refused("--drafter", "--strategies ar"):
        predict(strategies="ar", drafter="eagle3", target="llama-3.1-8b", tp=1)
    assert asked("sweep", "--strategies", "ar", "--drafter", "ngram").returncode == 2
    assert predict(strategies="ar,sd", drafter="eagle3", target="llama-3.1-8b", tp=1).estimates.keys() == {"ar", "sd"}


@pytest.mark.parametrize("given", [{"draft": "llama-3.1-8b"}, {"draft_dtype": "float8"}, {"draft_hardware": "l40s"}])
def test_a_draft_is_nothing_where_nobody_drafts(given: dict[str, Any]) -> None:
    (name,) = given
    with refused(f"--{name.replace('_', '-')}", "--strategies ar"):
        predict(strategies="ar", **given)
    assert predict(strategies="ar,sd", **given).estimates.keys() == {"ar", "sd"}
    alone = predict(strategies="ar", target="llama-3.1-8b", tp=1).configuration.settings
    assert not {"draft", "draft_hardware", "draft_dtype", "alpha"} & set(alone)
