"""Python calls with arguments that no caller should pass, and files that only Python reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import ssdsim
from calibration.timings.rows import CalibrationLog
from calibration.validation.comparison import GRIDS, read_or_start
from ssdsim.base.kinds import Flag
from ssdsim.base.plain import plain
from ssdsim.question.options import ALL, DEFAULTS
from ssdsim.serving.schedule_file import Schedule
from tests.mutations.files import changed_csv, changed_json
from tests.mutations.fitting import value_of
from tests.mutations.input import Input
from tests.mutations.values import changed_value, likely_value, odd

_ARRAYS: tuple[Any, ...] = (
    1j,
    b"x",
    object(),
    Path("absent"),
    range(3),
    (0.5, 0.6),
    np.array([1, 2]),
    np.float64(0.5),
    np.int64(2),
    np.nan,
)
_UNIT_FREE: Mapping[str, Any] = {"t_sd": 0.2, "alpha": 0.9, "k": 5, "p_hit": 0.85}
_PRICED: Mapping[str, Any] = {"b": 2, "k": 3, "f": 2}
_CALLS: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "predict": (ssdsim.predict, _UNIT_FREE),
    "configure": (ssdsim.configure, _PRICED),
    "sweep": (ssdsim.sweep, {**_UNIT_FREE, "k": [2, 3]}),
    "window": (ssdsim.window, {"k": 3}),
    "roofline": (ssdsim.roofline, {"k": 3}),
    "schedule": (ssdsim.schedule, {"b": 1, "k": 2, "f": 2}),
    "recommend": (ssdsim.recommend, {"gpus": 2, "k": 3, "target": "llama-3.1-8b", "budget": 8}),
}
_MORE = ("seed", "solver", "draws", "preset", "precision", "rank", "gpus", "at_least", "optoin")


def python_call(rng: Random) -> Input:
    name = rng.choice(sorted(_CALLS))
    function, usual = _CALLS[name]
    given = dict(usual)
    for _ in range(rng.choice((1, 1, 2))):
        option = rng.choice((*DEFAULTS, *_MORE))
        fits = option in ALL and rng.random() < 0.6
        given[option] = _fitting(option, rng) if fits else _odd(given.get(option, DEFAULTS.get(option)), rng)
    given.pop("jobs", None)
    return Input("python call", f"ssdsim.{name}(**{given!r})", lambda: function(**given))


def _fitting(name: str, rng: Random) -> Any:
    """What a person may pass, of the option's own kind."""
    kind = ALL[name].kind
    return True if isinstance(kind, Flag) else kind.parse(value_of(name, kind, rng))


def _odd(value: Any, rng: Random) -> Any:
    if rng.random() < 0.3:
        return rng.choice(_ARRAYS)
    if rng.random() < 0.5:
        return likely_value(value, rng)
    return changed_value(value, rng) if rng.random() < 0.5 else odd(rng)


@lru_cache
def _schedule() -> Schedule:
    return ssdsim.schedule(b=[1, 4], k=[2, 3], f=2)


def schedule_file(rng: Random) -> Input:
    """A schedule as JSON or CSV."""
    made = _schedule()
    content = changed_json(json.loads(made.to_json()), rng) if rng.random() < 0.6 else changed_csv(made.to_csv(), rng)
    return Input("schedule", "Schedule.load('schedule')", lambda: Schedule.load("schedule"), {"schedule": content})


def validation_log(rng: Random) -> Input:
    """The log of a validation that is to be resumed."""
    point = GRIDS["short"][0]
    interval = {"value": 0.02, "low": 0.019, "high": 0.021}
    comparison = {
        "point": plain(point), "strategy": "ssd", "devices": [1, 1], "measured": interval,
        "predicted_s": 0.02, "tokens_per_round": 2.5,
        "tokens_repeats": [2.5, 2.5], "parts": {"verify": [0.01, 0.01]}, "repeats_s": [0.02, 0.02],
    }  # fmt: skip
    records = [{"schema": 3, "bench": {"seed": 0}, "profiles": "x"}, {"key": point.key, "comparisons": [comparison]}]
    at = rng.randrange(2)
    lines = [
        changed_json(record, rng) if number == at else json.dumps(record).encode()
        for number, record in enumerate(records)
    ]
    return Input(
        "validation log",
        "read_or_start('log.jsonl')",
        lambda: read_or_start(Path("log.jsonl"), {"seed": 0}, "x"),
        {"log.jsonl": b"\n".join(lines)},
    )


def calibration_log(rng: Random) -> Input:
    """The log of a calibration that is to be resumed."""
    machine = {"device": "cpu", "torch": "2"}
    records = [{"schema": 2, "machine": machine}, {"key": "p", "visit": 1, "at_s": 1.0, "result": {"seconds": 0.1}}]
    at = rng.randrange(2)
    lines = [
        changed_json(record, rng) if number == at else json.dumps(record).encode()
        for number, record in enumerate(records)
    ]
    return Input(
        "calibration log",
        "Log('log.jsonl').open()",
        lambda: [
            visit.seconds
            for visits in CalibrationLog(Path("log.jsonl"), machine).open().visits.values()
            for visit in visits
        ],
        {"log.jsonl": b"\n".join(lines)},
    )
