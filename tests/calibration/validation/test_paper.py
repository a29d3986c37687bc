"""Published results: few numbers fitted, the rest predicted, within the bars."""

from __future__ import annotations

import math
import tomllib
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from calibration.validation.figures import datasets, engine_sweeps
from calibration.validation.paper import (
    PublishedTrees,
    TreeRows,
    load_paper,
    replay_demo,
    replay_families,
    replay_sweep,
    replay_trees,
)
from calibration.validation.published_drafters import least_worst
from calibration.validation.replay import PaperReplay, validate_paper
from site_generator.shown import PROJECT
from ssdsim import predict
from ssdsim.base.bundled import models_folder
from ssdsim.question.configuration import configure
from ssdsim.strategies.protocols.hits import R
from ssdsim.tokens.acceptance_models import ACCEPTANCE
from ssdsim.tokens.hit_models import PowerLawHits
from ssdsim.tokens.trees.shape import Tree
from tests.refusals import refused

PAPER, SEQUOIA = load_paper("kumar2026"), load_paper("sequoia")
assert isinstance(SEQUOIA, PublishedTrees)


def test_one_hit_law_meets_the_ssd_rows_of_both_pairs() -> None:
    replays = replay_families(PAPER, "h100-sxm")
    for replay in replays:
        assert np.abs(replay.errors).max() <= 0.06
        assert np.all((replay.alpha > 0.5) & (replay.alpha < 1.0))
        assert not replay.at_bound
        assert "K" in replay.family.assumed
    assert np.abs([replay.errors for replay in replays]).mean() <= 0.03
    assert len({replay.hit_c for replay in replays}) == 1


@pytest.mark.parametrize(("index", "other"), [(0, 1), (1, 0)])
def test_the_hits_of_one_pair_foretell_the_ssd_speeds_of_the_other(index: int, other: int) -> None:
    (told,) = replay_families(PAPER.changed(families=(PAPER.families[other],)), "h100-sxm")
    both = replay_families(PAPER, "h100-sxm")[index]
    assert told.hit_c == pytest.approx(both.hit_c, abs=0.06)


def test_k_of_qwen_as_of_llama_asks_for_hits_beyond_what_there_is_and_says_so() -> None:
    qwen = PAPER.families[1].changed(sd_k=6, ssd_k=7, fan_out=3)
    (replay,) = replay_families(PAPER.changed(families=(qwen,)), "h100-sxm")
    assert replay.at_bound
    assert replay.p_hit > 0.99


@pytest.mark.parametrize(("index", "name"), [(0, "kumar2026-llama"), (1, "kumar2026-qwen")])
def test_the_bundled_acceptance_is_what_the_replay_fits_and_predicts_the_sd_speeds(index: int, name: str) -> None:
    family, replay = PAPER.families[index], replay_families(PAPER, "h100-sxm")[index]
    rates = ACCEPTANCE.find(name).rates
    assert rates == tuple(round(float(each), 4) for each in replay.alpha)
    assert str(PAPER.setting_of(family)[0]) in ACCEPTANCE.find(name).source
    for rate, seen in zip(rates, family.sd_tokens_per_s, strict=True):
        given = {"target": family.target, "draft": family.draft, "context": PAPER.context, "alpha": rate}
        predicted = predict(**given, strategies="ar,sd", sd_k=PAPER.setting_of(family)[0]).estimates["sd"]
        assert predicted.tokens_per_second == pytest.approx(seen, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("index", range(4))
def test_the_engines_sweeps_keep_their_shape_over_k(index: int) -> None:
    replay = replay_sweep(PAPER, PAPER.sweeps[index], "h100-sxm")
    assert np.abs(replay.errors).mean() <= 0.05
    published, predicted = replay.best_k
    assert abs(published - predicted) <= 2
    assert replay.at_bound == (index == 3)  # vLLM's standalone draft, whose launches hide behind verification


@pytest.mark.parametrize(("rows", "verify"), list(zip(SEQUOIA.trees, (1.04, 1.10), strict=True)))
def test_one_time_of_a_verification_a_temperature_gives_sequoias_speed_ups(rows: TreeRows, verify: float) -> None:
    """Table 1's eight rows of Llama-2-7B."""
    replay = replay_trees(SEQUOIA, rows)
    assert replay.verify == pytest.approx(verify, abs=0.012)
    assert np.abs(replay.errors).max() <= 0.03


def test_sequoias_demo_ends_at_the_tree_it_ships() -> None:
    assert SEQUOIA.demo is not None
    demo_replay = replay_demo(SEQUOIA.demo)
    assert (demo_replay.nodes, demo_replay.levels) == (4, 4)
    assert (demo_replay.tokens, demo_replay.time_per_token) == pytest.approx((2.2914, 4.8878), abs=5e-5)
    assert demo_replay.speedup == pytest.approx(2.0459, abs=5e-5)
    assert demo_replay.tree == Tree.chain(3)


def test_an_unknown_paper_or_a_broken_card_is_one_line(tmp_path: Path) -> None:
    with refused("kumar2025", "kumar2026"):
        load_paper("kumar2025")
    card = tmp_path / "x.toml"
    card.write_text('name = "x"\nsurprise = 1')
    with refused("x.toml"):
        load_paper(str(card))


@pytest.mark.parametrize(
    ("name", "at", "value", "said"),
    [
        ("kumar2026", ("sweeps", 0, "k"), [3, math.nan, 5], "sweeps.0.k.1"),
        ("kumar2026", ("sweeps", 0, "k"), [[1]], "sweeps.0.k.0"),
        ("kumar2026", ("families", 0, "ar_tokens_per_s"), math.inf, "families.0.ar_tokens_per_s"),
        ("medusa2024", ("rows", 0, "paths", 0), "9", "paths"),
        ("medusa2024", ("rows", 0, "paths", 0), "", "rows.0.paths.0"),
        ("medusa2024", ("rows", 0, "ranks", 0), [], "rows.0.ranks.0"),
        ("eagle2024", ("rows", 0, "rates", 0), [], "rows.0.rates.0"),
        ("eagle2024", ("rows", 1, "rates", 0), [0.9], "rates"),
        ("magicdec2024", ("rows", 0, "tokens"), [2.0], "tokens"),
        ("sequoia", ("trees", 0, "speedups", 0), 1e6, "speedups"),
    ],
)
def test_an_odd_shape_or_number_in_a_papers_card_is_one_line(
    name: str, at: tuple[str | int, ...], value: Any, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "odd.toml"
    *inner, last = at
    card: Any = tomllib.loads((models_folder() / "published" / f"{name}.toml").read_text())
    reduce(getitem, inner, card)[last] = value
    path.write_text(tomli_w.dumps(card))
    with refused(said):
        validate_paper(str(path))


def test_rounds_that_no_cost_fits_are_one_line() -> None:
    with refused("tokens", "ms"):
        least_worst(np.array([[1.0], [2.0]]), np.array([1e9, 1.0]), np.array([1e-18, 1.0]))


def test_a_folder_and_a_file_that_is_no_text_are_one_line(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(bytes(range(256)))
    for path in (tmp_path, binary):
        with refused(str(path)):
            validate_paper(str(path))


@pytest.mark.long
def test_published_bars_and_predicted_marks() -> None:
    replay = replay_families(PAPER, "h100-sxm")[0]
    traces = {trace.name: list(trace.y) for trace in datasets(replay).data}
    assert traces["SSD, published"] == [283.0, 215.0, 224.0, 301.0]
    assert traces["SSD, predicted"] == pytest.approx(replay.ssd_tokens_per_s.tolist(), rel=1e-3)
    sweep = replay_sweep(PAPER, PAPER.sweeps[0], "h100-sxm")
    points = next(trace for trace in engine_sweeps([sweep]).data if trace.mode == "markers")
    assert list(points.y) == list(PAPER.sweeps[0].tokens_per_s)


@pytest.mark.parametrize(("batch", "backup"), [(1, "jit"), (4, "jit"), (8, "fast")])
def test_speeds_of_ones_own_at_any_batch_and_backup_are_found_again(batch: int, backup: str, tmp_path: Path) -> None:
    """The card of the page, with the speeds that the closed form gives at a known acceptance and hit rate."""
    card = tomllib.loads((PROJECT / "docs/how-to/validate.md").read_text().split("```toml\n")[1].split("```")[0])
    (family,) = card["families"]
    setting = {**{name: family[name] for name in ("target", "draft")}, "tp": card["tp"], "context": card["context"]}
    given = {**setting, "k": card["ssd_k"], "sd_k": card["sd_k"], "f": 3, "b": batch, "dtype": card["dtype"]}
    hit = float(PowerLawHits(r=R.default, c=0.3)(card["fan_out"]))
    ran = configure(**given, alpha=0.8, p_hit=hit, backup=backup).scenarios
    speeds = {name: [float(each.estimate.tokens_per_second)] for name, each in ran.items()}
    family |= {"sd_tokens_per_s": speeds["sd"], "ssd_tokens_per_s": speeds["ssd"], "ar_tokens_per_s": speeds["ar"][0]}
    (tmp_path / "ours.toml").write_text(tomli_w.dumps(card | {"batch": batch, "backup": backup}))
    replay = validate_paper(str(tmp_path / "ours.toml"))
    assert isinstance(replay, PaperReplay)
    assert replay.sweeps == []
    (found,) = replay.families
    assert (found.alpha[0], found.hit_c) == (pytest.approx(0.8, abs=1e-6), pytest.approx(0.3, abs=1e-3))
    assert replay.worst < 1e-4
    assert found.ar_tokens_per_s == pytest.approx(family["ar_tokens_per_s"])
