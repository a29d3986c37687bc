"""Each room of the two houses has a budget of lines and files: what is added has to find what it replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from site_generator.shown import PROJECT

# room: (lines, files of more than three lines). A room whose budget rises says why, in a sentence beside it.
BUDGETS = {
    "ssdsim/advise": (3_810, 18),  # one rule for recommend and export, the command for all loads, who keeps up
    "ssdsim/answers": (5_470, 29),  # each at its own best, at many points at once; how sure, where it turns, each C
    "ssdsim/base": (
        2_440,
        21,
    ),  # limits of files, what is JSON; spellings in Python; all that a card lacks, the road to one that is not there
    "ssdsim/cli": (
        4_760,
        29,
    ),  # SLOs below an idle pass, a plan's range; what plan searched; former names, next commands
    "ssdsim/hardware": (
        4_168,
        19,
    ),  # names of GPUs, what attention reads at best, errors by region, who speaks for small messages
    "ssdsim/pricing": (
        1_865,
        9,
    ),  # prompts in passes that decode; prompts in passes that decode, query heads that share keys
    "ssdsim/question": (
        4_081,
        22,
    ),  # formats that names say, a name of a scenario, defaults of engines and profiles, an engine without C
    "ssdsim/readers": (
        4_760,
        30,
    ),  # facts held against options, texts that people paste, a file a reader, rows of any strategy
    "ssdsim/reports": (5_580, 30),  # doubts that sliders move, sentences of stops, and rounds that ran come first
    "ssdsim/rounds": (1_270, 7),  # what a look at a slot finds in the long run
    "ssdsim/runs": (1_005, 6),
    "ssdsim/serving": (
        6_785,
        26,
    ),  # how many replicas an SLO needs and on which degrees, K at the load; short logs repeated
    "ssdsim/strategies": (5_440, 36),  # Saguaro's C, targets out of step, MineDraft's clock, Domino
    "ssdsim/tokens": (3_340, 21),  # priors of acceptance, and what Saguaro's C makes of acceptance and hits
    "ssdsim/transformer": (3_410, 16),  # names of checkpoints, activations of a device; a GRU after a block
    "calibration/bench": (1_300, 8),
    "calibration/cli": (2_480, 13),  # first screens of bench, fit and measure, and what comes after a calibration
    "calibration/importers": (2_520, 15),
    "calibration/machine": (2_365, 14),  # what other programs take of the cores
    "calibration/pairs": (3_500, 18),
    "calibration/runtimes": (1_130, 5),  # versions, mixed passes; which rows tell a number, and where a fit ends
    "calibration/timings": (3_418, 21),  # what a calibration is for where nobody says it; whether the latency was timed
    "calibration/validation": (
        2_990,
        13,
    ),  # runs as the profile was calibrated; a hit law of all pairs, trees of tables, batches
}
HOUSES = {"ssdsim": 58_140, "calibration": 19_622}  # the SSD engine's speeds; who keeps up; logs that are too short
MOST_FILES = 426
_EMPTY = 3  # lines of a file that only says what its folder is for


def lengths(folder: Path) -> list[int]:
    """Lines of each module; the build makes ``typed_options.py``."""
    return [path.read_text().count("\n") for path in folder.rglob("*.py") if path.name != "typed_options.py"]


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_keeps_to_its_budget(room: str) -> None:
    lines, files = BUDGETS[room]
    found = lengths(PROJECT / room)
    assert sum(found) <= lines
    assert sum(length > _EMPTY for length in found) <= files


def test_every_room_has_a_budget() -> None:
    folders = [path for house in HOUSES for path in (PROJECT / house).iterdir() if (path / "__init__.py").exists()]
    assert {str(path.relative_to(PROJECT)) for path in folders} == BUDGETS.keys()


def test_both_houses_keep_to_theirs() -> None:
    found = {house: lengths(PROJECT / house) for house in HOUSES}
    assert [house for house, each in found.items() if sum(each) > HOUSES[house]] == []
    assert sum(length > _EMPTY for each in found.values() for length in each) <= MOST_FILES
