"""Options and names of ssdsim as editors and mypy read them: three files, made of the option records and the names.

A build of the wheel makes them, and so does ``pip install -e .`` (hatch_build.py). Git ignores them.

Run: python -m site_generator.typed_options   makes them in this checkout again
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import ssdsim
from ssdsim.base.kinds import Flag, Kind, Member, Name, Number, NumberOrWord, OneOf, OneOrByPosition, Whole
from ssdsim.base.kinds_of_lists import HitRates, ListOf, Names, PassTimes, Ranges
from ssdsim.base.option import Option, options_of
from ssdsim.question.options import ALL, ranged, spellings, varied_by
from ssdsim.serving.policies import accepted_options
from ssdsim.serving.serve import RECORDS

_PROJECT = Path(__file__).parents[1]
_RANGE = "str"
"""A rate that is known roughly is text, ``"0.75:0.85"``."""
_KNOWN = {"None", "Sequence", "Path"}
_BATCH = "b"
"""Searches have it among their own arguments."""


def write(folder: Path) -> None:
    """Write the files below a folder that holds the package."""
    texts = {
        "question/typed_options.py": options_module(),
        "serving/typed_options.py": serving_module(),
        "__init__.pyi": names_stub(),
    }
    for path, text in texts.items():
        (folder / "ssdsim" / path).write_text(text, encoding="utf-8")


def options_module() -> str:
    """A TypedDict of options with a value each, and one of options of which several values may be given."""
    served = {*accepted_options()} - {*varied_by("plan")}
    shared = "".join(map(_field, (option for name, option in ALL.items() if name in served)))
    own = "".join(map(_field, (option for name, option in ALL.items() if name not in served)))
    several = "".join(_names(option, _axis(option)) for name, option in ALL.items() if name != _BATCH)
    return f'''"""Options as types, for editors and mypy: ``**options: Unpack[Options]``.

Made of the option records; change those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, TypeVar

T = TypeVar("T")
Several: TypeAlias = T | Collection[T]
"""A value, or all values to try."""


class SharedOptions(TypedDict, total=False):
    """A scenario's options that serving takes too, where load and time decide the others."""

{shared}

class Options(SharedOptions, total=False):
    """One scenario: a value for each option that is given."""

{own}

class Searched(TypedDict, total=False):
    """Several scenarios: for each option that is given a value, or all values to try."""

{several}

class Axes(Searched, total=False):
    """The options of :class:`Searched`, of a verb that has no batch of its own."""

{_names(ALL[_BATCH], _axis(ALL[_BATCH]))}
'''


def serving_module() -> str:
    """A TypedDict of the options of ``serve``: those of its records, and those of a scenario that it takes."""
    imports = {("collections.abc", "Sequence"), ("pathlib", "Path")}
    imports |= {("ssdsim.question.typed_options", name) for name in ("SharedOptions", "Several")}
    own = "".join(_names(ALL[name], _axis(ALL[name])) for name in varied_by("plan"))
    for record in RECORDS:
        options = options_of(record)
        for field, written in record.__annotations__.items():
            option = options.get(field)
            names = set(re.findall(r"\b[A-Z]\w+", written)) - _KNOWN
            imports |= {(_home(record, name), name) for name in names}
            own += f"    {option.name if option else field}: {written.removesuffix(' | None')}\n"
            own += _about(option) if option else ""
    lines = [f"from {module} import {name}" for module, name in sorted(imports)]
    return f'''"""The options of ``serve`` as types, for editors and mypy.

Made of the option records; change those.
"""

from __future__ import annotations

{chr(10).join(lines)}


class ServeOptions(SharedOptions, total=False):
    """Options of ``serve``: requests, who serves them, batches, what is good, who works; and a scenario."""

{own}
'''


def _field(option: Option) -> str:
    own, *others = _names(option, annotation(option)).splitlines(keepends=True)
    return "".join([own, _about(option), *others])


def _names(option: Option, written: str) -> str:
    """A line for each spelling that Python takes, the option's own name first."""
    others = (spelling for spelling, name in spellings().items() if name == option.name and spelling != name)
    return "".join(f"    {name}: {written}\n" for name in (option.name, *others))


def _home(record: type, name: str) -> str:
    """The module from which the record's own imports a name, or that module itself."""
    source = ast.parse(inspect.getsource(sys.modules[record.__module__]))
    imports = (node for node in source.body if isinstance(node, ast.ImportFrom) and node.module)
    return next((str(node.module) for node in imports if name in {each.name for each in node.names}), record.__module__)


def annotation(option: Option) -> str:
    """The type of one value."""
    kind = option.kind
    return f"{_type(kind)} | {_RANGE}" if option.name in ranged() else _type(kind)


def _type(kind: Kind) -> str:
    match kind:
        case Whole():
            return "int"
        case Number():
            return "float"
        case Flag():
            return "bool"
        case Name() | Member():  # a name that somebody registers is none that could be listed here
            return "str"
        case Names():
            return "str | Sequence[str]"
        case OneOf(words, also):
            return f"Literal[{', '.join(map(_quoted, (*words, *dict(also))))}]"
        case NumberOrWord(number, word):
            return f"{_type(number)} | Literal[{_quoted(word)}]"
        case OneOrByPosition(number):
            return f"{_type(number)} | Sequence[{_type(number)}]"
        case ListOf(number):
            return f"Sequence[{_type(number)}]"
        case HitRates() | PassTimes():
            return "Sequence[Sequence[float]]"
        case Ranges():
            return "Mapping[str, tuple[float, float]] | Sequence[tuple[str, float, float]]"
    raise TypeError(f"no type is known for {kind}")


def _quoted(word: str) -> str:
    return f'"{word}"'


def _axis(option: Option) -> str:
    return f"Several[{annotation(option)}]"


def _about(option: Option) -> str:
    return textwrap.indent(textwrap.fill(f'"""{option.help}"""', 116), "    ") + "\n"


def names_stub() -> str:
    """What ``import ssdsim`` has, which at run time is loaded when it is first used."""
    known = "\n__version__: str\n__all__: list[str]\n_HOME: dict[str, str]\n_MODULES: tuple[str, ...]\n"
    return "".join([*_imports(), known])


def _imports() -> Iterator[str]:
    homes = {**ssdsim._HOME, **dict.fromkeys(ssdsim._MODULES, "ssdsim")}
    for module in sorted(set(homes.values())):
        for name in sorted(name for name, home in homes.items() if home == module):
            yield f"from {module} import {name} as {name}\n"


if __name__ == "__main__":
    write(_PROJECT)
