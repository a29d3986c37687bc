"""Facts that pages repeat from the code are those of the code."""

from __future__ import annotations

import inspect
import re
import tomllib

import ssdsim
from site_generator.shown import PROJECT
from ssdsim.cli.main import VERBS
from ssdsim.question.options import ALL
from ssdsim.readers.row import Row
from ssdsim.tokens.priors import priors

PAGE = (PROJECT / "docs/how-to/python.md").read_text()
WITHOUT = re.search(r"The other verbs have no function:\n\n((?:- .*\n)+)", PAGE)


def test_placeholders_are_drawn_from_the_ranges_that_the_page_gives() -> None:
    page = (PROJECT / "docs/how-to/acceptance.md").read_text()
    said = re.search(r"in its plausible range: (.*?) \|", page)
    assert said
    plausible = {name: option.plausible for name, option in ALL.items() if option.plausible}
    ranges = [f"{name.removeprefix('hit_')} {low:g} to {high:g}" for name, (low, high) in plausible.items()]
    assert said.group(1) == ", ".join(ranges)


def test_the_page_has_the_priors_of_all_drafters_that_have_cards() -> None:
    page = (PROJECT / "docs/how-to/acceptance.md").read_text()
    for each in (kind for kind in priors().kinds if not kind.like):
        on_texts = (each.on(text) for text in ("mixed", "chat", "code", "maths"))
        cells = " | ".join(f"{low:g}, **{middle:g}**, {high:g}" for low, middle, high in on_texts)
        assert re.search(
            rf"^\| {each.drafter} \| {each.sets} sets? of .*{each.cards} .*? \| {re.escape(cells)} \|$", page, re.M
        )


def test_each_verb_is_a_function_or_is_said_to_have_none() -> None:
    assert WITHOUT
    functions = {verb for verb in VERBS if inspect.isfunction(getattr(ssdsim, verb, None))}
    assert set(VERBS).intersection(re.findall(r"`(\w+)`", WITHOUT.group(1))) == set(VERBS) - functions
    assert all(verb in PAGE for verb in functions)


def test_the_card_shows_the_answer_of_the_readme() -> None:
    card, readme = (PROJECT / "docs/assets/card.svg").read_text(), (PROJECT / "README.md").read_text()
    shown = {name: float(speed) for name, speed in re.findall(r"^(\w+) +([\d.]+) +[\d.]+-[\d.]+ +\d", readme, re.M)}
    told = re.findall(r">(\w+)</text><rect.*?>([\d.]+)x<", card)
    assert [name for name, _ in told] == ["AR", "SD", "SSD"]
    for name, ratio in told:
        assert f"{shown[name] / shown['AR']:.1f}" == ratio, name


def test_every_column_of_a_row_is_on_the_page() -> None:
    page = (PROJECT / "docs/how-to/runtimes.md").read_text()
    table = page.split("## The columns of a CSV file")[1].split("\n\n")[1]
    assert set(Row.__struct_fields__) <= set(re.findall(r"`(\w+)`", table))


def test_every_package_and_module_has_its_place_in_the_tree_and_in_the_layers() -> None:
    tree = (PROJECT / "docs/architecture.md").read_text().split("```")[1]
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {name for layer in contracts[0]["layers"] for name in layer.split(" | ")}
    for path in (PROJECT / "ssdsim").iterdir():
        if not path.name.startswith("__") and path.suffix in ("", ".py"):
            assert f" {path.name}{'/' if path.is_dir() else ''} " in tree.replace("\n", " "), path.name
            assert f"ssdsim.{path.stem}" in layers, path.name


def test_the_changelogs_newest_version_is_the_packages() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (PROJECT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert versions[0] == ssdsim.__version__


def test_the_changelog_has_a_date_for_all_but_what_is_newest() -> None:
    newest, *others = re.findall(r"^## (.*)$", (PROJECT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest == "Unreleased"
    assert all(re.search(r"\d{4}-\d\d-\d\d", heading) for heading in others)
