"""The page of long contexts is what its script works out, and what its sentences say is so."""

from __future__ import annotations

import long_contexts
import pytest

from site_generator.shown import PROJECT

PAGE = (PROJECT / "docs" / "long_contexts.md").read_text(encoding="utf-8")


def test_a_row_is_what_its_script_works_out() -> None:
    """Update with ``python docs/long_contexts.py`` after looking at the difference."""
    cells = (long_contexts.point("glm-5.2", "vllm", 8, context).told for context in long_contexts.CONTEXTS)
    assert f"| GLM-5.2 | vLLM | 8 | {' | '.join(cells)} |" in PAGE


def test_the_page_says_first_for_which_drafts_it_holds_and_what_it_is_for_others() -> None:
    first = PAGE.split("\n\n")[1].replace("\n", " ")
    assert first.startswith("**With a draft that accepts as often at a long context as at a short one")
    assert "turns at a rate of 0." in first
    assert "EAGLE-3" in first
    lines = [long_contexts.of_the_head(context) for context in (8192, 131072)]
    assert all(line in PAGE for line in lines)
    short, long = (float(line.split("|")[2].split()[0]) for line in lines)
    assert long < short < 0.8


@pytest.mark.parametrize("model", [name for name in long_contexts.SPARSE if name != "deepseek-v4-pro"])
@pytest.mark.parametrize("engine", long_contexts.ENGINES)
def test_the_choice_grows_and_is_shared_while_attention_stays(model: str, engine: str) -> None:
    short, long = (long_contexts.parts(model, engine, context) for context in (8192, 131072))
    for name in ("decode", "verify"):
        assert long[name][0] > 1.3 * short[name][0]
        assert long[name][1] == pytest.approx(short[name][1])
    assert long["decode"][0] < long["verify"][0] < 1.2 * long["decode"][0]
    at = [long_contexts.point(model, engine, 1, context).ratio for context in (8192, 131072)]
    assert min(at) > 1.8
    assert at[1] == pytest.approx(at[0], rel=0.15)


def test_both_parts_of_entries_grow_by_little() -> None:
    short, long, longest = (
        long_contexts.parts("deepseek-v4-pro", "vllm", context) for context in (8192, 131072, 1_000_000)
    )
    for name in ("decode", "verify"):
        for part in (0, 1):
            assert short[name][part] < long[name][part] < 1.35 * short[name][part]
            assert longest[name][part] > long[name][part]


def test_attention_to_all_tokens_is_another_matter() -> None:
    short, long = (long_contexts.point("deepseek-r1", "vllm", 64, context).ratio for context in (8192, 131072))
    assert long < 0.8 * short
