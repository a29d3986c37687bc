"""SD whose K follows the number of requests, by a table or a policy; and each of its Ks fixed, to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, replace
from ssdsim.question.options import DEFAULTS
from ssdsim.question.question import Question
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import KnownTokens
from ssdsim.rounds.kernel import Mix, Tokens
from ssdsim.serving import ema_tiers, throughput_aware
from ssdsim.serving.batching import EMA, OPEN_END, THROUGHPUT, THROUGHPUT_AWARE, Batching, KTable
from ssdsim.serving.ema_tiers import EmaTiers
from ssdsim.serving.passes import PromptTables
from ssdsim.serving.policy import Policy, Steering, Variant, of_alternatives
from ssdsim.serving.throughput_aware import ProfiledRounds, ThroughputAware
from ssdsim.strategies.sd import Paused

_TRIED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 31, 61, 96, 128, 192)
"""Sequences at which SGLang's policies are tried; the first of each slot of its tiers among them."""
_SEED, _ROUNDS = 7, 1_000  # of a long run, in which the usual K is found
_KS = {EMA: ema_tiers.KS, THROUGHPUT_AWARE: throughput_aware.KS}


class ByK(Record):
    """``policy`` switches between Ks; ``fixed`` are these Ks alone, of which 0 is decoding without a draft.

    Both have the same prices of the same rounds.
    """

    policy: Policy
    fixed: Mapping[int, Policy]


def by_k(asked: KTable | str, name: str, options: Mapping[str, Any], batching: Batching, tables: PromptTables) -> ByK:
    """SD by a table; by the most tokens a second of all Ks up to ``--k`` at each batch; or by a policy of SGLang's.

    An engine with a table counts the requests of the pass in which it drafts, those with a part of a prompt among them,
    which is the pass before the one that verifies. Who knows the prices, or what was accepted, counts those that
    decode.
    """

    def variant(scenario: Scenario, label: str) -> Variant:
        return Variant(scenario, batching, tables, options["context"], label)

    context = options["context"]
    ks = ks_of(asked, options)
    drafting = {k: variant(_speculative(options, k), f"SD K {k}") for k in ks if k}
    every = {**drafting, 0: variant(paused(_speculative(options, 1)), "SD K 0")} if 0 in ks else drafting
    if isinstance(asked, KTable):
        policy = replace(_switching(name, asked, every, context), counts_scheduled=True)
    elif asked == THROUGHPUT:
        fastest = _fastest(every, batching.max_batch, context)
        policy = _switching(name, fastest, {k: every[k] for k in fastest.ks}, context)
    else:
        rounds = ProfiledRounds({k: each.table for k, each in every.items()})
        steered: Callable[[], Steering] = EmaTiers if asked == EMA else partial(ThroughputAware, rounds)
        policy = replace(_switching(name, _usual(steered, every), every, context), steered=steered)
    alone = {k: drafting[k] if k else variant(_plain(options), "AR") for k in policy.ks}
    return ByK(policy, {k: of_alternatives([each], batching, context) for k, each in alone.items()})


def ks_of(asked: KTable | str, options: Mapping[str, Any]) -> Sequence[int]:
    """All Ks that may run, the largest first."""
    if isinstance(asked, KTable):
        return asked.ks
    return _KS.get(asked) or range(options.get("k") or DEFAULTS["k"], -1, -1)


def _switching(name: str, table: KTable, every: Mapping[int, Variant], context: int) -> Policy:
    """Ks, the largest first, each of which leaves room for the most tokens, as whichever runs next may need it."""
    variants = [copy(each) for each in every.values()]
    for each in variants:
        each.ledgers = variants[0].ledgers
    cells = {(first, context): list(every).index(k) for first, _, k in table.ranges}
    return Policy(name, "by schedule", variants, table.firsts, (context,), cells, is_schedule=True)


def _usual(steered: Callable[[], Steering], every: Mapping[int, Variant]) -> KTable:
    """Table of the K of most rounds at each number of sequences, where these never change."""
    accepted = {k: _accepted(variant.scenario.tokens) for k, variant in every.items()}
    each = pairwise([*_TRIED, OPEN_END])
    return KTable.of([(first, after - 1, _usual_k(steered(), first, accepted)) for first, after in each])


def _usual_k(steering: Steering, batch: int, accepted: Mapping[int, Array]) -> int:
    used, rng = Counter[int](), np.random.default_rng(_SEED)
    for _ in range(_ROUNDS):
        k = steering.k(batch)
        used[k] += 1
        steering.heard(accepted[k].searchsorted(rng.random(batch)).astype(float), k)
    return used.most_common(1)[0][0]


def _accepted(tokens: Tokens) -> Array:
    """P(at most so many drafted tokens of a round are accepted), in the long run of each kind of requests."""
    mix = Mix.of(tokens)
    return np.asarray(np.cumsum(mix.weights / mix.weights.sum() @ mix.kernel.yields)[1:])


def _of_sd(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("strategies", "subject", "sd_k")}


def _speculative(options: Mapping[str, Any], k: int) -> Scenario:
    first, *others = Question.of({**_of_sd(options), "strategies": ("sd",), "sd_k": k}).scenarios("sd")
    if others:
        raise InputError("--k-table needs --draft-serves together or in-turn where targets share a draft")
    return first


def _plain(options: Mapping[str, Any]) -> Scenario:
    (plain,) = Question.of({**_of_sd(options), "strategies": ("ar",)}).scenarios("ar")
    return plain


def paused(scenario: Scenario) -> Scenario:
    """Copy the scenario with a draft that drafts nothing."""
    strategy = Paused()
    known = KnownTokens(scenario.settings, strategy, scenario.drafter)
    paused = replace(scenario, strategy=strategy, known=known)
    assert paused.site is not None
    return paused.with_steps(strategy.steps(paused.site, paused.drafter))


def _fastest(by_k: Mapping[int, Variant], most: int, context: float) -> KTable:
    """Table of the K of the most tokens a second at each batch."""

    def best_at(batch: int) -> int:
        return max(by_k, key=lambda k: float(by_k[k].table.mean(batch, context).tokens_per_second))

    alike = [(k, list(batches)) for k, batches in groupby(range(1, most + 1), key=best_at)]
    return KTable.of([(batches[0], batches[-1], k) for k, batches in alike])
