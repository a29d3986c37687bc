"""The reference of ``import ssdsim``: signatures and docstrings of its public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import ssdsim
from ssdsim import figures

_INTRODUCTION = """# Names of import ssdsim

Generated from the code; `help(ssdsim.predict)` says the same. Options are those of the command line, with `_` for `-`
([what they mean](options.md)); bad input raises `ssdsim.InputError` with one line. `import ssdsim` is light: a name is
loaded when it is first used.
"""


def python_page() -> str:
    """Every public name, functions first."""
    objects = {name: getattr(ssdsim, name) for name in ssdsim.__all__ if not name.startswith("__")}
    functions = {name: each for name, each in objects.items() if not inspect.isclass(each)}
    classes = {name: each for name, each in objects.items() if inspect.isclass(each)}
    parts = [_INTRODUCTION, "\n## Functions\n", *map(_entry, functions, functions.values())]
    parts += ["\n## Classes\n", *map(_entry, classes, classes.values())]
    return "".join([*parts, *_figures()])


def _figures() -> Iterator[str]:
    """The module of figures, whose functions are public where they are its own."""
    yield f"\n## Figures: ssdsim.figures\n\n{_markdown(inspect.getdoc(figures) or '')}\n"
    for name, found in inspect.getmembers(figures, inspect.isfunction):
        if found.__module__ == figures.__name__ and not name.startswith("_"):
            yield _entry(f"figures.{name}", found)


def _entry(name: str, found: Any) -> str:
    text = f"\n### {name}\n\n"
    if not (inspect.isclass(found) and issubclass(found, Exception)):
        text += f"```python\nssdsim.{name}{_signature(found)}\n```\n\n"
    return f"{text}{_markdown(inspect.getdoc(found) or '')}\n"


def _signature(found: Any) -> str:
    """Types and defaults as they are written; an argument a line where they are many."""
    signature = inspect.signature(found)
    shown = str(signature).replace("'", "")
    if len(shown) <= 90:
        return shown
    arguments: list[str] = []
    for argument in signature.parameters.values():
        if argument.kind is argument.KEYWORD_ONLY and not any(shown.startswith("*") for shown in arguments):
            arguments.append("*")
        arguments.append(str(argument).replace("'", ""))
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"(\n{lines}){shown[shown.rindex(')') + 1 :]}"


def _markdown(docstring: str) -> str:
    """A docstring's reStructuredText in the few forms that the code uses."""
    text = re.sub(r"^(\w[\w ]*)\n-{3,}$", r"**\1**\n", docstring, flags=re.MULTILINE)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    text = re.sub(r"^(\w+(?:, \w+)*) : ", r"- `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"(?:^>>> .*\n?(?:^(?!>>>).+\n?)*)+", _example, text, flags=re.MULTILINE)


def _example(matched: re.Match[str]) -> str:
    return f"```pycon\n{matched.group().rstrip()}\n```\n"
