"""The records of the options: whole, consistent with each other, and what everything else reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from site_generator.options_reference import reference
from ssdsim import strategies
from ssdsim.advise.candidates import fixed_options
from ssdsim.answers import roofline, window
from ssdsim.base import kinds
from ssdsim.base.errors import InputError
from ssdsim.base.kinds_of_lists import HitRates, ListOf, Names, PassTimes, Ranges
from ssdsim.base.option import Excludes, Group, Option, by_name, spelled
from ssdsim.base.record import replace
from ssdsim.cli.main import cli
from ssdsim.question.checked_options import checked
from ssdsim.question.options import ALL, SHARED, names_of
from tests.refusals import refused

OPTIONS = list(ALL.values())
GIVEN: dict[type, Any] = {  # a value of each kind, none of them a default
    kinds.Whole: 5,
    kinds.Number: 0.5,
    kinds.Name: "some-name",
    kinds.NumberOrWord: 2,
    kinds.OneOrByPosition: 0.5,
    ListOf: [1, 1],
    HitRates: [(1, 0.6), (2, 0.7)],
    PassTimes: [(16, 1.0), (64, 2.0)],
    Names: ("sd", "ssd"),
    kinds.Flag: True,
    Ranges: (("alpha", 0.75, 0.85),),
}
TEXTS = {
    ListOf: "1,1",
    HitRates: "1:0.6,2:0.7",
    PassTimes: "16:1,64:2",
    Names: "sd,ssd",
    Ranges: "alpha=0.75:0.85",
}  # that mean those values
ODD = st.one_of(
    *(st.integers(), st.floats(), st.text(max_size=8), st.booleans(), st.complex_numbers(), st.binary(max_size=3)),
    *(st.lists(st.integers() | st.floats(), max_size=3), st.dictionaries(st.text(max_size=2), st.integers())),
    st.sampled_from(["window", "profile", "jit", "uniform", "ssd", "bfloat16"]),
)


def value(option: Option) -> Any:
    match option.kind:
        case kinds.OneOf(words):
            return words[-1]
        case kinds.Member(of):
            return of.names[-1]
        case kinds.NumberOrWord(kinds.Number()):
            return 0.5
        case kinds.Number(least=least):
            return max(0.5, 1.5 * least)
    return GIVEN[type(option.kind)]


def refusal(call: dict[str, Any]) -> str:
    """Why the options mean nothing together, or nothing."""
    try:
        checked(call)
    except InputError as error:
        return str(error)
    return ""


def commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands(command) if isinstance(command, click.Group) else [command]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_record_is_whole(option: Option) -> None:
    assert option.about
    assert option.axis
    assert option.kind.requirement
    assert option.default is None or option.checked(option.default) == option.default
    words = option.default is not None and option.default_note and not option.unsaid
    assert not words, "a default that is a value needs no words"
    assert option.checked(value(option)) == value(option)


@pytest.mark.long
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
@given(odd=ODD)
@settings(max_examples=30)
def test_an_odd_value_is_taken_as_it_is_or_refused_in_one_line(option: Option, odd: Any) -> None:
    call = {option.name: odd, **({option.needs.any_of[0]: value(ALL[option.needs.any_of[0]])} if option.needs else {})}
    said = refusal(call)
    if said:
        assert option.spelling in said
        assert "\n" not in said
    elif isinstance(option.kind, Names):
        assert checked(call)[option.name] == tuple(odd.split(","))
    elif isinstance(option.kind, kinds.Name):
        assert checked(call)[option.name] == option.kind.full(odd)
    else:
        assert checked(call)[option.name] is odd


@pytest.mark.parametrize("verb", ["predict", "simulate", "sweep"])
def test_every_spelling_and_its_help_reach_the_command_line(verb: str) -> None:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    there = {
        parameter.name: parameter
        for parameter in command.get_params(click.Context(command))
        if isinstance(parameter, click.Option)
    }
    for option in OPTIONS:
        assert tuple(there[option.name].opts) == option.flags
        assert there[option.name].help == option.help


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_value_from_the_command_line_is_what_the_record_checks(option: Option) -> None:
    """A text of the kind becomes a value that the record takes, alone and as one of several."""
    text = TEXTS.get(type(option.kind), str(value(option)))
    for verb, lists in (("predict", False), ("sweep", True)):
        several = lists and not isinstance(option.kind, Names | Ranges | kinds.Flag)  # one comparison
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        parameter = next(p for p in command.get_params(click.Context(command)) if p.name == option.name)
        parsed = parameter.type.convert(text, parameter, None)
        assert option.checked(parsed[0] if several else parsed) == value(option)


def test_an_unregistered_name_is_told_with_its_option_and_the_nearest() -> None:
    for name in ("strategies", "subject"):
        message = (
            f"{spelled(name)}: unknown strategy 'sdd'; did you mean 'sd'? Allowed: {', '.join(strategies.ALL.names)}"
        )
        with pytest.raises(InputError, match=re.escape(message)):
            checked({name: "sdd"})
    message = f"--strategies must name some of {', '.join(strategies.ALL.names)}, each once, or be all, got sd,ar,sd"
    with pytest.raises(InputError, match=message):
        checked({"strategies": "sd,ar,sd"})


def test_no_verb_gives_a_spelling_of_the_table_to_another_option() -> None:
    owner = {flag: option.name for option in OPTIONS for flag in option.flags}
    for command in commands(cli):
        for parameter in command.get_params(click.Context(command)):
            for flag in parameter.opts:
                if owner.get(flag, parameter.name) != parameter.name:
                    pytest.fail(f"{command.name} {flag} sets {parameter.name}, elsewhere {owner[flag]}")


def test_what_excludes_another_is_not_needed_by_it() -> None:
    for option in OPTIONS:
        for exclusion in option.excludes:
            others = names_of(exclusion.others)
            assert option.name not in others
            for other in others:
                needs = ALL[other].needs
                assert needs is None or option.name not in needs.any_of or len(needs.any_of) > 1 or exclusion.when


def pairs() -> Iterator[tuple[str, Excludes, str]]:
    for option in OPTIONS:
        for exclusion in option.excludes:
            for other in names_of(exclusion.others):
                yield option.name, exclusion, other


@pytest.mark.parametrize(("name", "exclusion", "other"), list(pairs()))
def test_an_exclusion_refuses_in_any_order_and_only_where_it_holds(name: str, exclusion: Excludes, other: str) -> None:
    being = {str: exclusion.when, tuple: [0.9, 0.8], type(None): value(ALL[name])}[type(exclusion.when)]
    call = {name: being, other: value(ALL[other]), **{each: value(ALL[each]) for each in exclusion.given_with}}
    message = exclusion.message.format(it=spelled(other))
    assert refusal(call) == refusal(dict(reversed(call.items()))) == message
    if exclusion.when is not None:
        assert refusal({**call, name: value(ALL[name])}) != message
    for each in (other, *exclusion.given_with):
        assert refusal({name: being for name, being in call.items() if name != each}) != message


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.needs], ids=lambda option: option.name)
def test_what_is_needed_is_asked_for_and_enough(option: Option) -> None:
    assert option.needs is not None
    with refused(option.spelling, spelled(option.needs.any_of[0])):
        checked({option.name: value(option)})
    for other in option.needs.any_of:
        checked({option.name: value(option), other: value(ALL[other])})


def test_options_of_one_family_are_its_own() -> None:
    everybodys = {option.name for option in SHARED}
    assert everybodys.isdisjoint({"sd_k", "sd_draft", "draft_gpus", "backup", "p_hit", "f", "budget", "hit_c", "hit_r"})
    assert all(option.section is not None for option in SHARED)


def test_owners_compose_and_must_agree() -> None:
    own = Option(name="window_k", kind=kinds.Whole(), about="PEARL's window", axis="window", spellings=("--wk",))
    assert list(by_name(SHARED, [own], [own, ALL["k"]])) == [*(option.name for option in SHARED), "window_k"]
    assert list(by_name(ALL.values(), [own])) == [*ALL, "window_k"]
    with pytest.raises(ValueError, match="two different options are called k"):
        by_name(SHARED, [replace(ALL["k"], default=7)])
    with pytest.raises(ValueError, match="--osl is a spelling of both output_tokens and window_k"):
        by_name(SHARED, [replace(own, spellings=("--osl",))])


def test_answers_that_take_some_options_take_those_that_say_so() -> None:
    unit_free = {option.name for option in OPTIONS if Group.UNIT_FREE in option.groups}
    for taken in (window.accepted_options(), roofline.accepted_options(), fixed_options()):
        assert len(taken) == len(set(taken))
        assert not unit_free & set(taken)


def test_the_reference_names_every_option_spelling_and_exclusion() -> None:
    page = reference()
    sections = dict(re.findall(r"^## `[^`]+` \{#(\w+)\}\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    assert list(sections) == list(ALL)
    for option in OPTIONS:
        assert all(f"`{flag}`" in sections[option.name] for flag in option.spellings)
        assert f"](#{option.name})" in page
    for name, _, other in pairs():
        assert f"`{spelled(other)}`" in sections[name] or f"`{spelled(name)}`" in sections[other]
