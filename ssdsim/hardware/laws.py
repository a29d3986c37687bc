"""Fitted timing models: seconds of an operation from its shape, with the error of the fit beside it.

Every model is a small physical law (a roofline, a latency plus bytes over bandwidth) times, where many
timings are known, a correction fitted to them. All evaluate on scalars or on arrays that broadcast together.
Seconds and bytes everywhere; bandwidths in bytes per second, peaks in floating-point operations per second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from ssdsim.errors import nearest
from ssdsim.records import FROM_LIST, Card, Coefficient, LogSd, NotNegative, Positive, Seconds

Array = NDArray[np.float64]
Range = Annotated[tuple[NotNegative, NotNegative], FROM_LIST]
Domain = dict[str, Range]
"""Smallest and largest value timed, by the name of the variable."""

Directions = Annotated[tuple[Annotated[tuple[Coefficient, ...], FROM_LIST], ...], FROM_LIST]
"""Independent directions in which a fit's coefficients wander when its timings are drawn anew (a bootstrap).

Each is one standard deviation long: the coefficients wander by every direction times a standard normal number.
"""

DATASHEET_LOG_SD = 0.25
"""Standard deviation of log(real / datasheet): kernels reach 60 to 95 % of a datasheet's figure."""


_HINGE = re.compile(r"(?P<name>\w+)(?P<side>[<>])(?P<knot>\d[\d.]*(?:e[+-]?\d+)?)")


class FitReport(Card):
    """How well a model predicts timings that it was not fitted to; relative absolute errors.

    ``log_sd`` is the standard deviation of the normal distribution whose 95th percentile of
    ``|log(measured / predicted)|`` is the held-out one: a few wild timings do not move it, a heavy tail does.
    ``coefficient_sd`` is the part of it that the uncertainty of the coefficients makes, for the shapes timed.
    """

    rows_fitted: int = Field(ge=0)
    rows_held_out: int = Field(ge=0)
    median_error: NotNegative
    p95_error: NotNegative
    log_sd: LogSd
    coefficients: int = Field(ge=0)
    coefficient_sd: NotNegative = 0.0


class TimingModel(Card):
    """What all timing models carry: the name of their source in the profile, their domain and their error.

    ``dimensions`` are the variables that a model's domain may name.
    """

    dimensions: ClassVar[tuple[str, ...]] = ()

    source: str
    domain: Domain = Field(default_factory=dict)
    report: FitReport | None = None

    @model_validator(mode="after")
    def _domain_is_of_its_variables(self) -> TimingModel:
        check_domain(self.domain, self.dimensions)
        return self

    @property
    def log_sd(self) -> float:
        """Standard deviation of log(real / predicted): the held-out one, or a datasheet's."""
        return self.report.log_sd if self.report else DATASHEET_LOG_SD

    def beyond(self, values: Mapping[str, float]) -> str | None:
        """Which variable leaves the domain, as short text; ``None`` inside it."""
        for name, (smallest, largest) in self.domain.items():
            if values[name] < smallest:
                return f"{name} below the smallest timed, {smallest:g}"
            if values[name] > largest:
                return f"{name} above the largest timed, {largest:g}"
        return None


def check_domain(domain: Domain, variables: tuple[str, ...]) -> None:
    """ValueError unless every range rises and is of one of the variables."""
    for name, (smallest, largest) in domain.items():
        if name not in variables:
            raise ValueError(f"domain: no variable '{name}'{nearest(name, variables)} Allowed: {', '.join(variables)}")
        if smallest > largest:
            raise ValueError(
                f"domain: {name} must rise from the smallest to the largest, got {smallest:g}, {largest:g}"
            )


class Roofline(Card):
    """A smooth maximum of a launch floor, streaming time and arithmetic time.

    ``seconds = (launch_s**p + (bytes / bandwidth)**p + (flops / peak_flops)**p) ** (1 / p)`` with
    ``p = sharpness``: 1 adds them (no overlap), large takes the longest (perfect overlap).
    """

    launch_s: Seconds
    bandwidth: Positive
    peak_flops: Positive
    sharpness: float = Field(default=4.0, ge=0.01, le=100.0)

    def seconds(self, moved_bytes: ArrayLike, flops: ArrayLike) -> Array:
        p = self.sharpness
        streaming = (np.asarray(moved_bytes, float) / self.bandwidth) ** p
        arithmetic = (np.asarray(flops, float) / self.peak_flops) ** p
        return np.asarray((self.launch_s**p + streaming + arithmetic) ** (1 / p))


@dataclass(frozen=True, eq=False)
class _Hinges:
    """Parsed terms: which variable, log knot and sign, of shape ``(2, terms)`` for both hinges of each term.

    A term with one hinge gets a second one on a constant, which is always 1. ``low`` and ``high`` are the smallest and
    the largest of each variable.
    """

    variable: NDArray[np.intp]
    knot: Array
    sign: Array
    coefficients: Array
    low: Array
    high: Array

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(terms: tuple[tuple[str, float], ...], domain: tuple[tuple[str, Range], ...]) -> _Hinges:
        """Parsed once for all profiles that share them: those of a machine with another clock or link."""
        names = [name for name, _ in domain]
        variable = np.full((2, len(terms)), len(names), dtype=np.intp)
        knot, sign = np.zeros((2, len(terms))), np.ones((2, len(terms)))
        for column, (term, _) in enumerate(terms):
            for row, hinge in enumerate(term.split(" * ")):
                match = _HINGE.fullmatch(hinge)
                if row > 1 or not match or match["name"] not in names:
                    raise ValueError(
                        f"term '{term}': a term is 'variable>knot', 'variable<knot' or a product of two, "
                        f"of {', '.join(names) or 'no variables: domain is empty'}"
                    )
                variable[row, column] = names.index(match["name"])
                at = float(match["knot"])
                if not 0.0 < at < np.inf:
                    raise ValueError(f"term '{term}': a knot must be above 0 and finite")
                knot[row, column] = np.log(at)
                sign[row, column] = 1.0 if match["side"] == ">" else -1.0
        low, high = np.array([limits for _, limits in domain], float).reshape(-1, 2).T
        return _Hinges(variable, knot, sign, np.array([coefficient for _, coefficient in terms], float), low, high)

    def evaluate(self, logs: Array) -> Array:
        """Terms of shape ``(terms, ...)`` from logarithms of shape ``(variables + 1, ...)``, the last all 1."""
        shape = (2, -1) + (1,) * (logs.ndim - 1)
        hinges = np.maximum(self.sign.reshape(shape) * (logs[self.variable] - self.knot.reshape(shape)), 0.0)
        return np.asarray(hinges[0] * hinges[1])


class Correction(Card):
    """What a roofline misses, as a piecewise-linear function of the logarithms of the shape.

    ``log_factor = intercept + sum(coefficient * term)`` where a term is a hinge or a product of two, written
    ``"n<4096"`` for ``max(0, log(4096 / n))`` and ``"n<4096 * k>512"`` for a product (Friedman, Multivariate
    Adaptive Regression Splines, 1991). Variables are clamped to ``domain``, so it stays constant outside.
    """

    intercept: Coefficient = 0.0
    terms: dict[str, Coefficient] = Field(default_factory=dict)
    domain: Domain = Field(default_factory=dict)
    uncertainty: Directions = ()
    """Directions of the intercept and the terms' coefficients, in this order."""

    @model_validator(mode="after")
    def _parse(self) -> Correction:
        if any(largest == 0.0 for _, largest in self.domain.values()):
            raise ValueError("domain: a range must end above 0, for the logarithm of its variable")
        _ = self._hinges
        check_directions(self.uncertainty, 1 + len(self.terms))
        return self

    @cached_property
    def _hinges(self) -> _Hinges:
        return _Hinges.of(tuple(self.terms.items()), tuple(self.domain.items()))

    def features(self, values: Mapping[str, ArrayLike]) -> Array:
        """Every term's value, shape ``(terms, ...)`` with the broadcast shape of ``values``."""
        columns = [values[name] for name in self.domain]
        logs = np.ones((len(columns) + 1, *np.broadcast_shapes(*map(np.shape, columns))))
        for row, column in enumerate(columns):
            logs[row] = column
        limits = self._hinges.low, self._hinges.high
        inside, (low, high) = logs[:-1], (each.reshape(-1, *(1,) * (logs.ndim - 1)) for each in limits)
        np.log(_clamped(inside, low, high), out=inside)
        return self._hinges.evaluate(logs)

    def log_factor(self, values: Mapping[str, ArrayLike]) -> Array:
        """Logarithm of real time over roofline time, of the broadcast shape of ``values``."""
        if not self.terms:
            return np.asarray(self.intercept)
        features, coefficients = self.features(values), self._hinges.coefficients
        many = features.ndim > 1
        return self.intercept + (np.tensordot(coefficients, features, axes=1) if many else coefficients @ features)

    def wander(self, values: Mapping[str, ArrayLike]) -> list[float]:
        """How much each direction of the uncertainty moves the logarithm of the time."""
        if not self.uncertainty:
            return []
        features = self.features(values) if self.terms else np.zeros(0)
        return [float(first + np.dot(slopes, features)) for first, *slopes in self.uncertainty]


def _clamped(values: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
    """``np.clip``, which takes several times as long for one number."""
    return np.asarray(np.minimum(np.maximum(values, low), high))


def check_directions(directions: Directions, coefficients: int) -> None:
    """ValueError unless every direction has a number for each coefficient."""
    if any(len(direction) != coefficients for direction in directions):
        raise ValueError(f"uncertainty: every direction needs {coefficients} numbers, one for each coefficient")


def _line_wander(uncertainty: Directions, size: float, seconds: float) -> list[float]:
    """How much each direction moves the logarithm of a fixed time plus a streaming one, in seconds fixed and a byte."""
    return [(fixed_s + size * byte_s) / seconds for fixed_s, byte_s in uncertainty]


GEMM_SIZES = ("m", "n", "k", "nk")
"""Of a product's shape; ``nk`` is the number of weights."""

GEMM_VARIABLES = (*GEMM_SIZES, "rows", "step")
"""What a correction may read. ``rows`` is ``m`` in whole tiles of sixteen, ``step`` the largest power of two that
divides ``m``, at most sixteen: kernels of block-scaled weights take up to 30 % longer where four or eight do not."""

_TILE_ROWS = 16
_REMEMBERED = 4096  # numbers of rows


def gemm_variables(m: ArrayLike, n: ArrayLike, k: ArrayLike, names: Iterable[str]) -> dict[str, ArrayLike]:
    """The sizes and what is made of them, where it is named, of shapes that broadcast together."""
    found: dict[str, ArrayLike] = {"m": m, "n": n, "k": k, "nk": np.multiply(n, k)}
    if "rows" in names:
        found["rows"] = _TILE_ROWS * np.ceil(np.divide(m, _TILE_ROWS))
    if "step" in names:
        found["step"] = np.gcd(np.asarray(m).astype(np.int64), _TILE_ROWS).astype(float)
    return found


class GemmSegment(Card):
    """A corrected roofline for one range of ``m``."""

    roofline: Roofline
    correction: Correction = Correction()
    report: FitReport | None = None

    @model_validator(mode="after")
    def _correction_is_of_its_variables(self) -> GemmSegment:
        check_domain(self.correction.domain, GEMM_VARIABLES)
        return self

    def log_seconds(self, m: Array, n: Array, k: Array, element_bytes: float) -> Array:
        moved_bytes = element_bytes * (m * k + k * n + m * n)
        roofline = np.log(self.roofline.seconds(moved_bytes, 2 * m * n * k))
        domain = self.correction.domain
        n, k = (_clamped(size, *domain.get(name, (0, np.inf))) for name, size in (("n", n), ("k", k)))
        return np.asarray(roofline + self.correction.log_factor(gemm_variables(m, n, k, domain)))

    def wander(self, m: float, n: float, k: float) -> list[float]:
        """How much each direction of the uncertainty moves the logarithm of the time."""
        return self.correction.wander(gemm_variables(m, n, k, self.correction.domain))


class GemmModel(TimingModel):
    """``(m, k) @ (k, n)`` with elements of ``element_bytes``.

    Kernels of different families serve few and many tokens, so there is a segment for each range of ``m``;
    between segment ``i`` and ``i + 1`` time is blended geometrically while ``m`` crosses ``blends[i]``.
    """

    dimensions: ClassVar[tuple[str, ...]] = GEMM_SIZES

    element_bytes: Positive
    """Of a weight, its share of block scales included: 0.5625 of four bits with an eight-bit scale for sixteen."""
    segments: Annotated[tuple[GemmSegment, ...], FROM_LIST] = Field(min_length=1)
    blends: Annotated[tuple[Annotated[tuple[Positive, Positive], FROM_LIST], ...], FROM_LIST] = ()

    @model_validator(mode="after")
    def _blend_between_segments(self) -> GemmModel:
        if len(self.blends) != len(self.segments) - 1:
            raise ValueError(f"{len(self.segments)} segments need {len(self.segments) - 1} blends")
        if any(start >= end for start, end in self.blends):
            raise ValueError("blends: each must rise from its start to its end")
        return self

    def seconds(self, m: ArrayLike, n: ArrayLike, k: ArrayLike) -> Array:
        m, n, k = (np.asarray(size, float) for size in (m, n, k))
        return self._blended(m, lambda segment: segment.log_seconds(m, n, k, self.element_bytes))

    def roofline_seconds(self, m: float, moved_bytes: float, flops: float) -> Array:
        """What the rooflines alone say of a product of ``m`` rows that moves other bytes than those timed."""
        rows = np.asarray(m, float)
        return self._blended(rows, lambda segment: np.log(segment.roofline.seconds(moved_bytes, flops)))

    def _blended(self, m: Array, log_seconds_of: Callable[[GemmSegment], Array]) -> Array:
        """Seconds, of each segment's logarithm of them, as much as it serves at ``m``."""
        crossed = [self._crossed(i, m) for i in range(len(self.blends))]
        first = max((i + 1 for i, share in enumerate(crossed) if share.min() == 1.0), default=0)
        log_seconds = log_seconds_of(self.segments[first])
        for share, segment in zip(crossed[first:], self.segments[first + 1 :], strict=True):
            if share.any():
                log_seconds = (1 - share) * log_seconds + share * log_seconds_of(segment)
        return np.asarray(np.exp(log_seconds))

    def _crossed(self, blend: int, m: ArrayLike) -> Array:
        """How far ``m`` has crossed a blend: 0 before it, 1 after it, linear in log m."""
        start, end = self._log_blends[blend]
        return _clamped((np.log(m) - start) / (end - start), 0.0, 1.0)

    @cached_property
    def _log_blends(self) -> list[tuple[float, float]]:
        return [(float(np.log(start)), float(np.log(end))) for start, end in self.blends]

    def segment_at(self, m: float) -> GemmSegment:
        """The segment that serves ``m`` (the nearer one within a blend)."""
        return self.segments[sum(crossed > 0.5 for crossed in self._crossed_at(m))]

    def _crossed_at(self, m: float) -> tuple[float, ...]:
        """How far ``m`` has crossed each blend; remembered, since the products of a pass have ``m`` in common."""
        found = self._known_crossed.get(m)
        if found is None:
            if len(self._known_crossed) >= _REMEMBERED:
                self._known_crossed.clear()
            found = tuple(float(self._crossed(i, m)) for i in range(len(self.blends)))
            self._known_crossed[m] = found
        return found

    @cached_property
    def _known_crossed(self) -> dict[float, tuple[float, ...]]:
        return {}

    def wander(self, m: float, n: float, k: float) -> dict[str, float]:
        """How much each direction of each segment's uncertainty moves the logarithm of the time."""
        crossed = [1.0, *self._crossed_at(m), 0.0]
        shares = [before * (1.0 - after) for before, after in pairwise(crossed)]
        return {
            f"{i}.{way}": share * moved
            for i, (segment, share) in enumerate(zip(self.segments, shares, strict=True))
            if share > 0.0
            for way, moved in enumerate(segment.wander(m, n, k))
        }

    def log_sd_at(self, m: float) -> float:
        """The error of the segment that serves ``m``."""
        report = self.segment_at(m).report
        return report.log_sd if report else self.log_sd

    def outside(self, m: int, n: int, k: int) -> str | None:
        """How the shape leaves the timed domain, as short text; ``None`` inside it."""
        return self.beyond({"m": m, "n": n, "k": k, "nk": n * k})


class Regime(Card):
    """One protocol of a collective: ``latency_s + bytes / bandwidth`` from ``from_bytes`` to ``to_bytes``."""

    latency_s: Seconds
    bandwidth: Positive
    from_bytes: NotNegative
    to_bytes: Positive
    uncertainty: Directions = ()
    """Directions of the latency and of the seconds a byte."""

    @model_validator(mode="after")
    def _two_coefficients(self) -> Regime:
        check_directions(self.uncertainty, 2)
        return self

    def seconds(self, message_bytes: ArrayLike) -> Array:
        return np.asarray(self.latency_s + np.asarray(message_bytes, float) / self.bandwidth)


class CollectiveModel(TimingModel):
    """One kind of collective over one number of ranks: Hockney's law in each protocol's range of sizes.

    ``bandwidth`` is of the message (the algorithm's), not of the wires. Where exactly a protocol gives way to the
    next lies between two timed sizes: time is blended geometrically between them, and never falls as the
    message grows. The first and the last regime extend past the timed sizes.
    """

    dimensions: ClassVar[tuple[str, ...]] = ("message_bytes",)

    regimes: Annotated[tuple[Regime, ...], FROM_LIST] = Field(min_length=1)

    @model_validator(mode="after")
    def _ordered(self) -> CollectiveModel:
        edges = [edge for regime in self.regimes for edge in (regime.from_bytes, regime.to_bytes)]
        if any(left >= right for left, right in pairwise(edges)):
            raise ValueError("from_bytes and to_bytes must grow from regime to regime")
        return self

    def seconds(self, message_bytes: ArrayLike) -> Array:
        size = np.maximum(np.asarray(message_bytes, float), 1.0)
        total = self.regimes[0].seconds(size)
        for before, after in pairwise(self.regimes):
            start, end = np.log([before.to_bytes, after.from_bytes])
            crossed = np.clip((np.log(size) - start) / (end - start), 0.0, 1.0)
            reached = before.seconds(before.to_bytes)
            blended = reached ** (1 - crossed) * after.seconds(np.maximum(size, after.from_bytes)) ** crossed
            total = np.where(crossed > 0, np.maximum(blended, reached), total)
        return np.asarray(total)

    def wander(self, message_bytes: float) -> dict[str, float]:
        """How much each direction of the uncertainty of the regime that serves moves the logarithm of the time."""
        served = sum(message_bytes >= regime.from_bytes for regime in self.regimes[1:])
        regime = self.regimes[served]
        found = _line_wander(regime.uncertainty, message_bytes, float(regime.seconds(message_bytes)))
        return {f"{served}.{way}": moved for way, moved in enumerate(found)}

    def outside(self, message_bytes: float) -> str | None:
        """How the size leaves the timed domain, as short text; ``None`` inside it."""
        return self.beyond({"message_bytes": message_bytes})


class LinkModel(TimingModel):
    """A message from one device to another: ``latency_s + bytes / bandwidth`` (Hockney)."""

    dimensions: ClassVar[tuple[str, ...]] = ("message_bytes",)

    latency_s: Seconds
    bandwidth: Positive
    uncertainty: Directions = ()
    """Directions of the latency and of the seconds a byte."""

    @model_validator(mode="after")
    def _two_coefficients(self) -> LinkModel:
        check_directions(self.uncertainty, 2)
        return self

    def seconds(self, message_bytes: ArrayLike) -> Array:
        return np.asarray(self.latency_s + np.asarray(message_bytes, float) / self.bandwidth)

    def wander(self, message_bytes: float) -> dict[str, float]:
        """How much each direction of the uncertainty moves the logarithm of the time."""
        found = _line_wander(self.uncertainty, message_bytes, float(self.seconds(message_bytes)))
        return {str(way): moved for way, moved in enumerate(found)}


class ElementwiseModel(TimingModel):
    """A memory-bound kernel: ``launch_s + bytes / bandwidth``, bytes read and written."""

    dimensions: ClassVar[tuple[str, ...]] = ("moved_bytes",)

    launch_s: Seconds
    bandwidth: Positive
    uncertainty: Directions = ()
    """Directions of the launch and of the seconds a byte."""

    @model_validator(mode="after")
    def _two_coefficients(self) -> ElementwiseModel:
        check_directions(self.uncertainty, 2)
        return self

    def seconds(self, moved_bytes: ArrayLike) -> Array:
        return np.asarray(self.launch_s + np.asarray(moved_bytes, float) / self.bandwidth)

    def wander(self, moved_bytes: float) -> dict[str, float]:
        """How much each direction of the uncertainty moves the logarithm of the time."""
        found = _line_wander(self.uncertainty, moved_bytes, float(self.seconds(moved_bytes)))
        return {str(way): moved for way, moved in enumerate(found)}


class FixedCosts(Card):
    """Time that belongs to no operation: host work and gaps, per forward pass, per layer and per round."""

    per_pass_s: Seconds = 0.0
    per_layer_s: Seconds = 0.0
    per_round_s: Seconds = 0.0
    relative_error: LogSd = 0.0
    how: str = "not measured: taken as zero"


class SlowDown(Card):
    """By what share a pass gets slower beside another one, for the four ways in which the two can keep busy.

    A pass streams from memory for a share ``u`` of its time and computes for the rest; the other one streams for ``v``.
    Its time is multiplied by ``1 + both_stream u v + streams_other_computes u (1-v) + ...``, bilinear in both shares.
    """

    both_stream: NotNegative = 0.0
    streams_other_computes: NotNegative = 0.0
    computes_other_streams: NotNegative = 0.0
    both_compute: NotNegative = 0.0

    @staticmethod
    def shares(u: float, v: float) -> tuple[float, float, float, float]:
        """The weights of the four ways, in the order of the fields; they sum to 1."""
        return u * v, u * (1.0 - v), (1.0 - u) * v, (1.0 - u) * (1.0 - v)

    def factor(self, u: float, v: float) -> float:
        """At least 1, for streaming shares ``u`` (own) and ``v`` (the other's) in [0, 1]."""
        ways = (self.both_stream, self.streams_other_computes, self.computes_other_streams, self.both_compute)
        return 1.0 + sum(share * way for share, way in zip(self.shares(u, v), ways, strict=True))


class Interference(Card):
    """How devices slow each other while both compute: through shared memory, power, links. None by default."""

    target: SlowDown = SlowDown()
    draft: SlowDown = SlowDown()

    def factors(self, target_streams: float, draft_streams: float) -> tuple[float, float]:
        """Slow-downs of the target and of the draft while both run, from the shares for which each streams."""
        return self.target.factor(target_streams, draft_streams), self.draft.factor(draft_streams, target_streams)
