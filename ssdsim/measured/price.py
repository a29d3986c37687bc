"""What a runtime predicts for a measured row: decoding steps, and the prompts that are processed in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ssdsim.errors import InputError
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.measured.row import Row
from ssdsim.pricing.between_kernels import cost_of_launches, cost_of_speculation, cost_of_step, of_prompts
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.runtimes.card import KERNELS, Runtime
from ssdsim.transformer.card import Transformer, legal_tensor_parallel
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.prefill import prefill_pass

T = TypeVar("T")

PREFILL_CHUNK = 8192
"""Tokens of prompts that engines process in one pass."""


@dataclass(frozen=True)
class Work:
    """The passes behind a row's value, each with how often it runs in the time that the value speaks of.

    ``steps`` are steps of the target (rounds, where it speculates), each over ``batch`` sequences.
    """

    batch: int
    steps: float
    target: ForwardPass
    profile: HardwareProfile
    draft: ForwardPass | None = None
    drafted: int = 0
    speculates: bool = False
    prefills: tuple[tuple[ForwardPass, float], ...] = ()

    def cost(self, runtime: Runtime) -> Cost:
        """Seconds in the runtime."""
        parts = [
            (cost_of_pass(self.target, self.profile, runtime), self.steps),
            (cost_of_step(runtime, self.batch), self.steps),
        ]
        if self.speculates:
            parts.append((cost_of_speculation(runtime, self.target.layers), self.steps))
            parts.append((self._draft_step(runtime), self.steps * self.drafted))
            if self.draft is not None:
                devices_s = Cost.total(parts).seconds / self.steps
                parts.append((cost_of_launches(runtime, self.draft.layers, self.drafted, devices_s), self.steps))
        prompts = of_prompts(runtime)
        parts += [(cost_of_pass(forward, self.profile, prompts), times) for forward, times in self.prefills]
        whole = Cost.total(parts)
        log_sd = runtime.errors.round_log_sd
        return whole.off_by(f"round@{runtime.name}", log_sd) if self.speculates and log_sd else whole

    def _draft_step(self, runtime: Runtime) -> Cost:
        """Of a draft model; a head's step is all in the runtime's own seconds of a draft step."""
        if self.draft is not None:
            return cost_of_pass(self.draft, self.profile, runtime, "draft")
        host, errors = runtime.host, runtime.errors
        return Cost({f"fixed:draft step@{runtime.name}": (host.per_draft_step_s, errors.draft_step_log_sd)})


def work_of(row: Row, runtime: Runtime = KERNELS) -> Work:
    """The passes behind a row, with the draft where the runtime has it and the cache that it keeps.

    Raises
    ------
    InputError : no such card or profile, or a degree that does not divide the model.
    """
    card, profile = find_transformer(row.model), find_hardware(row.hardware)
    queries, kv_dtype = (row.k or 0) + 1, cache_of(row, card, runtime)

    def decoding(model: Transformer, tp: int, queries: int = 1, ep: int = 1) -> ForwardPass:
        return forward_pass(
            model,
            batch=row.batch,
            queries=queries,
            context=row.context,
            tp=tp,
            dtype=row.dtype,
            kv_dtype=kv_dtype,
            ep=ep,
        )

    target = decoding(card, row.tp, queries, row.ep)
    draft = None
    if row.draft:
        drafter = find_transformer(row.draft)
        all_of_them = runtime.draft_tp == "all" and row.tp in legal_tensor_parallel(drafter)
        draft = decoding(drafter, row.tp if all_of_them else 1)
    steps, prompts = _counts(row)
    return Work(
        batch=row.batch,
        steps=steps,
        target=target,
        profile=profile,
        draft=draft,
        drafted=row.k or 0,
        speculates=row.k is not None,
        prefills=_prefills(card, row, prompts, kv_dtype),
    )


def _counts(row: Row) -> tuple[float, float]:
    """How many steps of the batch, and how many prompts, are in the time that a row speaks of.

    While a request decodes, each of the others in flight is replaced once in as many tokens as it puts out.
    """
    tokens_a_step = row.acceptance_length or 1.0
    match row.metric:
        case "step_ms":
            return 1.0, 0.0
        case "latency_s":
            return (row.output_tokens - 1.0) / tokens_a_step, float(row.batch)
        case "tpot_ms":
            return 1.0 / tokens_a_step, (row.batch - 1) / row.output_tokens
        case _:
            return 1.0 / tokens_a_step, row.batch / row.output_tokens


def cache_of(row: Row, card: Transformer, runtime: Runtime) -> str | None:
    """The cache's dtype: the row's, or beside quantised weights the runtime's; None for the model's own."""
    precision = card.precision(row.dtype)
    own = row.kv_dtype or (None if precision.kv == precision.activations else precision.kv)
    return own or runtime.cache_beside(precision)


def _prefills(
    card: Transformer, row: Row, prompts: float, kv_dtype: str | None
) -> tuple[tuple[ForwardPass, float], ...]:
    """Passes over ``prompts`` prompts; a static batch is processed in passes of several."""
    tokens = round(row.input_tokens)
    if not tokens or not prompts:
        return ()
    together = max(1, min(row.batch, PREFILL_CHUNK // tokens)) if row.metric == "latency_s" else 1
    forward = prefill_pass(
        card, batch=together, tokens=tokens, tp=row.tp, dtype=row.dtype, kv_dtype=kv_dtype, ep=row.ep
    )
    return ((forward, prompts / together),)


def each_row(rows: Iterable[Row], made: Callable[[Row], T]) -> list[T]:
    """What is ``made`` of each row; a mistake in one is told by its number."""
    found = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(made(row))
        except InputError as error:
            raise InputError(f"row {number} ({row.model}, {row.hardware}, batch {row.batch}): {error}") from None
    return found


def seconds_of(row: Row) -> float:
    """A row's value as the seconds of :meth:`Work.cost`: of a token and sequence, a step or a whole batch."""
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
