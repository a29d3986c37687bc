"""Completion in a shell: verbs, options and, after an option that takes a name, the names that there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from ssdsim.base.errors import InputError
from ssdsim.base.kinds import Member
from ssdsim.base.kinds_of_lists import Names
from ssdsim.cli.main import COMPLETION
from ssdsim.hardware.catalog import hardware_names, transformer_names
from ssdsim.hardware.runtime_catalog import runtime_names
from ssdsim.question.options import ALL
from ssdsim.tokens.drafter_card import drafter_names

_OF_CARDS: dict[str, Callable[[], Iterable[str]]] = {
    "target": transformer_names,
    "draft": lambda: [*transformer_names(), *drafter_names()],
    "hardware": hardware_names,
    "draft_hardware": hardware_names,
    "runtime": runtime_names,
}
_OF_VERBS: dict[str, Callable[[], Iterable[str]]] = {
    "--model": transformer_names,
    "--machine": hardware_names,
    "--base": hardware_names,
    "models show": transformer_names,
    "hardware show": hardware_names,
    "hardware check": hardware_names,
    "hardware scale": hardware_names,
    "runtimes show": runtime_names,
}
"""Options and arguments of single verbs, which no record describes."""


def names_after(words: list[str]) -> Iterable[str]:
    """The names that may follow these words of a command line; none where they ask for none."""
    asked = words[-1] if words else ""
    for name, option in ALL.items():
        if asked in option.flags:
            if isinstance(option.kind, Member | Names):
                return option.kind.of.names
            return _OF_CARDS[name]() if name in _OF_CARDS else ()
    of_verb = _OF_VERBS.get(asked) or _OF_VERBS.get(" ".join(words))
    return of_verb() if of_verb else ()


class _Named(ShellComplete):
    """Completes names, too; the last of several that commas separate."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        names = [name for name in names_after(args) if name.startswith(last)]
        found = [CompletionItem(f"{before}{comma}{name}") for name in names]
        return found or super().get_completions(args, incomplete)


class _Bash(_Named, BashComplete):
    """Completion of names in bash."""


class _Zsh(_Named, ZshComplete):
    """Completion of names in zsh."""


class _Fish(_Named, FishComplete):
    """Completion of names in fish."""


_ZSHRC = "fpath+=~/.zfunc; autoload -Uz compinit && compinit"
_SHELLS: dict[str, tuple[type[ShellComplete], str, str]] = {
    "bash": (_Bash, ".local/share/bash-completion/completions/ssdsim", ""),
    "zsh": (_Zsh, ".zfunc/_ssdsim", f"\nIf ~/.zshrc has no such line yet: {_ZSHRC}"),
    "fish": (_Fish, ".config/fish/completions/ssdsim.fish", ""),
}


def offer() -> None:
    """Have click ask these classes when a shell asks for completions."""
    for shell, (cls, _, _) in _SHELLS.items():
        add_completion_class(cls, shell)


def install(shell: str, cli: click.Command) -> tuple[Path, str]:
    """Write the script of ``shell``, or of the one that is used, to where it looks; that place, and what else to do."""
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        raise InputError(f"completion is for {', '.join(_SHELLS)}, not '{name}'; --install-completion=bash names one")
    cls, place, more = _SHELLS[name]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cls(cli, {}, "ssdsim", COMPLETION).source(), encoding="utf-8")
    return path, more


def installed(ctx: click.Context, shell: str) -> None:
    """Install completion for ``--install-completion``, say where, and end."""
    path, more = install(shell, ctx.command)
    click.echo(f"{path} is written; a new shell completes ssdsim.{more}")
    ctx.exit()
