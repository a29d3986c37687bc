"""Parts of fitted timing models: seconds of an operation from its shape, and the error of the fit beside it.

The model of an operation is in the file of its law: a roofline, or a latency plus bytes over bandwidth, times, where
many timings are known, a correction fitted to them. All evaluate on scalars or on arrays that broadcast together.
Seconds and bytes everywhere; bandwidths in bytes per second, peaks in floating-point operations per second.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.card import Card, Coefficient, LogSd, NotNegative, Positive, Seconds
from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.conversion import FieldError
from ssdsim.base.errors import nearest
from ssdsim.base.record import Record, field
from ssdsim.transformer.operations import WEIGHTS_ARITHMETIC

Range = tuple[NotNegative, NotNegative]
Domain = dict[str, Range]
"""Smallest and largest value timed, by the name of the variable."""

Directions = tuple[tuple[Coefficient, ...], ...]
"""Independent directions in which a fit's coefficients wander when its timings are drawn anew (a bootstrap).

Each is one standard deviation long: the coefficients wander by every direction times a standard normal number.
"""

DirectionsOfLine = tuple[Annotated[tuple[Coefficient, ...], Meta(min_length=2, max_length=2)], ...]
"""The same of a line, which has two coefficients."""

DATASHEET_LOG_SD = 0.25
"""Standard deviation of log(real / datasheet): kernels reach 60 to 95 % of a datasheet's figure."""

HYPOTHETICAL = "hypothetical"
"""The source of models of a device that nobody timed."""

_HINGE = re.compile(r"(?P<name>\w+)(?P<side>[<>])(?P<knot>\d[\d.]*(?:e[+-]?\d+)?)")


Scaled = TypeVar("Scaled", bound=Card)


class FitReport(Card):
    """Errors of a model on timings that it was not fitted to; relative, absolute.

    ``log_sd`` is the standard deviation of the normal distribution whose 95th percentile of
    ``|log(measured / predicted)|`` is the held-out one: a few wild timings do not move it, a heavy tail does.
    ``coefficient_sd`` is the part of it that the uncertainty of the coefficients makes, for the shapes timed.
    """

    rows_fitted: Annotated[int, Meta(ge=0)]
    rows_held_out: Annotated[int, Meta(ge=0)]
    median_error: NotNegative
    p95_error: NotNegative
    log_sd: LogSd
    coefficients: Annotated[int, Meta(ge=0)]
    coefficient_sd: NotNegative = 0.0

    def farther(self, log_sd: float) -> "FitReport":
        """The report of a device that is another one by a log-sd besides."""
        return self.changed(log_sd=math.hypot(self.log_sd, log_sd))


class TimingModel(Card):
    """Base of all timing models: the name of their source in the profile, their domain and their error.

    ``dimensions`` are the variables that a model's domain may name.
    """

    dimensions: ClassVar[tuple[str, ...]] = ()

    source: str
    domain: Domain = field(default_factory=dict)
    report: FitReport | None = None

    def __post_init__(self) -> None:
        check_domain(self.domain, self.dimensions)

    @property
    def log_sd(self) -> float:
        """Standard deviation of log(real / predicted): the held-out one, or a datasheet's."""
        return self.report.log_sd if self.report else DATASHEET_LOG_SD

    def beyond(self, values: Mapping[str, Any]) -> str | None:
        """Name the variable that leaves the domain, as short text; ``None`` inside it."""
        for name, (smallest, largest) in self.domain.items():
            if values[name] < smallest:
                return f"{name} below the smallest timed, {smallest:g}"
            if values[name] > largest:
                return f"{name} above the largest timed, {largest:g}"
        return None

    @abstractmethod
    def scaled(self, scaling: "Scaling", *keys: Any) -> Self | None:
        """The model on another device, without the error of its fit; None where that cannot do what it is a model of.

        ``keys`` are those under which the profile has it.
        """

    def unfitted(self, **changes: Any) -> Self:
        """Copy it with ``changes``, for a device that nobody timed."""
        return self.changed(source=HYPOTHETICAL, report=None, **changes)

    def judged_as(self, other: Self, log_sd: float) -> Self:
        """Copy it with the held-out error of the ``other`` that it was scaled from, and a log-sd besides."""
        return self.changed(report=other.report and other.report.farther(log_sd))


class Scaling(Record):
    """Scaling between two devices: factors of memory bandwidth, of peaks by dtype, of launches, and of collectives.

    ``rings`` is, by the number of ranks, how many of the old links a collective ran over, where the new one is a
    device's only one.
    """

    memory_bandwidth: float
    arithmetic: Mapping[str, float]
    launches: float = 1.0
    link_bandwidth: float = 1.0
    link_delay_s: float = 0.0
    rings: Mapping[int, float] = field(default_factory=dict)

    def knows(self, dtype: str) -> bool:
        """Say whether the device has arithmetic of it."""
        return dtype in self.arithmetic

    def multiplies(self, weights: str) -> bool:
        """Say whether weights of this format are multiplied: as they are, or turned back into 16 bits first."""
        return self.knows(weights) or WEIGHTS_ARITHMETIC.get(weights) is None

    @property
    def wide(self) -> float:
        """Peak of attention, whose queries have 16 bits whatever the cache has."""
        some = (self.arithmetic[d] for d in ("bfloat16", "float16") if d in self.arithmetic)
        return next(some, max(self.arithmetic.values()))

    def of(self, card: Scaled, *launches: str, streams: Iterable[str] = (), **others: Any) -> Scaled:
        """``card`` with its bandwidth, its ``launches`` and ``streams`` (times) scaled, ``others`` as given."""
        update = {name: getattr(card, name) * self.launches for name in launches}
        update |= {name: getattr(card, name) / self.memory_bandwidth for name in streams}
        update["bandwidth"] = card.bandwidth * self.memory_bandwidth  # type: ignore[attr-defined]
        return card.changed(**update, **others)


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
    sharpness: Annotated[float, Meta(ge=0.01, le=100.0)] = 4.0

    def seconds(self, moved_bytes: ArrayLike, flops: ArrayLike) -> Array:
        p = self.sharpness
        streaming = (np.asarray(moved_bytes, float) / self.bandwidth) ** p
        arithmetic = (np.asarray(flops, float) / self.peak_flops) ** p
        return np.asarray((self.launch_s**p + streaming + arithmetic) ** (1 / p))

    def scaled(self, scaling: Scaling, arithmetic: float) -> "Roofline":
        """Carry it over to another device, whose peak is ``arithmetic`` times as high."""
        return scaling.of(self, "launch_s", peak_flops=self.peak_flops * arithmetic)


class _Hinges(Record, eq=False):
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
    def of(terms: tuple[tuple[str, float], ...], domain: tuple[tuple[str, Range], ...]) -> "_Hinges":
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


class Correction(Card):
    """Correction of what a roofline misses, a piecewise-linear function of the logarithms of the shape.

    ``log_factor = intercept + sum(coefficient * term)`` where a term is a hinge or a product of two, written
    ``"n<4096"`` for ``max(0, log(4096 / n))`` and ``"n<4096 * k>512"`` for a product (Friedman, Multivariate
    Adaptive Regression Splines, 1991). Variables are clamped to ``domain``, so it stays constant outside.
    """

    intercept: Coefficient = 0.0
    terms: dict[str, Coefficient] = field(default_factory=dict)
    domain: Domain = field(default_factory=dict)
    uncertainty: Directions = ()
    """Directions of the intercept and the terms' coefficients, in this order."""

    def __post_init__(self) -> None:
        if any(largest == 0.0 for _, largest in self.domain.values()):
            raise ValueError("domain: a range must end above 0, for the logarithm of its variable")
        _ = self._hinges
        count = 1 + len(self.terms)
        if any(len(direction) != count for direction in self.uncertainty):
            raise FieldError("uncertainty", f"every direction needs {count} numbers, one for each coefficient")

    @cached_property
    def _hinges(self) -> _Hinges:
        return _Hinges.of(tuple(self.terms.items()), tuple(self.domain.items()))

    def features(self, values: Mapping[str, ArrayLike]) -> Array:
        """Every term's value, shape ``(terms, ...)`` with the broadcast shape of ``values``."""
        columns = [*map(values.__getitem__, self.domain)]
        logs = np.ones((len(columns) + 1, *np.broadcast_shapes(*map(np.shape, columns))))
        for row, column in enumerate(columns):
            logs[row] = column
        of, more = self._hinges, (1,) * (logs.ndim - 1)
        np.log(clamped(logs[:-1], of.low.reshape(-1, *more), of.high.reshape(-1, *more)), out=logs[:-1])
        hinges = logs[of.variable]  # changed in place: of a lattice it has megabytes, which take time to get
        hinges -= of.knot.reshape(2, -1, *more)
        hinges *= of.sign.reshape(2, -1, *more)
        np.maximum(hinges, 0.0, out=hinges)
        return np.asarray(np.multiply(hinges[0], hinges[1], out=hinges[0]))

    def log_factor(self, values: Mapping[str, ArrayLike]) -> Array:
        """Logarithm of real time over roofline time, of the broadcast shape of ``values``."""
        if not self.terms:
            return np.asarray(self.intercept)
        features, coefficients = self.features(values), self._hinges.coefficients
        many = features.ndim > 1
        return self.intercept + (np.tensordot(coefficients, features, axes=1) if many else coefficients @ features)

    def wander(self, values: Mapping[str, ArrayLike]) -> list[float]:
        """Tell how much each direction of the uncertainty moves the logarithm of the time."""
        if not self.uncertainty:
            return []
        features = self.features(values) if self.terms else np.zeros(0)
        return [float(first + np.dot(slopes, features)) for first, *slopes in self.uncertainty]


def clamped(values: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
    """``np.clip``, which takes several times as long for one number."""
    return np.asarray(np.minimum(np.maximum(values, low), high))


class ModelOfVariables(TimingModel):
    """Model in variables that are made of a shape, whose last number are the bytes of an element."""

    @abstractmethod
    def values(self, *shape: Any) -> dict[str, FloatOrArray]:
        """The variables."""

    @abstractmethod
    def _seconds(self, values: Mapping[str, Array], element_bytes: float) -> Array: ...

    @abstractmethod
    def _wander(self, values: Mapping[str, Array]) -> dict[str, float]: ...

    def seconds(self, *shape: Any) -> Array:
        """Seconds of shapes that broadcast together."""
        return self._seconds(self.values(*shape), shape[-1])

    def wander(self, *shape: float) -> dict[str, float]:
        """Tell how much each direction of the uncertainty moves the logarithm of the time."""
        return self._wander(self.values(*shape))

    def timed(
        self, shape: Sequence[float], element_bytes: float, seconds: Array | None = None
    ) -> tuple[Array, str | None, dict[str, float]]:
        """Time a shape: its seconds, unless given, how it leaves the timed domain, how much each direction moves it."""
        values = self.values(*shape, element_bytes)
        outside = self.beyond(values)
        return self._seconds(values, element_bytes) if seconds is None else seconds, outside, self._wander(values)


# Cards with fields cannot be two bases of one class, so what several kinds of cards share has methods alone.
if TYPE_CHECKING:
    _OfModel = ModelOfVariables
    _OfCard = Card
else:
    _OfModel = _OfCard = object


class CorrectedRoofline(_OfModel):
    """A roofline over the bytes moved and the operations, corrected for the variables of the domain."""

    roofline: Roofline
    correction: Correction

    def __post_init__(self) -> None:
        super().__post_init__()
        check_domain(self.correction.domain, self.dimensions)

    @property
    def launch_s(self) -> float:
        """The floor under the time."""
        return self.roofline.launch_s

    @staticmethod
    @abstractmethod
    def work(values: Mapping[str, Array], element_bytes: float) -> tuple[Array, Array]:
        """Bytes moved and floating-point operations."""

    def _seconds(self, values: Mapping[str, Array], element_bytes: float) -> Array:
        roofline = self.roofline.seconds(*self.work(values, element_bytes))
        return np.asarray(roofline * np.exp(self.correction.log_factor(values)))

    def _wander(self, values: Mapping[str, Array]) -> dict[str, float]:
        return {str(way): moved for way, moved in enumerate(self.correction.wander(values))}

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        (dtype,) = keys
        return self.unfitted(roofline=self.roofline.scaled(scaling, scaling.wide)) if scaling.knows(dtype) else None


class LatencyBandwidth(_OfCard):
    """A fixed time, then bytes at a bandwidth (Hockney)."""

    bandwidth: Positive
    uncertainty: DirectionsOfLine
    """Directions of the fixed time and of the seconds a byte."""

    fixed: ClassVar[str]
    """The field of the fixed time."""

    def seconds(self, size: FloatOrArray) -> FloatOrArray:
        """Seconds of so many bytes."""
        fixed_s: float = getattr(self, self.fixed)
        return fixed_s + size / self.bandwidth

    def wander(self, size: float) -> dict[str, float]:
        """Tell how much each direction of the uncertainty moves the logarithm of the time."""
        seconds = self.seconds(size)
        moves = ((fixed_s + size * byte_s) / seconds for fixed_s, byte_s in self.uncertainty)
        return {str(way): moved for way, moved in enumerate(moves)}


class LatencyBandwidthModel(LatencyBandwidth, TimingModel):
    """A timing model that is a line."""

    bandwidth: Positive
    uncertainty: DirectionsOfLine = ()


class FixedCosts(Card):
    """Time that belongs to no operation: host work and gaps, per forward pass, per layer and per round."""

    per_pass_s: Seconds = 0.0
    per_layer_s: Seconds = 0.0
    per_round_s: Seconds = 0.0
    relative_error: LogSd = 0.0
    how: str = "not measured: taken as zero"


class SlowDown(Card):
    """Shares by which a pass gets slower beside another one, for the four ways in which the two can keep busy.

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
        """Factor of at least 1, for streaming shares ``u`` (own) and ``v`` (the other's) in [0, 1]."""
        ways = (self.both_stream, self.streams_other_computes, self.computes_other_streams, self.both_compute)
        return 1.0 + sum(share * way for share, way in zip(self.shares(u, v), ways, strict=True))


class Interference(Card):
    """Slow-downs of devices while both compute: through shared memory, power, links."""

    target: SlowDown = SlowDown()
    draft: SlowDown = SlowDown()

    def factors(self, target_streams: float, draft_streams: float) -> tuple[float, float]:
        """Slow-downs of the target and of the draft while both run, from the shares for which each streams."""
        return self.target.factor(target_streams, draft_streams), self.draft.factor(draft_streams, target_streams)


NO_INTERFERENCE = Interference()
