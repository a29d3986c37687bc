"""The reference of all options as a Markdown page, from their records.

Run: ``python -m site_generator.options_reference``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ssdsim.base.option import Group, Option, spelled
from ssdsim.question.options import ALL, heading, names_of

_HEAD = """# Options

Every option of a scenario: a flag of the command line, a keyword of the Python functions (`--p-hit` is `p_hit`), and a
key of a run folder's `config.toml`. `ssdsim sweep` takes several values of each. An option that could change nothing
where it is given is refused, and so is one out of its range: each in one line that says what is allowed.
"""
_FLAG = re.compile(r"--[a-z]+(-[a-z]+)*")


def reference() -> str:
    """The page: a table below each heading of help, then what each takes, needs and excludes; anchors are names."""
    return "\n".join([_HEAD, *_tables(), "", *(line for option in ALL.values() for line in _section(option))])


def _tables() -> Iterator[str]:
    for title in dict.fromkeys(map(heading, ALL.values())):
        yield f"\n**{title}**\n"
        yield "| option | default | meaning |"
        yield "|---|---|---|"
        for option in (each for each in ALL.values() if heading(each) == title):
            yield f"| [`{option.spelling}`](#{option.name}) | {_default(option)} | {_prose(option.about)} |"


def _section(option: Option) -> Iterator[str]:
    yield f"## `{option.spelling}` {{#{option.name}}}"
    yield ""
    yield f"{_sentence(_prose(option.about))}"
    yield ""
    for line in _facts(option):
        yield f"- {_sentence(line)}"
    yield ""


def _facts(option: Option) -> Iterator[str]:
    if option.spellings:
        spellings = ", ".join(f"`{each}`" for each in option.spellings)
        yield f"also spelled {spellings}"
    yield f"must {_prose(option.kind.requirement)}"
    yield f"default: {_default(option)}"
    if option.needs is not None:
        yield f"needs {' or '.join(_names(option.needs.any_of))} {_prose(option.needs.why)}"
    yield from dict.fromkeys((*_excluded(option), *_excludes(option)))
    if option.varied_by:
        searchers = " and ".join(f"`{name}()`" for name in option.varied_by)
        yield f"varied by {searchers}: chosen there, from a list of values where one can be given"
    if Group.GIVEN_DURATIONS in option.groups:
        yield "not taken by `recommend()` and `schedule()`, which answer for hardware as it was measured"


def _excluded(option: Option) -> Iterator[str]:
    """Sentences on this option beside those that exclude it."""
    for other in ALL.values():
        for exclusion in other.excludes:
            if option.name in names_of(exclusion.others):
                yield _prose(exclusion.message.format(it="it"))


def _excludes(option: Option) -> Iterator[str]:
    """Sentences on the options that this one excludes."""
    for exclusion in option.excludes:
        names = names_of(exclusion.others)
        yield _prose(
            exclusion.message.format(it=f"{'each of ' if len(names) > 1 else ''}{', '.join(map(spelled, names))}")
        )


def _names(names: Iterable[str]) -> list[str]:
    return [f"`{ALL[name].spelling}`" for name in names]


def _default(option: Option) -> str:
    return (
        f"`{option.default}`"
        if option.default is not None and not option.unsaid
        else _prose(option.default_note) or "none"
    )


def _prose(text: str) -> str:
    """The text in Markdown, with flags as code; no other character is Markdown's."""
    return _FLAG.sub(r"`\g<0>`", re.sub(r"([\\|*_\[\]<>])", r"\\\1", text))


def _sentence(text: str) -> str:
    """The text with a capital, unless the first word is a symbol."""
    return f"{text}." if text[1:2] == " " else f"{text[:1].upper()}{text[1:]}."


if __name__ == "__main__":
    print(reference())
