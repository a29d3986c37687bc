"""The SSD paper's sweeps over K: what rounds and draft steps of engines cost.

What is accepted of a draft model is known by the paper's own engine, which had the same pair, greedy, on the same data
sets. A head's acceptance is fitted with the costs, as is that of a draft whose launches hide behind a verification.

docs/fidelity_rounds.py shows them and uses those of engines of which no round is known by its acceptance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from calibration.timings.fit import significant
from calibration.validation.paper import PublishedSpeeds, load_paper
from calibration.validation.paper import Sweep as Speeds
from ssdsim.base.checks import Array
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_numbers import Launches
from ssdsim.readers.priced_row import work_of
from ssdsim.readers.row import Row
from ssdsim.tokens.acceptance import expected_tokens, rate_of
from ssdsim.tokens.acceptance_models import ACCEPTANCE

HARDWARE = "h100-sxm"
_DRAFT, _ACCEPTED = "llama-3.2-1b", "kumar2026-llama"
_CARDS = {"sglang-0.5.9": "sglang", "vllm-0.16.0": "vllm-0.9"}
"""Whose passes an engine's are."""
_WITHOUT_GRAPHS = ("vllm-0.16.0",)
"""Whose draft models never run as graphs: the dispatcher's keys are made for heads alone (vLLM pull request 47460)."""


@dataclass(frozen=True)
class Sweep:
    """A row of speeds over K, fitted to every second K: the engine's costs beside its passes, and a head's acceptance.

    ``alpha`` is the one rate of as many tokens at the longest K. ``fitted`` is the worst error of the K fitted,
    ``others`` and ``worst`` the mean and the worst of the others.
    """

    engine: str
    method: str
    alpha: float
    per_round_s: float
    per_draft_step_s: float
    fitted: float
    others: float
    worst: float
    launches: Launches | None = None


def sweeps(cards: Mapping[str, Runtime]) -> Iterator[Sweep]:
    """Every published sweep, beside what the card of its engine has of passes."""
    paper = load_paper("kumar2026")
    assert isinstance(paper, PublishedSpeeds)
    for speeds in paper.sweeps:
        bare_s = np.array([_round_s(paper, speeds, k, cards[_CARDS[speeds.engine]]) for k in speeds.k])
        yield _swept(speeds, bare_s)


def _round_s(paper: PublishedSpeeds, speeds: Speeds, k: int, card: Runtime) -> float:
    """A round of one sequence, all that the card has in it."""
    drafts = {"draft": _DRAFT} if speeds.method == "standalone" else {"drafter": "eagle3"}
    row = Row(
        model=speeds.target,
        hardware=HARDWARE,
        tp=paper.tp,
        batch=1,
        input_tokens=paper.context,
        output_tokens=1,
        metric="step_ms",
        value=1.0,
        k=k,
        **drafts,
    )
    return work_of(row, card).cost.seconds


def _swept(speeds: Speeds, bare_s: Array) -> Sweep:
    """Where drafts are launched one by one, the host does so while the target verifies: the slower ends a round."""
    ks, seen = np.array(speeds.k), np.array(speeds.tokens_per_s)
    launched = speeds.method == "standalone" and speeds.engine in _WITHOUT_GRAPHS
    every_second, between = slice(0, None, 2), slice(1, None, 2)

    known = ACCEPTANCE.find(_ACCEPTED).rates if speeds.method == "standalone" and not launched else ()

    def tokens(free: Array, at: slice) -> Array:
        rates = known or (free[2],)
        return np.mean([expected_tokens(rate, ks[at]) for rate in rates], axis=0)

    def errors(free: Array, at: slice) -> Array:
        beside = 1e-3 * (free[0] + ks[at] * free[1])
        rounds = np.maximum(bare_s[at], beside) if launched else bare_s[at] + beside
        return np.asarray(tokens(free, at) / rounds / seen[at] - 1.0)

    costs = (8.0, 5.0) if launched else (1.0, 0.5)  # where neither side of the maximum is out of sight
    starts = [costs] if known else [(*costs, alpha) for alpha in (0.6, 0.7, 0.8, 0.9)]
    most = (20.0, 20.0, 0.99)
    fits = [
        least_squares(errors, start, bounds=((0.0,) * len(start), most[: len(start)]), args=(every_second,))
        for start in starts
    ]
    best = min(fits, key=lambda fit: fit.cost).x
    others = np.abs(errors(best, between))
    round_s, step_s = 1e-3 * best[:2]
    longest = int(ks[-1])
    layers = find_transformer(_DRAFT).layers
    launches = Launches(per_round_s=significant(round_s), per_layer_s=significant(step_s / layers))
    return Sweep(
        speeds.engine,
        speeds.method,
        rate_of(float(tokens(best, slice(-1, None))[0]), longest),
        float(round_s),
        float(step_s),
        float(np.abs(errors(best, every_second)).max()),
        float(others.mean()),
        float(others.max()),
        launches if launched else None,
    )
