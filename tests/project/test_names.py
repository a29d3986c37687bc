"""A class is called what no other class is called, and no public name is an everyday verb that says nothing alone."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from site_generator.shown import PROJECT

VAGUE = frozenset("told taken asked whose whatever found given made kept held beside apart".split())
KEYS = {"PublishedAcceptance.found", "Routing.apart", "Row.found", "TokenComparison.beside"}
"""Fields that are columns or keys of files and of ``--json``, which users have."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for house in ("ssdsim", "calibration"):
        for path in sorted((PROJECT / house).rglob("*.py")):
            if path.name != "typed_options.py":  # made at the build, with the names that options have
                yield path.relative_to(PROJECT), ast.parse(path.read_text())


def public_names(tree: ast.Module) -> Iterator[str]:
    """Classes, functions and constants of a module; methods and fields of its classes, after the class."""
    for node in tree.body:
        yield from _bound(node)
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for inner in node.body for name in _bound(inner))


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_the_name_of_a_class_is_defined_once() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path))
    assert homes
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_no_public_name_is_a_vague_word_alone() -> None:
    vague = [
        f"{path}: {name}"
        for path, tree in modules()
        for name in (path.stem, *public_names(tree))
        if name.rsplit(".")[-1].lower() in VAGUE and name not in KEYS
    ]
    assert vague == []
