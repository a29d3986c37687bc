"""The page of threats names only tests that exist, and one for each promise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
PROMISES = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| promise")]


def test_there_are_promises_about_all_that_may_come_from_others() -> None:
    heads = re.findall(r"^## (.*)$", PAGE, re.M)
    assert heads == [
        *("What you type", "A file", "A model's folder", "A run folder", "Your own folder of data"),
        *("A fault of your own machine", "A server", "A server that a plan starts", "A cluster"),
    ]
    assert len(PROMISES) > 50


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_names_tests_that_exist(promise: str) -> None:
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", promise)
    assert named, promise
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{test}"
