"""Commands of every verb, with options that fit and belong together, or with wrong, missing and absurd ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

import click

from ssdsim import strategies
from ssdsim.question.options import ALL, names_of, owners
from tests.mutations.fitting import fitting
from tests.mutations.input import BESIDE, Input, command
from tests.mutations.real import named
from tests.mutations.values import TEXTS
from tests.mutations.verbs import COMMANDS, ENDED_BY, ON_DEVICES, every_option, options_of, verb_of

Given = dict[str, str | None]
"""Options by name, in their order, and what was given; None of a flag."""

LONG_PAGES = ("adaptive", "tree", "treessd")
"""Of these a page of ``explore`` takes minutes: a kernel of theirs is a curve or a tree, and there are thousands."""

_TOGETHER: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("target", "qwen3-8b"): {"draft": "qwen3-0.6b"},
    ("target", "qwen3-32b"): {"draft": "qwen3-0.6b", "tp": "2"},
    ("target", "llama-3.1-70b"): {"tp": "4"},
    ("target", "gpt-oss-20b"): {"drafter": "ngram"},
    ("draft", "qwen3-0.6b"): {"target": "qwen3-8b"},
    ("draft", "eagle3-llama-3.1-8b"): {"drafter": "eagle3", "target": "llama-3.1-8b"},
    ("draft", "ngram"): {"drafter": "ngram"},
    ("ep", "2"): {"target": "gpt-oss-20b", "drafter": "ngram", "tp": "2"},
    ("staged_by", "llama-3.2-1b"): {
        "target": "llama-3.1-70b",
        "draft": "llama-3.1-8b",
        "tp": "4",
        "staged_alpha": "0.8",
    },
    ("draft_devices", "shared"): {"draft_gpus": "1"},
    ("context", "32k"): {"b": "1"},
    ("b", "64"): {"context": "512"},
}
"""What goes with a value: a draft of the target's vocabulary, a machine on which it fits."""


def options(rng: Random) -> Input:
    """A command of any verb; two of five have one to three mistakes."""
    verb, asked = _asked(rng)
    arguments = fitted(verb, rng.choice(COMMANDS[verb]), asked, rng)
    if rng.random() < 0.4:
        arguments = changed_arguments(arguments, rng)
    if verb_of(arguments) in ON_DEVICES:
        arguments += ENDED_BY
    return command("options", arguments, named(arguments))


def _asked(rng: Random) -> tuple[str, list[str]]:
    """A verb, mostly by one of its options, as likely as any other; some of its kin, and others."""
    verb, first = rng.choice(every_option())
    if rng.random() < 0.3:
        verb = rng.choice([*COMMANDS])
        return verb, rng.sample([*options_of(verb)], min(len(options_of(verb)), rng.choice((0, 1, 2))))
    kin = [name for name in options_of(verb) if _owner(name) == _owner(first)]
    return verb, [
        first,
        *rng.choices(kin, k=rng.choice((0, 1, 2))),
        *rng.choices([*options_of(verb)], k=rng.choice((0, 0, 1, 2))),
    ]


def _owner(name: str) -> object:
    return (ALL[name].section or owners(name)) if name in ALL else None


def beside(arguments: Sequence[str], rng: Random) -> tuple[list[str], dict[str, bytes]]:
    """A command that reads a file, with up to two more of its verb's options, and the files that these name."""
    verb = verb_of(arguments)
    if verb is None or rng.random() < 0.6:
        return [*arguments], {}
    asked = rng.choices([*options_of(verb)], k=rng.choice((1, 2)))
    whole = fitted(verb, " ".join(arguments[len(verb.split()) :]), asked, rng)
    return whole, named(set(whole) - {*arguments})


BESIDE.append(beside)


def fitted(verb: str, rest: str, asked: Sequence[str], rng: Random) -> list[str]:
    """A command of the verb with the options that are ``asked``, and all that goes with them."""
    words, given = _read(verb, rest.split())
    for name in asked:
        _give(verb, given, name, rng)
    flags = options_of(verb)
    for name, value in given.items():
        words += [rng.choice(flags[name].opts), *([] if value is None else [value])]
    return [*verb.split(), *words]


def _read(verb: str, words: Sequence[str]) -> tuple[list[str], Given]:
    """The words that stand alone, and the options."""
    of_flag = {flag: param for param in options_of(verb).values() for flag in param.opts}
    alone, given, left = [], Given(), iter(words)
    for word in left:
        if (param := of_flag.get(word)) is None:
            alone.append(word)
        else:
            given[str(param.name)] = None if param.is_flag else next(left)
    return alone, given


def _give(verb: str, given: Given, name: str, rng: Random) -> None:
    """Give an option a value, with what it needs, what owns it and what goes with its value; what it excludes goes."""
    param = options_of(verb)[name]
    value = None if param.is_flag else fitting(param, rng)
    given[name] = value
    for other, fits in _TOGETHER.get((name, value or ""), {}).items():
        if other in options_of(verb):
            given[other] = fits
    if name not in ALL or param.type.name == "choice":
        return
    needs = ALL[name].needs
    needed = [each for each in (needs.any_of if needs is not None else ()) if each in options_of(verb)]
    if needed and not given.keys() & {*needed}:
        _give(verb, given, rng.choice(needed), rng)
    chooser, names = owners(name) or ("", ())
    names = tuple(each for each in names if verb != "explore" or each not in LONG_PAGES)
    if names and chooser in options_of(verb):
        owner = rng.choice(names)
        given[chooser] = ",".join(dict.fromkeys(("ar", "ssd", owner))) if chooser == "strategies" else owner
        if chooser == "strategies" and "b" in given and strategies.ALL.named(owner).most_sequences == 1:
            given["b"] = "1"
    for other in _excluded(name, given):
        given.pop(other, None)


def _excluded(name: str, given: Given) -> Iterator[str]:
    """The options that cannot be beside this one."""
    for other in [*given]:
        for excludes in ALL[other].excludes if other in ALL else ():
            if excludes.holds(other, given):
                hit = {*names_of(excludes.others)} & given.keys()
                if other == name:
                    yield from hit
                elif name in hit:
                    yield other


def changed_arguments(arguments: Sequence[str], rng: Random) -> list[str]:
    """One to three mistakes in a command."""
    arguments, verb = [*arguments], verb_of(arguments) or ""
    known = [*options_of(verb).values()] if verb else []
    for _ in range(rng.choice((1, 1, 2, 3))):
        match rng.randrange(20):
            case 0 if len(arguments) > 1:
                del arguments[rng.randrange(len(arguments))]
            case 1:
                at = rng.randrange(len(arguments))
                arguments[at] += rng.choice("xs-=,:0")
            case 2:
                arguments.insert(rng.randrange(len(arguments) + 1), rng.choice(TEXTS))
            case 3:
                at = rng.randrange(len(arguments))
                arguments[at] = arguments[at] if arguments[at].startswith("-o") else rng.choice(TEXTS)
            case _ if known:
                arguments += _option(rng.choice(known), rng)
    return arguments


def _option(param: click.Option, rng: Random) -> list[str]:
    """An option beside others that it may contradict, or one whose value is wrong."""
    name = rng.choice(param.opts)
    if param.is_flag:
        return [name]
    return [name, fitting(param, rng) if rng.random() < 0.6 else rng.choice(TEXTS)]
