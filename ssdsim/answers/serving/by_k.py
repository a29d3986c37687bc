"""K by the number of requests: SD whose K a table says, and each of the table's Ks for good beside it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ssdsim.answers.serving.batching import Batching
from ssdsim.answers.serving.k_table import KTable
from ssdsim.answers.serving.passes import PromptTables
from ssdsim.answers.serving.policy import Policy, Variant, of_alternatives
from ssdsim.base.errors import InputError
from ssdsim.scenario.asked import Asked
from ssdsim.scenario.options import DEFAULTS
from ssdsim.scenario.scenario import Scenario
from ssdsim.scenario.token_errors import KnownTokens
from ssdsim.strategies.speculative import Paused


@dataclass(frozen=True)
class ByK:
    """``policy`` switches between Ks; ``fixed`` are these Ks alone, of which 0 is decoding without a draft.

    Both have the same prices of the same rounds.
    """

    policy: Policy
    fixed: Mapping[int, Policy]


def by_k(table: KTable | None, name: str, options: Mapping[str, Any], batching: Batching, tables: PromptTables) -> ByK:
    """SD by a table, or, without one, by the most tokens a second of all Ks up to ``--k`` at each batch.

    An engine with a table counts the requests of the pass in which it drafts, those with a part of a prompt among them,
    which is the pass before the one that verifies. Who knows the prices counts those that decode.

    Raises
    ------
    InputError : a draft that leaves a choice of how it is shared.
    """

    def variant(scenario: Scenario, label: str) -> Variant:
        return Variant(scenario, batching, tables, options["context"], label)

    ks = range(options.get("k") or DEFAULTS["k"], -1, -1) if table is None else table.ks
    drafting = {k: variant(_speculative(options, k), f"SD K {k}") for k in ks if k}
    every = {**drafting, 0: variant(_paused(_speculative(options, 1)), "SD K 0")} if 0 in ks else drafting
    chosen = table or _fastest(every, batching.max_batch, options["context"])
    (plain,) = Asked.of({**_of_sd(options), "strategies": ("ar",)}).scenarios("ar")
    alone = {k: drafting[k] if k else variant(plain, "AR") for k in chosen.ks}
    policy = _switching(name, chosen, every, options["context"], counts_scheduled=table is not None)
    return ByK(policy, {k: of_alternatives([each], batching, options["context"]) for k, each in alone.items()})


def _switching(
    name: str, table: KTable, every: Mapping[int, Variant], context: int, *, counts_scheduled: bool
) -> Policy:
    """The table's Ks, each of which leaves room for the most tokens, as whichever runs next may need it."""
    variants = [copy(every[k]) for k in table.ks]
    for each in variants:
        each.ledgers = variants[0].ledgers
    cells = {(first, context): table.ks.index(k) for first, _, k in table.ranges}
    return Policy(
        name,
        "by schedule",
        variants,
        table.firsts,
        (context,),
        cells,
        is_schedule=True,
        counts_scheduled=counts_scheduled,
    )


def _of_sd(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("strategies", "subject", "sd_k")}


def _speculative(options: Mapping[str, Any], k: int) -> Scenario:
    first, *others = Asked.of({**_of_sd(options), "strategies": ("sd",), "sd_k": k}).scenarios("sd")
    if others:
        raise InputError("--k-table needs --draft-serves together or in-turn where targets share a draft")
    return first


def _paused(scenario: Scenario) -> Scenario:
    """The same draft, which drafts nothing."""
    strategy = Paused()
    known = KnownTokens(scenario.settings, strategy, scenario.drafter)
    paused = replace(scenario, strategy=strategy, known=known)
    assert paused.site is not None
    return paused.with_steps(strategy.steps(paused.site, paused.drafter))


def _fastest(by_k: Mapping[int, Variant], most: int, context: float) -> KTable:
    """At each batch the K of the most tokens a second."""

    def best_at(batch: int) -> int:
        return max(by_k, key=lambda k: float(by_k[k].table.mean(batch, context).tokens_per_second))

    alike = [(k, list(batches)) for k, batches in groupby(range(1, most + 1), key=best_at)]
    return KTable.of([(batches[0], batches[-1], k) for k, batches in alike])
