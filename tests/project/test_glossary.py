"""The glossary: the word that a reader looks for has a heading, and the site's search puts the page first."""

from __future__ import annotations

import re

import pytest

from site_generator.notebooks import PROJECT

PAGE = (PROJECT / "docs" / "glossary.md").read_text()
TERMS = re.findall(r"^## (.*)$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("word", ["Hit rate", "Outcome", "Window", "Glue pass", "Backup", "Round", "Runtime", "TPOT"])
def test_a_word_has_a_heading(word: str) -> None:
    assert word in TERMS


def test_the_search_finds_it_first() -> None:
    """The search weighs this page's headings above those of every other page."""
    boosts = [re.search(r"boost: (\d+)", path.read_text()[:200]) for path in (PROJECT / "docs").rglob("*.md")]
    assert [found[1] for found in boosts if found] == ["8"]
    assert PAGE.startswith("---\nsearch:\n  boost: 8\n---\n")
    assert sorted(TERMS, key=str.lower) == TERMS


def test_the_word_backup_is_said_of_what_answers_a_miss() -> None:
    assert "also spelled `--fallback`" in PAGE
