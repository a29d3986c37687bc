"""Options and names as editors and mypy read them: files of ssdsim, made of the option records and of its names.

Run: python -m site_generator.typed_options   rewrites them; a test says where they are behind
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import ssdsim
from ssdsim.base.kinds import Flag, Kind, Member, Name, Number, NumberOrWord, OneOf, OneOrByPosition, Whole
from ssdsim.base.kinds_of_lists import HitRates, ListOf, Names, PassTimes, Ranges
from ssdsim.base.option import Option
from ssdsim.base.option_record import options_of
from ssdsim.question.options import ALL, ranged
from ssdsim.serving.policies import taken as taken_by_serving
from ssdsim.serving.serve import RECORDS

_PACKAGE = Path(ssdsim.__file__).parent
_RANGE = "str"
"""A rate that is known roughly is text, ``"0.75:0.85"``."""
_KNOWN = {"None", "Sequence", "Path"}
_BATCH = "b"
"""Searches have it among their own arguments."""
_LONG = 60
"""Characters from which on a type has a name of its own."""


def files() -> dict[Path, str]:
    """The files with their text as it should be."""
    texts = {
        "question/typed_options.py": options_module(),
        "serving/typed_options.py": serving_module(),
        "__init__.pyi": names_stub(),
    }
    return {_PACKAGE / path: _formatted(path, text) for path, text in texts.items()}


def _formatted(path: str, text: str) -> str:
    """As ruff has it, imports sorted."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def options_module() -> str:
    """A TypedDict of options with a value each, and one of options of which several values may be given."""
    served = set(taken_by_serving())
    shared = "".join(map(_field, (option for name, option in ALL.items() if name in served)))
    own = "".join(map(_field, (option for name, option in ALL.items() if name not in served)))
    several = "".join(f"    {name}: {_axis(option)}\n" for name, option in ALL.items() if name != _BATCH)
    named = "\n".join(f"{name} = {written}" for written, name in _names(ALL.values()).items())
    return f'''"""Options as types, for editors and mypy: ``**options: Unpack[Options]``.

Made by ``python -m site_generator.typed_options`` from the option records; change those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, TypeVar

T = TypeVar("T")
Several: TypeAlias = T | Collection[T]
"""A value, or all values to try."""

{named}


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

    {_BATCH}: {_axis(ALL[_BATCH])}
'''


def serving_module() -> str:
    """A TypedDict of the options of ``serve``: those of its records, and those of a scenario that it takes."""
    imports = {("collections.abc", "Sequence"), ("pathlib", "Path")}
    imports.add(("ssdsim.question.typed_options", "SharedOptions"))
    own = ""
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

Made by ``python -m site_generator.typed_options`` from the records; change those.
"""

from __future__ import annotations

{chr(10).join(lines)}


class ServeOptions(SharedOptions, total=False):
    """Options of ``serve``: requests, who serves them, batches, what is good, who works; and a scenario."""

{own}
'''


def _names(options: Iterable[Option]) -> dict[str, str]:
    """Long types, each with the name of the first option that has it."""
    named: dict[str, str] = {}
    for option in options:
        if len(annotation(option)) > _LONG:
            named.setdefault(annotation(option), "".join(word.capitalize() for word in option.name.split("_")))
    return named


def _named(option: Option) -> str:
    return _names(ALL.values()).get(annotation(option), annotation(option))


def _field(option: Option) -> str:
    return f"    {option.name}: {_named(option)}\n{_about(option)}"


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
    return f"Several[{_named(option)}]"


def _about(option: Option) -> str:
    return textwrap.indent(textwrap.fill(f'"""{option.help}"""', 116), "    ") + "\n"


def names_stub() -> str:
    """What ``import ssdsim`` has, which at run time is loaded when it is first used."""
    known = "\n__version__: str\n__all__: list[str]\n_HOME: dict[str, str]\n_MODULES: tuple[str, ...]\n"
    return "".join(["# Made by `python -m site_generator.typed_options`.\n", *_imports(), known])


def _imports() -> Iterator[str]:
    homes = {**ssdsim._HOME, **dict.fromkeys(ssdsim._MODULES, "ssdsim")}
    for module in sorted(set(homes.values())):
        for name in sorted(name for name, home in homes.items() if home == module):
            yield f"from {module} import {name} as {name}\n"


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
