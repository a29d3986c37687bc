"""Nothing is lost by a fault: the list of verbs is whole, some of them every time, all of them by night."""

from __future__ import annotations

import time
from random import Random

import pytest

from tests.faults.__main__ import is_bad
from tests.faults.trial import FAULTS, trial, whole
from tests.faults.writers import COMMANDS, UNTRIED, writers


def test_every_verb_that_writes_has_a_command() -> None:
    assert set(writers()) == {*COMMANDS, *UNTRIED}


@pytest.mark.slow
@pytest.mark.parametrize("verb", COMMANDS)
def test_a_fault_loses_doubles_and_changes_nothing(verb: str) -> None:
    """As a table: ``python -m tests.faults --trials 3``."""
    seed, expected = int(time.time()), whole(verb)
    for fault in FAULTS:
        found = trial(verb, fault, expected, Random(f"{seed}/{verb}/{fault}"))
        assert not is_bad(found), f"{verb}, {fault}, seed {seed}: {found}"
