"""Prompts in four sets, made of what ships with Python: for the drafts' heads, to measure on, and to validate on.

The three share no question: a head that has seen an answer guesses it too well, and a validation on prompts that were
measured predicts nothing.
"""

from __future__ import annotations

import inspect
import json
import pydoc_data.topics
import random
import textwrap
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import ModuleType

MEASURED, VALIDATED = 60, 12  # prompts a set

_THINGS = """black holes|vaccines|inflation of prices|photosynthesis|the French Revolution|how to bake bread|tides|chess
the water cycle|how batteries work|a good night's sleep|the Roman Empire|volcanoes|saving money|jazz|how planes fly
learning a language|the immune system|bees|public speaking|renewable energy|earthquakes|the Silk Road|running a marathon
how to write a letter of application|the moon|coffee|dinosaurs|traffic jams|the invention of printing|rainbows|glaciers
caring for a house plant|how elections work|the human heart|recycling|Antarctica|the stock market|poetry|migrating birds
"""
_ASKED = (
    "Explain {} to a ten-year-old.",
    "What are three common misconceptions about {}?",
    "Write a short story that has to do with {}.",
    "Give me five practical facts about {} as a list.",
)
_MATH = (
    "{a} has {x} apples and buys {y} bags with {z} apples each. She gives {w} apples away. How many apples are left? "
    "Think step by step.",
    "A train travels {x} km in {y} hours, then {z} km in {w} hours. What is its average speed? Show the calculation.",
    "A shirt costs {x} dollars. It is sold at a discount of {y} percent, and a tax of {w} percent is added. What does "
    "{a} pay? Explain each step.",
    "Solve the equation {y} x + {z} = {x}, and check the result.",
)
_NAMES = ("Ana", "Mei", "Lena", "Rosa", "Ida", "Zoe", "Nora", "Emma")
_MODULES = (
    *("textwrap", "heapq", "statistics", "bisect", "fractions", "shlex", "difflib", "calendar", "colorsys", "string"),
    *("ast", "inspect", "random", "json.decoder"),
)
_REWRITTEN = (
    "Copy this text, and change nothing but mistakes of spelling:\n\n{}",
    "Repeat the following text, but write it in the past tense:\n\n{}",
)


def _chat() -> Iterator[str]:
    things = _THINGS.replace("\n", "|").strip("|").split("|")
    return (form.format(thing) for form, thing in product(_ASKED, things))


def _math() -> Iterator[str]:
    draw = random.Random(0)
    for number in range(200):
        x, y, z, w = draw.randint(20, 240), draw.randint(2, 9), draw.randint(3, 60), draw.randint(2, 12)
        yield _MATH[number % len(_MATH)].format(a=_NAMES[number % len(_NAMES)], x=x, y=y, z=z, w=w)


def _code() -> Iterator[str]:
    for name in _MODULES:
        module = __import__(name, fromlist=["_"])
        for _, function in sorted(_functions(module)):
            lines = textwrap.dedent(inspect.getsource(function)).splitlines()
            if len(lines) >= 12:
                begun = "\n".join(lines[: min(24, len(lines) // 2)])
                yield f"Complete this Python function:\n\n```python\n{begun}\n```"


def _functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, found in vars(module).items():
        if inspect.isfunction(found) and found.__module__ == module.__name__:
            yield name, found
        elif inspect.isclass(found) and found.__module__ == module.__name__:
            methods = ((f"{name}.{key}", method) for key, method in vars(found).items())
            yield from (each for each in methods if inspect.isfunction(each[1]))


def _rewrite() -> Iterator[str]:
    paragraphs = [
        " ".join(paragraph.split())
        for _, topic in sorted(pydoc_data.topics.topics.items())
        for paragraph in topic.split("\n\n")
    ]
    prose = [text for text in paragraphs if 250 <= len(text) <= 700 and text[0].isalpha() and ">>>" not in text]
    return (_REWRITTEN[number % len(_REWRITTEN)].format(text) for number, text in enumerate(prose))


SETS: dict[str, Callable[[], Iterator[str]]] = {"chat": _chat, "math": _math, "code": _code, "rewrite": _rewrite}


def write_prompts(folder: Path, taught: int) -> list[str]:
    """``asked/SET.jsonl`` to measure on, ``other.jsonl`` to validate on, in turn from every set.

    Returns the prompts that teach a draft's head, so many a set.
    """
    (folder / "asked").mkdir(parents=True, exist_ok=True)
    for_heads: list[str] = []
    other: list[list[str]] = []
    for name, make in SETS.items():
        prompts = list(dict.fromkeys(make()))
        random.Random(1).shuffle(prompts)
        if len(prompts) < MEASURED + VALIDATED + taught:
            raise SystemExit(f"set {name}: {len(prompts)} prompts; {MEASURED + VALIDATED + taught} are asked for")
        _write(folder / "asked" / f"{name}.jsonl", name, prompts[:MEASURED])
        other.append(prompts[MEASURED : MEASURED + VALIDATED])
        for_heads += prompts[MEASURED + VALIDATED :][:taught]
    _write(folder / "other.jsonl", "other", [each for row in zip(*other, strict=True) for each in row])
    return for_heads


def _write(path: Path, name: str, prompts: list[str]) -> None:
    lines = (json.dumps({"question_id": f"{name}-{i}", "question": text}) + "\n" for i, text in enumerate(prompts))
    path.write_text("".join(lines), encoding="utf-8")
