"""``ssdsim models``: the transformer cards."""

from __future__ import annotations

import click

from ssdsim.cli.console import console, echo
from ssdsim.cli.groups import Group
from ssdsim.cli.options import echo_json, json_option
from ssdsim.cli.tables import Table
from ssdsim.hardware.catalog import find_transformer, transformer_names


@click.group("models", cls=Group)
def command() -> None:
    """List and show transformer cards."""


@command.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """Every bundled card with its size."""
    cards = [find_transformer(name) for name in transformer_names()]
    if as_json:
        shown = [card.model_dump() | {"parameters": card.parameters} for card in cards]
        echo_json({"schema": 1, "transformers": shown})
        return
    table = Table(pad_edge=True)
    for column in ("name", "parameters", "layers", "hidden", "heads", "kv heads", "MLP", "vocabulary", "dtype"):
        table.add_column(column, words=column in ("name", "dtype"))
    for card in cards:
        table.add_row(
            card.name,
            f"{card.parameters / 1e9:.2f} B",
            str(card.layers),
            str(card.hidden_size),
            str(card.heads),
            str(card.kv_heads),
            str(card.intermediate_size),
            str(card.vocab_size),
            card.dtype,
        )
    console().print(table)
    echo("Also: transformer-shaped-HxL (the proposal's graph), a card's .toml, or a Hugging Face config.json")


@command.command("show")
@click.argument("name")
@json_option
def show_model(name: str, as_json: bool) -> None:
    """One card: a bundled name, a .toml file or a config.json."""
    card = find_transformer(name)
    shown = card.model_dump() | {"parameters": card.parameters}
    if as_json:
        echo_json({"schema": 1, "transformer": shown})
        return
    for key, value in shown.items():
        echo(f"{key:22} {value}")
