"""The front doors say what they take, give and refuse."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import ssdsim
from ssdsim.answers.simulation.simulate import simulate, simulate_requests

DOORS = (
    *(ssdsim.configure, ssdsim.evaluate, ssdsim.export, ssdsim.predict, ssdsim.recommend, ssdsim.report),
    *(ssdsim.roofline, ssdsim.schedule, ssdsim.sweep, ssdsim.window, simulate, simulate_requests),
)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_front_door_says_what_it_takes_gives_and_refuses(door: Callable[..., Any]) -> None:
    said = inspect.getdoc(door) or ""
    sections = dict(re.findall(r"^(Parameters|Returns|Raises)\n-+\n(.*?)(?=\n\n|\Z)", said, re.M | re.S))
    assert list(sections) == ["Parameters", "Returns", "Raises"]
    listed = re.findall(r"^([\w, ]+) : ", sections["Parameters"], re.M)
    assert set(inspect.signature(door).parameters) <= {name for names in listed for name in names.split(", ")}
