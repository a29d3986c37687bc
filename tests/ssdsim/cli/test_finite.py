"""No option of any verb takes NaN or infinity; seeds and ports are checked once, for all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import click
import pytest

from ssdsim.cli.main import cli
from ssdsim.cli.param_types import OfKind
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    with click.Context(group) as ctx:
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            assert command is not None
            if isinstance(command, click.Group):
                yield from commands(command, *path, name)
            else:
                yield " ".join([*path, name]), command


def test_no_option_of_any_verb_reads_a_number_that_is_none() -> None:
    """Also not the options that are made late: every parameter of every verb is asked for ``nan`` and ``inf``.

    A rate of ``inf`` is all requests at once, a burstiness of ``inf`` a clock.
    """
    taken, looked_at = [], 0
    for name, command in commands(cli):
        ctx = click.Context(command, info_name=name)
        for param in command.get_params(ctx):
            if not isinstance(param.type, OfKind | click.FloatRange | click.types.FloatParamType):
                continue
            for text in ("nan", "inf", "-inf", "1e999", "0.5,nan", "1:inf", "nan:2"):
                looked_at += 1
                try:
                    value = param.type.convert(text, param, ctx)
                except (click.UsageError, ValueError):
                    continue
                numbers = value if isinstance(value, list | tuple) else [value]
                if param.name in ("rate", "burstiness") and numbers == [math.inf]:
                    continue
                if any(isinstance(each, float) for each in numbers):
                    taken.append(f"{name} {param.opts[0]} {text}: {value}")
    assert not taken
    assert looked_at > 1_000


def test_seeds_and_ports_have_one_range() -> None:
    for name, command in commands(cli):
        for param in command.get_params(click.Context(command, info_name=name)):
            if param.name in ("seed", "port"):
                assert isinstance(param.type, click.IntRange), name
                assert param.type.min is not None
                assert param.type.min >= 0
                assert param.type.max is not None


@pytest.mark.parametrize(
    "words",
    [
        ("hardware", "scale", "h100-sxm", "--clock", "nan", "-o", "x.json"),
        ("hardware", "new", "--like", "h100-sxm", "--memory", "nan", "-o", "x.json"),
        ("hardware", "new", "--like", "h100-sxm", "--memory", "1e-30", "-o", "x.json"),
        ("simulate", "--t-sd", "0.2", "--precision", "nan"),
        ("predict", "--t-sd", "0.2", "--seed", "-1"),
        ("predict", "--t-sd", "inf"),
        ("bench", "http://127.0.0.1:1", "--wait", "nan", "-o", "x.csv"),
        ("bench", "http://127.0.0.1:1", "--seed", "-1", "-o", "x.csv"),
        ("measure", "--target", "a", "--draft", "b", "--temperature", "1e-300", "-o", "x.json"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_such_a_number_is_one_line(words: tuple[str, ...], tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert_refused(asked(*words), next(word for word in words[::-1] if word.startswith("--")))


def test_a_precision_that_no_run_reaches_is_told() -> None:
    done = asked("simulate", "--t-sd", "0.2", "--precision", "1e-300", "--rounds", "100", "--strategies", "sd")
    assert done.returncode == 0
    assert re.search(r"^warning: SD: 100 rounds know tokens/s to 0\.\d+, not to --precision 1e-300$", done.stderr, re.M)
