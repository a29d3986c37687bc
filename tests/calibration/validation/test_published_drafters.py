"""What was published of drafters is replayed within what the rows claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from calibration.validation.measured import check_rows
from calibration.validation.paper import load_paper
from calibration.validation.published_drafters import PublishedRounds, PublishedRows, Trees, least_worst
from ssdsim.base.bundled import models_folder
from ssdsim.base.errors import InputError
from ssdsim.cli.main import cli
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.question.configuration import configure
from ssdsim.readers.row import Row
from tests.refusals import refused

WORST = {"eagle2024": 0.06, "magicdec2024": 0.03, "medusa2024": 0.05, "vllm-eagle": 0.03, "tensorrt-llm-r1": 0.10}


@pytest.mark.parametrize("name", WORST)
def test_every_row_is_within_its_claim(name: str) -> None:
    paper = load_paper(name)
    assert isinstance(paper, PublishedRows)
    for rows in paper.rows:
        replay = rows.replay()
        assert replay.worst <= rows.within <= WORST[name], replay.about


def test_the_command_says_so_and_exits_by_it() -> None:
    asked = ["validate", "paper", "vllm-eagle", "--json"]
    shown = CliRunner().invoke(cli, asked, standalone_mode=False)
    assert shown.exception is None
    document = json.loads(shown.output)
    assert [rows["unit"] for rows in document["rows"]] == ["ms a round", "ms a round"]
    assert "a draft step" in document["rows"][0]["fitted"]
    assert document["worst_error"] < 0.03
    assert CliRunner().invoke(cli, [*asked[:3], "--max-error", "0.001"]).exit_code == 1
    refused = CliRunner().invoke(cli, [*asked[:3], "--hardware", "h100-sxm"], standalone_mode=False)
    assert isinstance(refused.exception, InputError)


def test_what_was_not_fitted_is_judged() -> None:
    """A card of one's own rows: two lookaheads fix the costs, the third is predicted."""
    paper = load_paper("vllm-eagle")
    assert isinstance(paper, PublishedRows)
    rows = paper.rows[1]
    assert isinstance(rows, PublishedRounds)
    replay = rows.changed(fitted_k=(2, 3, 4, 5)).replay()
    assert replay.judged == (False, False, False, False, True, True)
    assert np.abs(replay.errors[4:]).max() < 0.06


def test_nothing_of_eagle_2_is_fitted_and_its_lengths_come_out() -> None:
    paper = load_paper("eagle2024")
    assert isinstance(paper, PublishedRows)
    chains, eagle_1, eagle_2 = (rows.replay() for rows in paper.rows)
    assert chains.judged[0]
    assert not any(eagle_1.judged)
    assert "0.31" in eagle_1.fitted
    assert all(eagle_2.judged)
    assert isinstance(paper.rows[2], Trees)
    assert paper.rows[2].share == 0.31
    assert eagle_2.worst < 0.05


def test_trees_that_say_too_little_are_refused() -> None:
    rows = {"kind": "trees", "about": "a", "names": ["x"], "tokens": [2.0], "within": 0.1, "rates": [[0.5]]}
    for wrong in ({}, {"paths": ["1"], "nodes": [2]}, {"nodes": [2, 3]}, {"paths": ["1"], "ranks": [[[0.5]]]}):
        with pytest.raises(ValueError, match=r"trees need paths or nodes|must be lists of one length"):
            Trees(**{**rows, **wrong})


TREES = {"kind": "trees", "about": "a", "names": ["x"], "tokens": [2.0], "within": 0.1}
OF_SHAPES = {
    "a path that ends its line": {"rates": [[0.5]], "paths": ["1\n"]},
    "a rank of no rate": {"ranks": [[[0.5, 0.2]]], "paths": ["1", "3"]},
    "a path that is there twice": {"rates": [[0.5]], "paths": ["1", "1"]},
    "rates above 1 together": {"ranks": [[[0.1, 0.95], [0.1, 0.95]]], "nodes": [3], "depth": 2},
    "a path without its parent": {"rates": [[0.5, 0.5]], "paths": ["12"]},
    "fewer levels than the tree": {"rates": [[0.5]], "nodes": [3], "depth": 2},
}


@pytest.mark.parametrize("shape", OF_SHAPES)
def test_a_tree_that_no_guesses_make_is_refused(shape: str) -> None:
    with pytest.raises(ValueError, match=r"paths|ranks|levels"):
        Trees(**TREES, **OF_SHAPES[shape])


@given(
    st.lists(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.text("1234", min_size=1, max_size=4), max_size=6),
    st.integers(0, 12),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_a_tree_that_is_not_refused_has_its_tokens(
    ranks: list[list[float]], paths: list[str], nodes: int, depth: int, beam: int
) -> None:
    drafted: dict[str, Any] = {"paths": paths} if paths else {"nodes": [nodes], "depth": depth, "beam": beam}
    try:
        trees = Trees(**TREES, ranks=[ranks], **drafted)
    except ValueError:
        return
    (tokens,) = trees.replay().predicted
    assert 1.0 <= tokens <= 1.0 + (max(map(len, paths)) if paths else depth)


def test_rows_that_nothing_can_be_fitted_to_are_refused() -> None:
    paper = load_paper("vllm-eagle")
    assert isinstance(paper, PublishedRows)
    assert isinstance(paper.rows[0], PublishedRounds)
    with pytest.raises(ValueError, match="fitted_k must be some of k, got 9"):
        PublishedRounds(**{**paper.rows[0].as_dict(), "fitted_k": (9,)})


def test_what_prompts_take_of_a_token_is_told_by_decoding_alone() -> None:
    """Rows of several data sets: a token's share of its prompt is in every token of a round."""
    paper = load_paper("vllm-eagle")
    assert isinstance(paper, PublishedRows)
    rows = paper.rows[0]
    assert isinstance(rows, PublishedRounds)
    prompts = np.array([0.0, 0.3, 0.1, 0.0, 0.5, 0.2])
    longer = tuple((np.array(rows.ms) + prompts).tolist())
    mixed = rows.changed(ms=longer)
    told = rows.changed(ms=longer, ar_ms=tuple((7.07 + prompts).tolist()))
    assert told.replay().published == pytest.approx(rows.replay().published)
    assert told.replay().worst == pytest.approx(rows.replay().worst)
    assert mixed.replay().worst > 2.0 * told.replay().worst
    with refused("ar_ms", error=ValueError):
        PublishedRounds(**{**rows.as_dict(), "ar_ms": (7.07,)})


@given(step=st.floats(0.1, 3.0), extra=st.floats(-1.0, 3.0))
def test_a_line_is_found_again(step: float, extra: float) -> None:
    k = np.arange(1.0, 6.0)
    terms, base = np.column_stack([k, np.ones(5)]), np.full(5, 8.0)
    assert least_worst(terms, base, base + terms @ [step, extra]) == pytest.approx([step, extra], abs=1e-6)


def test_lists_of_two_lengths_are_refused(tmp_path: Path) -> None:
    text = (models_folder() / "published" / "vllm-eagle.toml").read_text(encoding="utf-8")
    card = tmp_path / "rows.toml"
    card.write_text(text.replace("k = [2, 3, 4, 5, 6, 7]", "k = [2, 3]", 1))
    with pytest.raises(InputError, match="lists of one length"):
        load_paper(str(card))


@pytest.mark.parametrize(("name", "ar_ms", "most"), [("vllm-eagle", 7.07, 0.035), ("tensorrt-llm-r1", None, 0.035)])
def test_a_cards_own_rounds_are_those_that_were_published(name: str, ar_ms: float | None, most: float) -> None:
    """In steps without speculation: what the card misses of the target alone is another matter."""
    paper = load_paper(name)
    assert isinstance(paper, PublishedRows)
    for rows in paper.rows:
        assert isinstance(rows, PublishedRounds)
        published = dict(zip(rows.k, np.multiply(rows.tokens, rows.ms), strict=True))
        alone_ms = published.pop(0) if ar_ms is None else ar_ms
        for k, ms in published.items():
            assert round_s(rows, k) / round_s(rows, 0) == pytest.approx(ms / alone_ms, rel=most), (rows.about, k)


def round_s(rows: PublishedRounds, k: int) -> float:
    """As predict has it on the rows' card, which is AR's step for a ``k`` of 0."""
    drafts = {"k": k, "drafter": rows.drafter, "alpha": 0.5, "draft_dtype": rows.draft_dtype} if k else {}
    asked = {"strategies": ("sd" if k else "ar",), "dtype": rows.dtype, **drafts}
    setting = {name: getattr(rows, name) for name in ("target", "hardware", "tp", "context")}
    asked["engine"] = rows.runtime
    (scenario,) = configure(**setting, **{name: value for name, value in asked.items() if value}).scenarios.values()
    return float(scenario.estimate.round_s)


@pytest.mark.parametrize(("sequences", "tokens", "speed"), [(1, 6.35, 1162.0), (32, 6.48, 15327.0)])
def test_rounds_of_speculation_v2_lie_inside_the_interval_of_its_card(
    sequences: int, tokens: float, speed: float
) -> None:
    """DFlash on one B200 (SGLang's pull requests 16818 and 20547): nothing of v2 is fitted, and its card says so."""
    row = on_a_b200(sequences, tokens, speed)
    first, second = (check_rows([row], find_runtime(name))[0] for name in ("sglang", "sglang-v2"))
    assert second.holds
    assert second.predicted == pytest.approx(first.predicted, rel=1e-12)
    assert second.high / second.low > first.high / first.low


def test_v2_fitted_to_32_sequences_holds_one_and_v1_does_not() -> None:
    """What a round takes more than predicted is put down to its sequences. Their prompts are in it, too.

    Of v1 one sequence is then told 20 % too fast: what its scheduler waits for is no sequence's part.
    """
    errors = []
    for name, one, many in (("sglang-v2", 1162.0, 15327.0), ("sglang", 846.0, 11406.0)):
        card = find_runtime(name)
        (before,) = check_rows([on_a_b200(32, 6.48, many)], card)
        more_s = 6.48 * (1.0 / many - 1.0 / before.predicted)
        fitted = card.with_numbers({"per_round_sequence_s": card.host.per_round_sequence_s + more_s})
        (there,) = check_rows([on_a_b200(32, 6.48, many)], fitted)
        assert there.predicted == pytest.approx(many, rel=1e-6)
        (held,) = check_rows([on_a_b200(1, 6.35, one)], fitted)
        errors.append(held.predicted / one - 1.0)
    assert errors == pytest.approx([-0.10, 0.20], abs=0.02)


def on_a_b200(sequences: int, tokens: float, speed: float) -> Row:
    """Qwen3-8B, DFlash, K 15; prompts' lengths are not published and count as nothing."""
    return Row(
        model="qwen3-8b",
        hardware="b200-sxm",
        batch=sequences,
        input_tokens=0,
        output_tokens=1200,
        metric="tokens_per_s",
        value=speed,
        k=15,
        drafter="dflash",
        acceptance_length=tokens,
    )
