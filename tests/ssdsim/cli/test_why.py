"""``ssdsim why``: one screen on what binds a pass and how much drafting fits; both former verbs work, and say so."""

from __future__ import annotations

import json

import pytest

from ssdsim.cli.main import FORMER, SECTIONS, VERBS
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--b 16", "reading weights and caches: more tokens in a pass cost little"),
        ("--target llama-3.1-8b --tp 1 --b 256", "arithmetic: every drafted token costs time to verify"),
    ],
)
def test_it_says_what_binds_a_verification(words: str, said: str) -> None:
    screen = " ".join(asked("why", *words.split(), "--quiet").stdout.split())
    assert said in screen
    assert "Drafting" in screen
    assert "Cache" in screen


def test_its_screen_has_fifteen_lines_of_eighty_columns() -> None:
    lines = asked("why", "--b", "16", "--quiet").stdout.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80


def test_where_no_draft_has_room_it_says_so_and_still_what_binds() -> None:
    screen = asked("why", "--tp", "8", "--quiet").stdout
    assert "Verifying takes" in screen
    assert "SSD needs 8 target and 1 draft devices" in " ".join(screen.split())


@pytest.mark.parametrize(
    ("former", "words"),
    [("window", "--tp 2,4 --b 1,16"), ("roofline", "--b 16 --pass verify")],
)
def test_a_former_verb_prints_the_same_and_names_the_new_one(former: str, words: str) -> None:
    old, new = (asked(verb, *words.split(), "--quiet") for verb in (former, "why"))
    assert (old.stdout, old.returncode) == (new.stdout, 0)
    assert old.stderr == f"note: ssdsim {former} is ssdsim why now\n"
    assert new.stderr == ""


def test_json_has_both() -> None:
    told = json.loads(asked("why", "--b", "16", "--json", "--quiet").stdout)
    assert {each["pass"] for each in told["passes"]} >= {"verify", "draft step"}
    assert [row["b"] for row in told["windows"]] == [16]
    several = json.loads(asked("why", "--b", "1,16", "--json", "--quiet").stdout)
    assert len(several["windows"]) == 2
    assert "passes" not in several


def test_a_pass_that_is_not_there_is_refused() -> None:
    assert_refused(asked("why", "--pass", "verfy"), "verfy", "verify")


def test_help_lists_verbs_below_three_headings_and_no_former_one() -> None:
    text = asked("--help").stdout
    places = [text.index(f"\n{heading}:\n") for heading in ("Decide", "Use your numbers", "Study")]
    assert places == sorted(places)
    assert list(SECTIONS) == ["Decide", "Use your numbers", "Study"]
    assert not FORMER.keys() & VERBS.keys()
    assert not any(f"\n  {verb} " in text for verb in FORMER)
