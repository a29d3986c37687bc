"""Random inputs reach every option of every verb, and look at what is answered."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import click
import pytest
from click.core import ParameterSource

from tests.mutations.answers import wrong_json
from tests.mutations.options import fitted
from tests.mutations.reached import Reached, watched
from tests.mutations.real import named
from tests.mutations.run import end, ended
from tests.mutations.verbs import COMMANDS, every_option, every_verb

TRIES = 6


def test_every_verb_has_a_command() -> None:
    assert {*COMMANDS} == {*every_verb()}


@pytest.mark.long
def test_every_option_of_every_verb_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a value that its verb reads."""
    monkeypatch.chdir(tmp_path)
    commands = " ".join(each for listed in COMMANDS.values() for each in listed).split()
    for name, content in named(commands).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert [each for each in every_option() if not any(_is_read(*each, Random(seed)) for seed in range(TRIES))] == []


def _is_read(verb: str, option: str, rng: Random) -> bool:
    words = fitted(verb, rng.choice(COMMANDS[verb]), [option], rng)
    for name, content in named(words).items():
        Path(name).write_bytes(content)
    try:
        ctx = every_verb()[verb].make_context(verb, words[len(verb.split()) :])
    except click.ClickException:
        return False
    return ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE


def test_what_was_reached_is_counted() -> None:
    options = [("hardware list", ""), ("hardware list", "as_json")]
    with watched() as found:
        done = every_verb()["hardware list"].main(["--json"], standalone_mode=False)
    assert done is None
    assert found == {*options}
    reached = Reached()
    reached.add(found, answered=True)
    reached.add(found, answered=False)
    assert (reached.given, reached.answered) == (Counter(options * 2), Counter(options))
    assert "hardware list               2         1        1      1         1" in [*reached.lines()]


def test_an_input_says_what_it_reached() -> None:
    ends = [end(number, 3, "options") for number in range(12)]
    assert any(each.answered and each.reached for each in ends)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ({"low": 1.0, "mean": 2.0, "high": 3.0}, None),
        ({"over": {"low": 3.0, "high": 2.0, "mean": 2.5}}, "over: low mean high do not rise"),
        ({"round_ms": {"p50": 2.0, "p90": 1.0, "p99": 3.0}}, "round_ms: p50 p90 p99 do not rise"),
        ({"p_hit": 1.1}, " p_hit is no probability"),
        ({"best_in": {"ar": -0.1}}, "best_in ar is no probability"),
        ({"tokens_per_second": -1.0}, " tokens_per_second is below 0"),
        ({"strategies": {"sd": {"k": 2, "tokens_per_round": 3.1}}}, "sd: more than K + 1 tokens a round"),
        ({"strategies": {"tree": {"k": 2, "tokens_per_round": 3.1}}}, None),
    ],
)
def test_an_answer_is_looked_at(answer: object, wrong: str | None) -> None:
    assert wrong_json(json.dumps(answer)) == wrong


def test_an_answer_has_no_nan() -> None:
    assert str(wrong_json('{"x": NaN}')).startswith("no JSON")


@pytest.mark.parametrize(("reached", "how"), [((("sweep", "as_json"),), "no JSON"), ((("sweep", "seed"),), None)])
def test_only_a_verb_that_read_json_owes_it(reached: tuple[tuple[str, str], ...], how: str | None) -> None:
    """``--seed --json`` asks for no JSON: it is a seed that a later one replaces."""

    def run() -> None:
        print("text")
        raise SystemExit(0)

    answered, wrong = ended(run, reached)
    assert answered
    assert how is None if wrong is None else wrong[0].startswith(str(how))
