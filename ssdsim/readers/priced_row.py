"""Price of a measured row by a runtime: the rounds that ``predict`` prices, and the prompts in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from ssdsim import strategies
from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.errors import InputError
from ssdsim.base.option import Section
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, field, replace
from ssdsim.base.settings import GIVEN
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.pricing.cost import Cost, TimingErrors
from ssdsim.pricing.mixed import PASS_TOKENS, with_prompts
from ssdsim.pricing.passes import of_prompts
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, Piece, Step
from ssdsim.question.configuration import Configuration, configured
from ssdsim.question.price import round_error
from ssdsim.question.question import Question
from ssdsim.question.scenario import Scenario
from ssdsim.readers.row import Row
from ssdsim.readers.row_options import TELL_TOKENS
from ssdsim.rounds.round import Round
from ssdsim.tokens.acceptance import rate_of
from ssdsim.transformer.prefill import prefill_pass

T = TypeVar("T")

_SMALL = 1e-3  # of a round, by which a step is longer where it is asked what that costs
_ROUNDING = 1e-9


def _as_priced(errors: TimingErrors) -> float:
    return 1.0


class PricedRow(Record):
    """Work that was done at ``site`` behind a row's value.

    ``steps`` are those of a round where it speculates. Each counts ``rounds`` times its ``share_of_rounds``: 1 where
    nothing is said, 0 of what is hidden behind others. Each pass over ``prompts`` has its own number. ``round_error``
    is that of the strategy's rounds, a direction and its log-sd. ``assumed`` are options that the row does not say, as
    they were taken.
    """

    site: Site
    steps: Mapping[str, Step]
    rounds: float
    prompts: tuple[tuple[Pass, float], ...]
    round_error: tuple[str, float] | None
    share_of_rounds: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    over_hits: Callable[[TimingErrors], FloatOrArray] = _as_priced

    @property
    def pieces(self) -> Iterator[tuple[Piece, float]]:
        """Everything that was done, with how share_of_rounds."""
        for name, step in self.steps.items():
            rounds = self.rounds * self.share_of_rounds.get(name, 1.0)
            yield from ((piece, rounds * piece.times) for piece in step.pieces)
        yield from ((self.site.piece(prompt), times) for prompt, times in self.prompts)

    @cached_property
    def cost(self) -> Cost:
        """The seconds of :func:`seconds_of`, as predicted."""
        whole = Cost.total((piece.cost, times) for piece, times in self.pieces)
        return whole if self.round_error is None else whole.off_by(*self.round_error)

    def sample(self, errors: TimingErrors) -> Array:
        """The seconds under each draw of the timings' errors, and of the hits where the row says none."""
        return np.asarray(self.cost.sample(errors) * self.over_hits(errors))


def options_of(row: Row) -> dict[str, Any]:
    """A row's setting as the options of a scenario, but for the runtime: what ``predict`` would be asked for it.

    What drafts is a head of the target where the row names neither a draft nor a drafter: the MTP layer of a target
    that has one, else EAGLE-3's.
    """
    given: dict[str, Any] = {
        "strategies": ("ar",),
        "target": row.model,
        "b": row.batch,
        "ep": row.ep if row.ep > 1 else None,
        "dcp": row.dcp if row.dcp > 1 else None,
        **picked(row, "hardware", "tp", "context", "dtype", "kv_dtype", "state_dtype"),
    }
    if row.k is not None:
        head = "mtp" if find_transformer(row.model).mtp_layers else "eagle3"
        drafter = row.drafter or ("model" if row.draft else head)
        given |= {"strategies": ("sd",), "k": row.k, "drafter": drafter, "draft": row.draft, "sd_draft": "colocated"}
        given["draft_dtype"] = row.draft_dtype
        given["found"] = row.found
    if row.tree_nodes is not None:
        tree = {"tree_nodes": row.tree_nodes, "tree_depth": row.k, "tree_beam": row.tree_beam}
        given |= {"strategies": ("tree",), **tree, "k": None}
    if row.strategy is not None:
        sits = any(option.name == "sd_draft" for option in strategies.ALL.named(row.strategy).options)
        given |= {"strategies": (row.strategy,), "sd_draft": "colocated" if sits else None}
    given |= dict(row.options)
    if row.k is not None and not TELL_TOKENS & given.keys():
        given["alpha"] = _acceptance_of(row)
    return {name: value for name, value in given.items() if value is not None}


def _acceptance_of(row: Row) -> float:
    """An acceptance rate for what else rests on one: how many tokens a round yields, the row says itself."""
    if row.strategy is None or row.k is None or row.acceptance_length is None:
        return 0.5
    return rate_of(min(row.acceptance_length, row.k + 1.0), row.k)


def work_of(row: Row, runtime: Runtime = KERNELS) -> PricedRow:
    """Work out what is done behind a row, with the draft where the runtime has it and the cache that it keeps."""
    # whoever ran the row had room for its batch and context: that is not asked again
    given = options_of(row) | {"b": 1, "context": 1, "engine": KERNELS.name}
    question = Question.of(given)
    ways = {name: _ways(question, name, row, runtime) for name in question.contestants.names}
    asked = configured(question, given, lambda name: [way.scenario for way in ways[name]])
    (ran,) = (each[0] for each in ways.values())
    scenario, site, round_ = ran.scenario, ran.site, ran.round
    may_miss = any(option.name == "found" for option in scenario.drafter.options)
    if row.k is not None and row.found is None and may_miss:
        said = "rows must say rounds and undrafted_rounds"
        raise InputError(f"{scenario.drafter.title} does not draft in every round: {said}")
    tokens = row.acceptance_length or float(np.mean(scenario.estimate.tokens_per_round))
    rounds, prompts = _counts(row, tokens, site.runtime.kernels.prompts)
    over_hits = _as_priced if row.strategy is None else partial(_over_hits, ran, row.acceptance_length is None)
    return PricedRow(
        site=site,
        steps=ran.steps,
        rounds=rounds,
        prompts=tuple(_prompts(site, row, ran.steps, rounds, prompts)),
        round_error=round_error(scenario.strategy, site),
        share_of_rounds=_exposed_shares(scenario, round_),
        assumed=(*assumed_drafter(row), *(() if row.strategy is None else _assumed(asked))),
        over_hits=over_hits,
    )


class _Way(Record):
    """A row's strategy, with one choice of what the row leaves to it, as it runs at the row's site."""

    scenario: Scenario
    site: Site
    steps: Mapping[str, Step]
    round: Round

    @property
    def tokens_per_second(self) -> float:
        return float(self.scenario.strategy.mean_round(self.round).tokens_per_second)


def _ways(question: Question, name: str, row: Row, runtime: Runtime) -> list[_Way]:
    """The fastest way first."""
    ways = [_at_row(scenario, row, runtime) for scenario in question.scenarios(name)]
    return ways if len(ways) == 1 else sorted(ways, key=lambda way: -way.tokens_per_second)


def _at_row(scenario: Scenario, row: Row, runtime: Runtime) -> _Way:
    assert scenario.site is not None  # it has hardware
    runtime = runtime.on(scenario.site.profile.device).of_version(row.stated_version).keeping(row.states)
    runtime = runtime.verifying(scenario.site.target)
    kept = row.kv_dtype or runtime.cache_beside(scenario.site.precision_of("target"))
    site = replace(
        scenario.site,
        batch=row.batch,
        context=row.context,
        runtime=runtime,
        kv_dtype=kept,
        engine_version=row.stated_version,
    )
    site = site.with_options({**site.options, "b": row.batch})
    steps = scenario.strategy.steps(site, scenario.drafter)
    seconds = {name: step.seconds for name, step in steps.items()}
    return _Way(scenario, site, steps, replace(scenario.round, batch=row.batch, seconds=seconds))


def _exposed_shares(scenario: Scenario, round_: Round) -> dict[str, float]:
    """How much longer the mean round gets for each second more of a step: 0 if it is hidden, a backup's miss rate.

    A round's seconds are sums and maxima of its steps', so that the shares of all seconds add up to the round's.
    """
    seconds, whole = dict(round_.seconds), float(scenario.strategy.mean_round(round_).round_s)
    small = _SMALL * whole
    shares = {}
    for name in seconds:
        ends = (
            float(scenario.strategy.mean_round(replace(round_, seconds={**seconds, name: seconds[name] + way})).round_s)
            for way in (small, -small)
        )
        share = (next(ends) - next(ends)) / (2.0 * small)
        shares[name] = float(round(share)) if abs(share - round(share)) < _ROUNDING else share
    return shares


def _over_hits(ran: _Way, own_tokens: bool, errors: TimingErrors) -> FloatOrArray:
    """The factor on a token's seconds in each draw of hits and acceptance where nobody gives them."""
    known, strategy = ran.scenario.known, ran.scenario.strategy
    if not known.open:
        return 1.0
    drawn = strategy.mean_round(replace(ran.round, averages=known.over_ranges(errors)))
    mean = strategy.mean_round(ran.round)
    factor = drawn.round_s / mean.round_s
    return factor * mean.tokens_per_round / drawn.tokens_per_round if own_tokens else factor


def assumed_drafter(row: Row) -> tuple[str, ...]:
    """The drafter that is taken for a row that names none, in words."""
    return () if row.k is None or row.draft or row.drafter else (f"drafter {options_of(row)['drafter']}",)


def _assumed(asked: Configuration) -> tuple[str, ...]:
    """The options that a row of a named strategy should say, and does not."""
    (scenario,) = asked.scenarios.values()
    own = [each for each in scenario.strategy.options if each.section is Section.START and each.default is not None]
    chosen = [each.name for each in own if each.name in asked.settings and asked.settings.source(each.name) != GIVEN]
    hits = [each.name for each in scenario.known.inputs if each.standing == "placeholder"]
    said = [f"{name} {asked.settings[name]}" for name in (*chosen, *hits)]
    if hits and scenario.estimate.p_hit is not None:
        said.append(f"so p_hit {float(scenario.estimate.p_hit):.2f}")
    return tuple(said)


def _counts(row: Row, tokens_a_step: float, waited_for: float) -> tuple[float, float]:
    """Count the batch's steps and the prompts that are in the time that a row speaks of.

    While a request decodes, each of the others in flight is replaced once in as many tokens as it puts out; of their
    prompts it waits for the share ``waited_for``.
    """
    match row.metric:
        case "step_ms":
            return 1.0, 0.0
        case "latency_s":
            return (row.output_tokens - 1.0) / tokens_a_step, float(row.batch)
        case "tpot_ms":
            return 1.0 / tokens_a_step, waited_for * (row.batch - 1) / row.output_tokens
        case _:
            return 1.0 / tokens_a_step, row.batch / row.output_tokens


def _prompts(
    site: Site, row: Row, steps: Mapping[str, Step], rounds: float, prompts: float
) -> Iterator[tuple[Pass, float]]:
    """Passes over ``prompts`` prompts; a static batch is processed in passes of several.

    Where the engine mixes them with what decodes, passes with prompts in them take the place of some without.
    """
    tokens = round(row.input_tokens)
    if not tokens or not prompts:
        return
    if site.runtime.mixes_prompts and row.metric != "latency_s":
        verified = next(each for step in steps.values() for each in step.passes if each.model == "target")
        for mixed, share in with_prompts(site, verified, tokens, prompts / rounds):
            yield mixed, share * rounds
            yield verified, -share * rounds
        return
    together = max(1, min(row.batch, PASS_TOKENS // tokens)) if row.metric == "latency_s" else 1
    shape = {"dtype": site.dtype, "kv_dtype": site.kv_dtype, "tp": site.tp, "ep": site.ep}
    forward = prefill_pass(site.target, batch=together, tokens=tokens, **shape)
    yield Pass("prompts", "target", forward, site.tp, site.profile, of_prompts(site.local_runtime)), prompts / together


def each_row(rows: Iterable[Row], made: Callable[[Row], T]) -> list[T]:
    """Make something of each row; a mistake in one is told by its number."""
    of_rows = []
    for number, row in enumerate(rows, 1):
        try:
            of_rows.append(made(row))
        except InputError as error:
            raise InputError(f"{name_of(number, row)}: {error}") from None
    return of_rows


def name_of(number: int, row: Row) -> str:
    """Name of a row in messages."""
    return f"row {number} ({row.model}, {row.hardware}, batch {row.batch})"


def seconds_of(row: Row) -> float:
    """A row's value as the seconds of :attr:`PricedRow.cost`: of a token and sequence, a step or a whole batch."""
    match row.metric:
        case "latency_s":
            return row.value
        case "tokens_per_s":
            return row.batch / row.value
        case _:
            return 1e-3 * row.value


def value_of(row: Row, seconds: float) -> float:
    """The inverse of :func:`seconds_of`: predicted seconds in the row's own metric."""
    match row.metric:
        case "latency_s":
            return seconds
        case "tokens_per_s":
            return row.batch / seconds
        case _:
            return 1e3 * seconds
