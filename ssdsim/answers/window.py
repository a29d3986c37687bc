"""The verification window: how much drafting fits into the time of one verification (proposal, section 5.1).

Two counts of what fits. The proposal lets every cached outcome cost draft passes of its own, K of them, one after the
other: its fan-out budget is passes / K. The reference engine drafts all outcomes together: one glue pass and K steps,
each over all branch tokens at once under a custom mask, so that its budget ends where those wide steps fill the window,
or the draft device's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from msgspec.structs import asdict

from ssdsim import strategies
from ssdsim.base.checks import few_enough, listed, whole
from ssdsim.base.errors import InputError
from ssdsim.base.option import Group, spelled
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer, short_hardware_name
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.pricing.cost import Cost, TimingErrors
from ssdsim.pricing.drafter import MOST_OUTCOMES, Drafter, prespeculation, window_budget
from ssdsim.pricing.occupancy import largest_budget
from ssdsim.pricing.site import Site
from ssdsim.question.drafting import draft_by_options
from ssdsim.question.option_usage import check_owners
from ssdsim.question.options import members, refuse_others
from ssdsim.question.price import price
from ssdsim.question.question import Question, effective
from ssdsim.question.spellings import any_spelling
from ssdsim.strategies import drafters
from ssdsim.strategies.protocols.cached import MOST_RUN

if TYPE_CHECKING:
    import pandas as pd

    from ssdsim.question.typed_options import Axes

AXES = ("target", "draft", "hardware", "draft_hardware", "tp", "b", "context", "k")
"""Options that may be lists, outermost first."""
MEASURES = (
    "verify_s", "draft_pass_s", "passes", "passes_low", "passes_high", "budget_of_passes", "window_s", "prespeculate_s",
    "budget", "fan_out", "limit", "reason", "warnings",
)  # fmt: skip
_COUNTS = ("passes", "passes_low", "passes_high", "budget_of_passes", "budget", "fan_out")
MOST_COMBINATIONS = 100_000  # of the axes: some milliseconds each
DRAWS = 1000


class VerificationWindow(Record):
    """What fits into one verification; durations in seconds, budgets in cached outcomes a sequence.

    ``passes`` draft passes (one token a sequence each) fit into ``verify_s``, with 95 % bounds from the timings'
    errors; ``budget_of_passes`` is ``passes // K``, the proposal's fan-out budget. ``window_s`` is how long the draft
    really has, from the start of the verification to the arrival of its outcome: host work and the message count.
    ``prespeculate_s`` is the engine's glue pass and K branch steps for the smallest cache, one guess a position
    (K + 1 outcomes). Both sides run undisturbed: what devices that share memory lose to each other is left out.
    ``budget`` is the most outcomes that pre-speculation finishes within ``window_s``, 0 if not even
    K + 1; ``fan_out`` is as many a position, ``budget // (K + 1)``; ``limit`` says what ended it: ``time``,
    ``memory``, or ``search`` (at :data:`MOST_OUTCOMES`).
    """

    verify_s: float
    draft_pass_s: float
    passes: int
    passes_low: int
    passes_high: int
    budget_of_passes: int
    window_s: float
    prespeculate_s: float
    budget: int
    fan_out: int
    limit: str
    warnings: tuple[str, ...]


@any_spelling
def window(*, seed: int = 0, **options: Unpack[Axes]) -> pd.DataFrame:
    """The verification window over the product of the options that are lists.

    Parameters
    ----------
    seed : of the draws behind ``passes_low`` and ``passes_high``.
    options : those of :data:`AXES`, each one value or a list of values; and others of the devices and of the drafter,
        such as ``draft_gpus``, ``dtype`` or ``temperature``, one value each. The rest has no part in the window.

    Returns
    -------
    DataFrame with a row a combination, the last axis fastest: the columns :data:`AXES` and the fields of
    :class:`VerificationWindow`. If a combination is impossible (memory, devices, a degree that does not divide the
    heads), ``reason`` says why, and the measures are missing.

    Raises
    ------
    InputError : an unknown option or card, an empty list, or a value out of range.

    >>> from ssdsim import window
    >>> frame = window(tp=[1, 4], k=6)
    >>> frame.reason[0][:38]
    'llama-3.1-70b at tp 1 needs 131.7 GiB '
    >>> int(frame.passes[1]), int(frame.budget_of_passes[1]), int(frame.budget[1])
    (8, 1, 408)
    """
    import pandas as pd

    whole("--seed", seed, 0)
    rows = []
    for point in _combinations(options):
        row: dict[str, Any] = dict.fromkeys(MEASURES)
        settings = None
        try:
            asked = Question.of(point)
            settings = asked.settings
            row |= asdict(_measured(asked, seed))
        except InputError as error:
            row["reason"] = str(error)
        settings = settings or effective(point)  # which refuses a mistake that is none of this combination's
        places = {
            name: short_hardware_name(said) for name in ("hardware", "draft_hardware") if (said := settings[name])
        }
        rows.append({axis: settings[axis] for axis in AXES} | places | row)
    frame = pd.DataFrame(rows, columns=[*AXES, *MEASURES], dtype=object)
    counts = ("tp", "b", "context", "k", *_COUNTS)
    seconds = [name for name in MEASURES if name.endswith("_s")]
    return frame.astype(dict.fromkeys(counts, "Int64") | dict.fromkeys(seconds, float))


def accepted_options() -> tuple[str, ...]:
    """The options that a window may read: the axes, and those of devices, models and drafters."""
    of_drafters = (option.name for drafter in drafters.ALL for option in drafter.options)
    idle = ("sd_draft", "backup_ms")  # what SD and a fallback do at the same site
    single = ("drafter", "temperature", *members(Group.HARDWARE), *of_drafters)
    return (*AXES, *dict.fromkeys(name for name in single if name not in (*AXES, *idle)))


def _measured(asked: Question, seed: int) -> VerificationWindow:
    """The window where the pre-speculating strategy has room, with the smallest cache."""
    assert asked.site is not None  # only --t-sd reads no hardware
    settings = asked.settings.copy()
    settings.derive("budget", settings["k"] + 1, "one guess a position")
    price(settings, strategies.ALL.named(strategies.SUBJECT), asked.site, asked.contestants.drafter)
    return measure(asked.site.with_options(settings), asked.contestants.drafter, seed)


def measure(site: Site, drafter: Drafter, seed: int = 0) -> VerificationWindow:
    """The window at a site."""
    k = site.options["k"]
    verify, draft = site.cost(site.target_pass("verify", k + 1)), site.cost(site.draft_pass("draft step"))
    smallest = prespeculation(site, drafter, k, k + 1)
    available = verify + site.sampling_step().cost + site.outcome_message(k + 1).cost
    in_time = site.microbatches * smallest.seconds <= available.seconds
    budget, limit = _budget(site, drafter, k, in_time)
    passes = int(verify.seconds / (site.microbatches * draft.seconds))
    low, high = _bounds(verify, draft * site.microbatches, seed)
    widest = prespeculation(site, drafter, k, max(budget, 1)).cost
    return VerificationWindow(
        verify_s=verify.seconds,
        draft_pass_s=draft.seconds,
        passes=passes,
        passes_low=low,
        passes_high=high,
        budget_of_passes=passes // k,
        window_s=available.seconds,
        prespeculate_s=smallest.seconds,
        budget=budget,
        fan_out=budget // (k + 1),
        limit=limit,
        warnings=tuple(sorted(verify.warnings | draft.warnings | widest.warnings)),
    )


def _budget(site: Site, drafter: Drafter, k: int, smallest_is_in_time: bool) -> tuple[int, str]:
    if not smallest_is_in_time:
        return 0, "time"
    in_time = window_budget(site, drafter, k)
    in_memory = site.options["draft_gpus"] * largest_budget(
        site.draft,
        site.context,
        k,
        site.precision_of("draft"),
        site.sampling,
        site.batch,
        site.draft_profile,
        site.runtime.caching,
    )
    if in_memory < in_time:
        return in_memory, "memory"
    return in_time, "time" if in_time < MOST_OUTCOMES else "search"


def _bounds(verify: Cost, draft: Cost, seed: int) -> tuple[int, int]:
    errors = TimingErrors(DRAWS, seed)
    low, high = np.percentile(verify.sample(errors) / draft.sample(errors), (2.5, 97.5))
    return int(low), int(high)


def _combinations(options: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The options of each combination."""
    refuse_others("window", options, accepted_options())
    check_owners(options)
    given = {name: value for name, value in options.items() if value is not None}
    axes = {name: listed(spelled(name), given[name]) for name in AXES if name in given}
    single = {name: value for name, value in given.items() if name not in AXES}
    if single.get("engine") is not None:
        find_runtime(single["engine"])
    for name, find in (("target", find_transformer), ("hardware", find_hardware)):
        for card in (*axes.get(name, ()), *axes.get(f"draft_{name}", ())):
            find(card)  # a name that does not exist is a mistake, not a combination that does not fit
    for card in axes.get("draft", ()):
        draft_by_options({**single, **{name: values[0] for name, values in axes.items()}, "draft": card})
    few_enough("combinations", axes.values(), MOST_COMBINATIONS)
    for combination in product(*axes.values()):
        yield {**single, **dict(zip(axes, combination, strict=True))}


def sentence(row: Mapping[Any, Any]) -> str:
    """The proposal's sentence (section 5.1) for a row of :func:`window`."""
    where = f"{row['target']} at TP {row['tp']} (batch {row['b']}, context {row['context']})"
    if row["reason"] is not None:
        return f"{where} with {row['draft']}: {row['reason']}."
    k, passes, budget = int(row["k"]), int(row["passes"]), int(row["budget"])
    if budget:
        batched = f"{budget} outcomes fit ({int(row['fan_out'])} guesses a position; ended by {row['limit']})"
        batched += f", and nobody is known to have run more than {MOST_RUN}" if budget > MOST_RUN else ""
    else:
        batched = f"even one guess a position comes too late ({1e3 * row['prespeculate_s']:.1f} ms)"
    return (
        f"Verifying {k} draft tokens with {where} takes {1e3 * row['verify_s']:.1f} ms and a draft pass of "
        f"{row['draft']} {1e3 * row['draft_pass_s']:.2f} ms, so {_passes(passes)}: a fan-out budget of "
        f"{passes}/{k} = {int(row['budget_of_passes'])} if each outcome is drafted by passes of its own. With the "
        f"branches of all outcomes batched into the same passes, as the reference engine does, {batched}."
    )


def _passes(count: int) -> str:
    return f"{count} pass fits" if count == 1 else f"{count} passes fit"


def as_json(frame: pd.DataFrame) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim window --json`` (schema 1); missing measures are null."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return {"schema": 1, "rows": [row | {"sentence": sentence(row)} for row in rows]}
