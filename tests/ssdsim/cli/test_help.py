"""What ``--help`` shows of each verb: a first page that a person can read, and all of it on demand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache

import click
import pytest
from click.testing import CliRunner

from ssdsim.base.kinds import OneOf
from ssdsim.base.option import Section
from ssdsim.cli.help_page import DECIDING, MOST_OPTIONS, by_heading, first_page
from ssdsim.cli.main import cli
from ssdsim.cli.options import Verb
from ssdsim.question.options import ALL, heading


def _verbs(group: click.Group, path: str = "ssdsim") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _verbs(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


VERBS = dict(_verbs(cli))


@cache
def page(path: str) -> list[click.Option]:
    verb = VERBS[path]
    assert isinstance(verb, Verb)
    return first_page(options(path), verb.page)


def options(path: str) -> list[click.Option]:
    context = click.Context(VERBS[path], info_name=path)
    return [each for each in VERBS[path].get_params(context) if isinstance(each, click.Option)]


def told(command: str) -> str:
    return CliRunner().invoke(cli, command.split()[1:], prog_name="ssdsim", env={"COLUMNS": "80"}).stdout


@pytest.mark.parametrize("path", VERBS)
def test_the_first_page_has_at_most_25_options_below_headings(path: str) -> None:
    assert len(page(path)) <= MOST_OPTIONS
    headings = list(by_heading(page(path)))
    assert headings[-1] == Section.OUTPUT.value
    assert set(headings) <= {each.value for each in Section}  # no strategy's own


@pytest.mark.parametrize("path", VERBS)
def test_a_verb_shows_an_example_that_it_takes(path: str) -> None:
    command = VERBS[path]
    assert isinstance(command, Verb)
    assert command.example.startswith(path)
    assert len(command.example) <= 78  # whole on a line, to be copied
    given = shlex.split(command.example.removeprefix(path))
    command.make_context(path, given)
    shown = {flag for each in page(path) for flag in each.opts}
    assert {each for each in given if re.match("--?[a-z]", each)} <= shown


def test_every_option_of_a_scenario_on_the_first_page_shows_a_value() -> None:
    for option in (ALL[str(each.name)] for each in page("ssdsim predict") if each.name in ALL):
        assert "default: " in option.help or option.example or isinstance(option.kind, OneOf), option.name


@pytest.mark.parametrize("path", ["ssdsim predict", "ssdsim plan"])
def test_help_all_has_every_option(path: str) -> None:
    text = told(f"{path} --help-all")
    for each in options(path):
        assert all(flag in text for flag in each.opts), each.opts
    assert max(map(len, text.splitlines())) <= 80
    assert "Options of SwiftSpec:" in text
    short = told(f"{path} --help")
    assert f"{len(options(path)) - len(page(path))} more options: {path} --help-all" in short
    assert "--swift-width" not in short


def test_predict_starts_with_what_a_newcomer_knows() -> None:
    found = by_heading(page("ssdsim predict"))
    assert [each.name for each in found["Start"]][:3] == ["target", "hardware", "b"]


@pytest.mark.parametrize("verb", ["predict", "recommend", "compare", "plan"])
def test_verbs_that_decide_are_asked_by_the_same_options(verb: str) -> None:
    """All of the dozen that a verb has are on its first page, and few others; a rival's own are where it is named."""
    path = f"ssdsim {verb}"
    names = {str(each.name) for each in page(path)}
    assert {str(each.name) for each in options(path)} & {*DECIDING} <= names
    assert len(names - {*DECIDING}) <= 12  # --help and --help-all among them; plan has its goal and scale
    assert not any(ALL[name].section is None for name in names if name in ALL)


def test_a_rivals_own_options_are_shown_where_it_is_named() -> None:
    plain, named, drafted = (
        told(f"ssdsim predict {words}--help") for words in ("", "--strategies sd,swiftspec ", "--drafter=mtp ")
    )
    assert "--swift-width" not in plain
    assert "--swift-width" in named
    assert "Options of SwiftSpec:" in named
    assert "--mtp-modules" in drafted
    assert "--strategies NAME --help" in plain


def test_options_of_strategies_are_below_their_names() -> None:
    assert heading(ALL["gamma"]) == "Options of PEARL"
    assert heading(ALL["suffix_us"]) == "Options of suffix look-up"
