"""What README and docs show is what the commands print; what they name exists."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import click
import pytest

from site_generator.shown import PROJECT, in_a_shell, pages, shown_on
from ssdsim.cli.main import cli
from tests.ssdsim.cli.in_process import asked

pytestmark = pytest.mark.long

README = PROJECT / "README.md"
WRITTEN = [README, PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]
MOST_LINES = 140
MOST_WORDS = 25


def name_of(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_shown_output_is_what_the_command_prints(page: Path) -> None:
    """Update with ``python -m site_generator.shown`` after looking at the difference.

    README's commands are typed into a shell, as are those with a pipe; the others need no process of their own.
    """
    for shown in shown_on(page) if page == README else shown_on(page, printed):
        assert shown.expected == shown.refreshed(), shown.command


def printed(command: str, folder: Path) -> str:
    if not re.fullmatch(r"ssdsim [^|&;<>$`()*\\#]*", command):
        return in_a_shell(command, folder)
    with chdir(folder):
        return asked(*shlex.split(command)[1:]).stdout


def test_the_readme_is_short_and_shows_the_page_to_play_with() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    assert "docs/assets/explore.png" in text


@pytest.mark.parametrize("page", [README, PROJECT / "docs/tutorial.md"], ids=name_of)
def test_no_sentence_of_the_first_pages_has_to_be_read_twice(page: Path) -> None:
    """A sentence of more words has two ideas, as a rule."""
    for sentence in sentences(page.read_text()):
        assert len(sentence.split()) <= MOST_WORDS, sentence


def sentences(text: str) -> Iterator[str]:
    """Of a page, without its code, tables, headings and the addresses of links; an item of a list begins a new one."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"^(\||#|!).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for paragraph in re.split(r"\n\s*\n|\n\s*- ", text):
        yield from re.split(r"[.?!:]\**\s+", " ".join(paragraph.split()))


@pytest.mark.parametrize("page", [README, PROJECT / "CONTRIBUTING.md"], ids=name_of)
def test_what_a_page_of_the_repository_links_to_exists(page: Path) -> None:
    """Links within ``docs/`` are checked where the site is built."""
    targets = [name for name in re.findall(r"(?:\]\(|src=\")([^)\"#]+)", page.read_text()) if "://" not in name]
    assert targets
    for target in targets:
        assert (PROJECT / target).is_file(), target


@pytest.mark.parametrize("page", [p for p in WRITTEN if ">>> " in p.read_text()], ids=name_of)
def test_shown_python_prints_what_is_shown(page: Path) -> None:
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
    example = doctest.DocTestParser().get_doctest(blocks, {}, page.stem, str(page), 0)
    assert example.examples
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


def named_commands() -> Iterator[tuple[str, str]]:
    """Commands of ssdsim that pages show without output, since they take minutes, or files and devices."""
    for page in WRITTEN:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), flags=re.DOTALL):
            for line in re.sub(r"\\\n\s*", "", block).splitlines():
                if matched := re.search(r"(?:^|&& |/)ssdsim (.*)", line):
                    yield name_of(page), matched.group(1)


@pytest.mark.parametrize(("page", "command"), list(named_commands()))
def test_a_command_without_output_has_known_options(page: str, command: str) -> None:
    """Read to its last option as it would be run, but not run."""
    read(cli, shlex.split(command, comments=True))


def read(command: click.Command, arguments: list[str]) -> None:
    context = click.Context(command)
    while isinstance(command, click.Group):
        inner = command.get_command(context, arguments[0])
        assert inner is not None, arguments[0]
        command, arguments = inner, arguments[1:]
    command.make_context(str(command.name), arguments)
