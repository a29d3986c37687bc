"""``ssdsim models``: the transformer cards."""

from __future__ import annotations

from typing import Any

import click

from ssdsim.cli.console import console, echo
from ssdsim.cli.options import CommandGroup, json_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import completing
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.catalog import TRANSFORMERS, find_transformer, transformer_names
from ssdsim.tokens.acceptance import accepted_length_pmf, expected_tokens_of_pmf
from ssdsim.tokens.drafter_card import DRAFTERS
from ssdsim.transformer.card import Transformer


@click.group("models", cls=CommandGroup)
def command() -> None:
    """List and show transformer cards."""


@command.command("list", example="ssdsim models list")
@json_option
def list_models(as_json: bool) -> None:
    """Every bundled card with its size."""
    cards = TRANSFORMERS.cards()
    if as_json:
        echo_json({"schema": 1, "transformers": [_shown(card) for card in cards]})
        return
    numbers = ("parameters", "layers", "hidden", "heads", "kv heads", "MLP", "vocabulary")
    table = TextTable(("name",), numbers, ("dtype",), first=("parameters", "dtype", "layers"), pad_edge=True)
    for card in cards:
        precision = card.precision()
        parts = ("attention", "attention_out", "recurrent", "mlp", "experts")
        table.add_row(
            card.name,
            f"{card.parameters / 1e9:.2f} B",
            str(card.layers),
            str(card.hidden_size),
            str(card.heads),
            str(card.kv_heads),
            str(card.intermediate_size),
            str(card.vocab_size),
            ", ".join(dict.fromkeys(precision.of(part) for part in parts)),
        )
    console().print(table)
    echo("Also: transformer-shaped-HxL (the proposal's graph), a card's .toml, or a Hugging Face config.json")


@command.command("drafters", example="ssdsim models drafters")
@json_option
def list_drafters(as_json: bool) -> None:
    """Every bundled card of a drafter, with the data on which its acceptance was published."""
    cards = DRAFTERS.cards()
    if as_json:
        echo_json({"schema": 1, "drafters": cards})
        return
    words, numbers = ("name", "--drafter", "target", "sets"), ("K", "tokens")
    table = TextTable(words, numbers, first=("sets", "K", "tokens", "--drafter"), pad_edge=True)
    for card in cards:
        for number, known in enumerate(card.acceptance):
            names = (card.name, card.drafter, card.target or "any") if number == 0 else ("", "", "")
            tokens = 1.0 + known.found * (
                expected_tokens_of_pmf(accepted_length_pmf(known.by_position, len(known.by_position))) - 1.0
            )
            table.add_row(*names, known.data, str(len(known.by_position)), f"{tokens:.2f}")
    console().print(table)
    echo("tokens: of a round of K drafted ones, the bonus token included; sources are in the cards (--json)")


@command.command("show", example="ssdsim models show llama-3.1-8b")
@click.argument("name", shell_complete=completing(transformer_names))
@json_option
def show_model(name: str, as_json: bool) -> None:
    """One card: a bundled name, a .toml file or a config.json."""
    card = find_transformer(name)
    shown = _shown(card)
    if as_json:
        echo_json({"schema": 1, "transformer": shown})
        return
    for key, value in shown.items():
        if value is None:
            continue
        said = ", ".join(f"{part} {kept}" for part, kept in value.items()) if isinstance(value, dict) else value
        echo(f"{key:22} {said}")


def _shown(card: Transformer) -> dict[str, Any]:
    """The card with every format that it leaves unsaid."""
    precision = card.precision()
    weights = {part: precision.of(part) for part in ("attention", "mlp", "lm_head")}
    if precision.attention_out:
        weights["attention_out"] = precision.attention_out
    if card.experts is not None:
        weights["experts"] = precision.of("experts")
    if card.recurrent is not None:
        weights["recurrent"] = precision.of("recurrent")
    return card.as_dict() | {
        "weights": weights,
        "kv_dtype": precision.kv,
        "parameters": card.parameters,
        "active_parameters": card.active_parameters,
    }
