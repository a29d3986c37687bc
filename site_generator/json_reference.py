"""The reference of ``--json``: the keys of real answers with their meaning."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from site_generator.command_line import escaped
from ssdsim.base.errors import InputError
from ssdsim.cli.main import cli

GLOSSARY = Path(__file__).parents[1] / "docs" / "reference" / "json.toml"
_INTRODUCTION = """# Keys of --json

One object on stdout; warnings and progress stay on stderr. Generated from real answers: a key that nobody described
would fail the build of this page. `[]` stands for the items of a list, `<word>` for any name.
"""
Meanings = Mapping[str, str]


def json_page() -> str:
    """Every verb's keys, each with an example from the answer of the verb's command."""
    verbs, shapes = _glossary()
    of_shapes: dict[str, dict[str, Any]] = {shape: {} for shape in shapes}
    found = {verb: _examples(verb, of_shapes) for verb, keys in verbs.items() if "command" in keys}
    found["common"] = {key: value for of_verb in found.values() for key, value in of_verb.items()}
    sections = [_section(verb, keys, found.get(verb, {})) for verb, keys in verbs.items()]
    sections += [f"\n## {_title(shape)}\n\n{_table(keys, of_shapes[shape])}" for shape, keys in shapes.items()]
    return _INTRODUCTION + "".join(sections)


def _section(verb: str, keys: Meanings, examples: Mapping[str, Any]) -> str:
    title = "Common to several verbs" if verb == "common" else verb
    command = f"\n`ssdsim {keys['command']} --json`\n" if "command" in keys else ""
    return f"\n## {title}\n{command}\n{_table(keys, examples)}"


def undescribed(verb: str, answer: Any) -> list[str]:
    """The keys of a verb's answer that the reference does not know."""
    verbs, _ = _glossary()
    return [key for key, _, _, known in _leaves(answer, {**verbs["common"], **verbs[verb]}) if not known]


@cache
def _glossary() -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    text = tomllib.loads(GLOSSARY.read_text(encoding="utf-8"))
    return text["verbs"], text["shapes"]


def _examples(verb: str, of_shapes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A value for each key of the verb's own; those of shapes are added to ``of_shapes``.

    Raises
    ------
    InputError : the answer has a key that is not described.
    """
    verbs, _ = _glossary()
    found: dict[str, Any] = {}
    for key, shape, value, known in _leaves(_answer(verbs[verb]["command"]), {**verbs["common"], **verbs[verb]}):
        if not known:
            raise InputError(f"{GLOSSARY.name}: 'ssdsim {verb} --json' has a key that is not described: {key}")
        examples = of_shapes[shape] if shape else found
        if examples.get(key) is None:
            examples[key] = value
    return found


@cache
def _answer(command: str) -> Any:
    """What ``ssdsim COMMAND --json`` says in an empty folder; a report needs a run there first."""
    runner = CliRunner()
    with runner.isolated_filesystem():
        if command.startswith("report"):
            runner.invoke(cli, ["sweep", "--b", "1,2", "-o", "run", "--quiet"], catch_exceptions=False)
        done = runner.invoke(cli, [*command.split(), "--json"], catch_exceptions=False)
    return json.loads(done.stdout)


def _leaves(
    value: Any, keys: Meanings, path: tuple[str, ...] = (), shape: str = ""
) -> Iterator[tuple[str, str, Any, bool]]:
    """Each described key of an answer: the key, the shape it belongs to, a value, and whether it is described."""
    key = _described(path, keys) if path else None
    if key is not None and keys[key].startswith("@"):
        if value is not None:
            inner = keys[key].removeprefix("@")
            yield from _leaves(value, _glossary()[1][inner], (), inner)
    elif key is not None:
        yield key, shape, value, True
    elif isinstance(value, dict) and value:
        for name, inside in value.items():
            yield from _leaves(inside, keys, (*path, str(name)), shape)
    elif isinstance(value, list) and value and path:
        for inside in value:
            yield from _leaves(inside, keys, (*path[:-1], f"{path[-1]}[]"), shape)
    elif value not in ({}, [], None):
        yield ".".join(path), shape, value, False


def _described(path: tuple[str, ...], keys: Meanings) -> str | None:
    """The glossary's key for a path: the very same, or one with ``<word>`` for a name."""
    if ".".join(path) in keys:
        return ".".join(path)
    for key in keys:
        pattern = key.split(".")
        if len(pattern) == len(path) and all(map(_stands_for, pattern, path)):
            return key
    return None


def _stands_for(pattern: str, name: str) -> bool:
    return re.fullmatch(re.sub("<[^>]*>", r"[^\\[\\]]+", re.escape(pattern)), name) is not None


def _table(keys: Meanings, examples: Mapping[str, Any]) -> str:
    lines = [
        f"| `{key}` | {_example(examples.get(key))} | {_meaning(meaning)} |"
        for key, meaning in keys.items()
        if key != "command"
    ]
    return "\n".join(["| key | example | meaning |", "|---|---|---|", *lines]) + "\n"


def _example(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else json.dumps(value)
    return f"`{text}`" if len(text) <= 40 else f"`{text[:37]}...`"


def _meaning(text: str) -> str:
    if not text.startswith("@"):
        return escaped(text)
    shape = text.removeprefix("@")
    return f"as described under [{_title(shape)}](#{re.sub(r'[^a-z]+', '-', _title(shape).lower())})"


def _title(shape: str) -> str:
    return f"Shape: {shape.replace('_', ' ')}"
