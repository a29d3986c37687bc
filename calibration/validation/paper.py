"""Replays of published speeds: fit the few numbers that a paper leaves out, predict the rest, show the errors.

A paper's SD speeds tell acceptance, and its SSD speeds one hit law for all its pairs. All else is the runtime's card.

Of trees, the seconds that a verification of so many nodes takes are fitted, and the tree is found that the paper
shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from calibration.validation.published_drafters import PublishedRows
from ssdsim.base.bundled import Shelf
from ssdsim.base.card import Card, Finite, of_one_length
from ssdsim.base.checks import Array, text
from ssdsim.base.documents import as_record, read_toml
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.round import Always
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.protocols.hits import R
from ssdsim.strategies.sd import Speculative
from ssdsim.strategies.ssd import SSD
from ssdsim.tokens.acceptance import expected_tokens, rate_of
from ssdsim.tokens.hit_models import PowerLawHits
from ssdsim.tokens.trees.drafted import best_trees
from ssdsim.tokens.trees.shape import Tree
from ssdsim.transformer.forward import forward_pass

Speed = Annotated[float, Meta(ge=1e-3, le=1e6)]  # tokens/s
Lookahead = Annotated[int, Meta(ge=1, le=1000)]
FanOut = Annotated[int, Meta(ge=1, le=1000)]

_AT_BOUND = 1e-3  # of a rate that a fit ends at its bound


class PublishedFamily(Card):
    """A target and a draft with their speeds on some data sets (tokens/s of all sequences together).

    ``sd_k``, ``ssd_k`` and ``fan_out`` are the paper's unless the family has its own; ``assumed`` says which of them
    are not published, and where they come from.
    """

    target: str
    draft: str
    ar_tokens_per_s: Speed
    datasets: Annotated[tuple[str, ...], Meta(min_length=1)]
    sd_tokens_per_s: tuple[Speed, ...]
    ssd_tokens_per_s: tuple[Speed, ...]
    sd_k: Lookahead | None = None
    ssd_k: Lookahead | None = None
    fan_out: FanOut | None = None
    assumed: str = ""

    def __post_init__(self) -> None:
        of_one_length(self, "datasets", "sd_tokens_per_s", "ssd_tokens_per_s")


class Sweep(Card):
    """Speeds of one engine over the lookahead K."""

    engine: str
    method: str
    target: str
    k: Annotated[tuple[Lookahead, ...], Meta(min_length=1)]
    tokens_per_s: tuple[Speed, ...]

    def __post_init__(self) -> None:
        of_one_length(self, "k", "tokens_per_s")


class TreeSweep(Sweep):
    """The same with trees of K levels, on each of which the draft goes on from its ``topk`` likeliest nodes."""

    topk: Annotated[int, Meta(ge=2, le=64)]


class PublishedSpeeds(Card):
    """A paper's results and the setting in which they were measured; sweeps are of one sequence.

    ``backup`` is what SSD did on a miss, and ``dtype`` the format of the weights, where it is not the targets' own.
    """

    name: str
    citation: str
    setting: str
    context: Annotated[int, Meta(ge=1, le=10**7)]
    tp: Annotated[int, Meta(ge=1, le=1024)]
    sd_k: Lookahead
    ssd_k: Lookahead
    fan_out: FanOut
    families: Annotated[tuple[PublishedFamily, ...], Meta(min_length=1)]
    sweeps: tuple[Sweep, ...] = ()
    batch: Annotated[int, Meta(ge=1, le=100_000)] = 1
    backup: Literal["jit", "fast"] = "jit"
    dtype: str | None = None
    tree_sweeps: tuple[TreeSweep, ...] = ()

    def setting_of(self, family: PublishedFamily) -> tuple[int, int, int]:
        """K of SD, K of SSD and the fan-out of a family's runs."""
        return family.sd_k or self.sd_k, family.ssd_k or self.ssd_k, family.fan_out or self.fan_out


class FamilyReplay(Record):
    """Fitted: an acceptance rate per data set, to its SD row. Predicted: the SSD speeds, with their relative errors.

    ``hit_c`` is the miss rate of one guess, of all the paper's pairs, and ``p_hit`` what it makes of this one's
    fan-out: with a uniform fan-out every outcome has as many guesses. ``at_bound`` says that the fit of ``hit_c`` ended
    where no hit law goes farther: the SSD speeds ask for another cost, not for other hits.
    """

    family: PublishedFamily
    alpha: Array
    hit_c: float
    p_hit: float
    at_bound: bool
    ar_tokens_per_s: float
    ssd_tokens_per_s: Array

    @property
    def errors(self) -> Array:
        return np.asarray(self.ssd_tokens_per_s / np.array(self.family.ssd_tokens_per_s) - 1.0)


class SweepReplay(Record):
    """Fitted: an acceptance rate, a cost a round and a cost a draft step of the engine. Predicted: the shape over K.

    ``at_bound`` says that one of them ended where it can go no farther: the row asks for another law of its costs.
    """

    sweep: Sweep
    alpha: float
    round_extra_s: float
    draft_step_s: float
    tokens_per_s: Array
    at_bound: bool

    @property
    def errors(self) -> Array:
        return np.asarray(self.tokens_per_s / np.array(self.sweep.tokens_per_s) - 1.0)

    @property
    def best_k(self) -> tuple[int, int]:
        """The best K as published and as predicted."""
        k, seen = self.sweep.k, self.sweep.tokens_per_s
        return k[int(np.argmax(seen))], k[int(np.argmax(self.tokens_per_s))]


def _load(path: Path) -> PublishedSpeeds | PublishedRows | PublishedTrees:
    data = read_toml(path, "card")
    if "rows" in data:
        return as_record(PublishedRows, data, path, "card")
    if "trees" in data:
        return as_record(PublishedTrees, data, path, "card")
    return as_record(PublishedSpeeds, data, path, "card")


PAPERS = Shelf("paper", "published", ".toml", _load, ("or a card's path",))


def load_paper(name: str) -> PublishedSpeeds | PublishedRows | PublishedTrees:
    """The bundled results called ``name``, or a card's path: of SSD, rows of drafters, or of trees, by their tables."""
    return PAPERS.find(text("a paper", name))


def replay_families(paper: PublishedSpeeds, hardware: str) -> list[FamilyReplay]:
    """Take acceptance from each SD row and one hit law from all SSD rows, with the runtime's card as it is."""
    from scipy.optimize import minimize_scalar

    priced = [_Priced.of(paper, family, hardware) for family in paper.families]
    seen = [np.array(each.family.ssd_tokens_per_s) for each in priced]

    def missed(hit_c: float) -> float:
        errors = [np.log(each.ssd(hit_c) / speeds) for each, speeds in zip(priced, seen, strict=True)]
        return float(np.square(np.concatenate(errors)).sum())

    found = float(minimize_scalar(missed, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-6}).x)
    hit_c = min((0.0, found, 1.0), key=missed)
    at_bound = min(hit_c, 1.0 - hit_c) < _AT_BOUND
    return [
        FamilyReplay(e.family, e.alpha, hit_c, e.p_hit(hit_c), at_bound, e.ar_tokens_per_s, e.ssd(hit_c))
        for e in priced
    ]


class _Priced(Record):
    """A family's rounds, priced, with the acceptance that its SD speeds then ask for."""

    family: PublishedFamily
    alpha: Array
    ar_tokens_per_s: float
    scenario: Scenario
    k: int
    fan_out: int
    batch: int

    @classmethod
    def of(cls, paper: PublishedSpeeds, family: PublishedFamily, hardware: str) -> _Priced:
        sd_k, k, fan_out = paper.setting_of(family)
        formats: dict[str, Any] = {} if paper.dtype is None else {"dtype": paper.dtype}
        scenarios = configure(
            target=family.target,
            draft=family.draft,
            hardware=hardware,
            tp=paper.tp,
            context=paper.context,
            k=k,
            sd_k=sd_k,
            f=fan_out,
            fan_out_policy="uniform",
            b=paper.batch,
            backup=paper.backup,
            **formats,
        ).scenarios
        ar, sd, ssd = (scenarios[strategy.name] for strategy in (Autoregressive, Speculative, SSD))
        tokens = np.array(family.sd_tokens_per_s) * float(sd.estimate.round_s) / paper.batch
        alpha = np.array([rate_of(float(each), sd_k) for each in tokens])
        return cls(family, alpha, float(ar.estimate.tokens_per_second), ssd, k, fan_out, paper.batch)

    def p_hit(self, hit_c: float) -> float:
        return float(PowerLawHits(r=R.default, c=hit_c)(self.fan_out))

    def ssd(self, hit_c: float) -> Array:
        """SSD's speeds where one guess misses so often, after either speculation."""
        hit = self.p_hit(hit_c)
        misses = Always(str(SSD.miss_state), 1.0 - hit**self.batch)
        round_s = float(sum(self.scenario.strategy.parts(self.scenario.seconds, misses).values()))
        fast = self.scenario.settings["backup"] == "fast"
        after_miss = self.scenario.settings["alpha_backup"] if fast else self.alpha
        tokens = hit * expected_tokens(self.alpha, self.k) + (1.0 - hit) * expected_tokens(after_miss, self.k)
        return np.asarray(self.batch * tokens / round_s)


def replay_sweep(paper: PublishedSpeeds, sweep: Sweep, hardware: str) -> SweepReplay:
    """Fit one acceptance rate and the engine's two fixed costs to a row, and show its shape over K.

    The fit is to the least mean absolute error, which one odd point does not rule. Only what every engine must do is
    priced (GEMMs, attention, collectives); element-wise kernels, which some engines fuse, and host work are part of
    the engine's fixed cost of a round.
    """
    from scipy.optimize import differential_evolution

    ks, seen = np.array(sweep.k), np.array(sweep.tokens_per_s)
    verify_s = np.array([_unavoidable_s(paper, sweep.target, hardware, k) for k in sweep.k])

    def predicted(free: Sequence[float]) -> Array:
        alpha, round_extra_s, step_s = free
        return np.asarray(expected_tokens(alpha, ks) / (verify_s + round_extra_s + ks * step_s))

    low, high = np.zeros(3), np.array([0.999, 20e-3, 20e-3])
    fit = differential_evolution(
        lambda free: float(np.abs(predicted(free) / seen - 1.0).mean()),
        bounds=list(zip(low, high, strict=True)),
        rng=0,
        tol=1e-8,
    )
    alpha, round_extra_s, step_s = map(float, fit.x)
    at_bound = bool(np.any(np.minimum(fit.x - low, high - fit.x) < _AT_BOUND * high))
    return SweepReplay(sweep, alpha, round_extra_s, step_s, predicted(fit.x), at_bound)


def _unavoidable_s(paper: PublishedSpeeds, target: str, hardware: str, k: int) -> float:
    forward = forward_pass(find_transformer(target), batch=1, queries=k + 1, context=paper.context, tp=paper.tp)
    by_kind = cost_of_pass(forward, find_hardware(hardware)).by_kind()
    return sum(seconds for kind, seconds in by_kind.items() if kind not in ("elementwise", "fixed"))


Positive = Annotated[float, Meta(gt=0.0, le=1e40)]
Count = Annotated[int, Meta(ge=1, le=4096)]


class TreeRows(Card):
    """Results with trees of so many nodes at a temperature; ``tokens`` of a round, speed-ups over AR."""

    nodes: Count
    temperature: Finite
    datasets: Annotated[tuple[str, ...], Meta(min_length=1)]
    levels: tuple[Count, ...]
    tokens: tuple[Positive, ...]
    speedups: tuple[Positive, ...]

    def __post_init__(self) -> None:
        of_one_length(self, "datasets", "levels", "tokens", "speedups")


class Demo(Card):
    """Acceptance by rank and times (of one unit) from which a tree was searched, and the tree's size; root included."""

    ranks: Annotated[tuple[Annotated[float, Meta(ge=0.0, le=1.0)], ...], Meta(min_length=1)]
    draft_time: Positive
    nodes: Annotated[tuple[Count, ...], Meta(min_length=1)]
    target_times: tuple[Positive, ...]
    most_levels: Count
    shipped_nodes: Count
    shipped_levels: Count

    def __post_init__(self) -> None:
        if len(self.nodes) != len(self.target_times) or 1 not in self.nodes:
            raise ValueError("nodes and target_times must be lists of one length, and nodes must have 1 among them")


class PublishedTrees(Card):
    """A paper's trees and the setting in which they were measured; ``ar_s`` is a token's time without speculation."""

    name: str
    citation: str
    setting: str
    ar_s: Positive
    draft_step_s: Positive
    trees: Annotated[tuple[TreeRows, ...], Meta(min_length=1)]
    demo: Demo | None = None


class TreeReplay(Record):
    """Fitted: a verification's time over that of one token. Predicted: a speed-up a data set."""

    rows: TreeRows
    verify: float
    speedups: Array

    @property
    def errors(self) -> Array:
        return np.asarray(self.speedups / np.array(self.rows.speedups) - 1.0)


class DemoReplay(Record):
    """The tree of the least time a token: its nodes and levels, root included, tokens a round, and what it gains."""

    tree: Tree
    nodes: int
    levels: int
    tokens: float
    time_per_token: float
    speedup: float


def replay_trees(paper: PublishedTrees, rows: TreeRows) -> TreeReplay:
    """One number for all rows, ``t(nodes)``: ``speedup = tokens / (t(nodes) + levels c)``, c a draft step over AR's."""
    tokens, seen = np.array(rows.tokens), np.array(rows.speedups)
    drafting = np.array(rows.levels) * paper.draft_step_s / paper.ar_s
    verifying = tokens / seen - drafting
    if verifying.min() <= 0.0:
        at = rows.datasets[int(np.argmin(verifying))]
        raise InputError(f"speedups: {at} is faster than its tokens and the draft's steps allow, whatever a pass takes")
    verify = float(np.exp(np.mean(np.log(verifying))))
    return TreeReplay(rows, verify, tokens / (verify + drafting))


def replay_demo(demo: Demo) -> DemoReplay:
    """Nothing is fitted."""
    table = best_trees(np.array([demo.ranks]), max(demo.nodes), demo.most_levels)
    trees = [
        ((demo.draft_time * levels + time) / float(table.tokens[nodes, levels]), nodes, levels)
        for nodes, time in zip(demo.nodes, demo.target_times, strict=True)
        for levels in range(1, demo.most_levels + 1)
        if np.isfinite(table.tokens[nodes, levels])
    ]
    time_per_token, nodes, levels = min(trees)
    speedup = demo.target_times[demo.nodes.index(1)] / time_per_token
    tokens = float(table.tokens[nodes, levels])
    return DemoReplay(table.tree(nodes, levels), nodes, levels, tokens, time_per_token, speedup)
