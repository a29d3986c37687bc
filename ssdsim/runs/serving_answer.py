"""Schema of the answers that ``ssdsim plan`` leaves in a run folder."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from ssdsim.base.card import Excerpt

Number = Annotated[float, Meta(ge=-1e40, le=1e40)]
MOST_VARIANTS = 100_000
"""That a schedule may switch between."""


class _Of(Excerpt):
    value: Any


_TITLED = ("target", "draft", "hardware", "tp")


class _Profile(Excerpt):
    profile: str
    summary: str


class _Percentile(Excerpt):
    value: Number
    low: Number | None
    high: Number | None


class _Times(Excerpt):
    p50: _Percentile | None = None
    p99: _Percentile | None = None


class _Closed(Excerpt):
    tpot_ms: Number | None


class _Attainment(Excerpt):
    mean: Number | None


class _Minute(Excerpt):
    at_s: list[Number]
    running: list[Number]
    in_flight: list[Number] = field(name="held")
    variant: list[Annotated[float, Meta(ge=0, le=MOST_VARIANTS)]]

    def __post_init__(self) -> None:
        if len({len(each) for each in (self.at_s, self.running, self.in_flight, self.variant)}) > 1:
            raise ValueError("at_s, running, held and variant must be lists of one length")


class _Served(Excerpt):
    gpus: int
    closed: _Closed | None
    tpot_ms: _Times | None = None
    ttft_ms: _Times | None = None
    e2el_ms: _Times | None = None
    goodput: Number | None = None
    tokens_per_s_per_gpu: Number | None = None
    running: Number | None = None
    saturated: bool | None = None
    attainment: _Attainment | None = None
    minute: _Minute | None = None

    def __post_init__(self) -> None:
        if self.tpot_ms is not None and self.minute is None:
            raise ValueError("minute is missing beside tpot_ms")


class _Workload(Excerpt):
    source: str


class _Point(Excerpt):
    rate: Number | None
    workload: _Workload
    strategies: Annotated[dict[str, _Served], Meta(min_length=1)]


class _Crossing(Excerpt):
    over: str
    basis: str
    rate: Number | None
    low: Number | None
    high: Number | None


class _Capacity(Excerpt):
    rate: Number


class _Verdict(Excerpt):
    subject: str
    sentence: str


class _Cell(Excerpt):
    number: Annotated[int, Meta(ge=0, le=MOST_VARIANTS)]
    label: str


class ServingAnswer(Excerpt):
    """``ssdsim plan --json``, in serving.json."""

    scenario: dict[str, _Of]
    verdict: _Verdict
    points: list[_Point]
    crossings: list[_Crossing]
    capacities: dict[str, _Capacity]
    within_slo: dict[str, _Capacity]
    slo: dict[str, Number] | None
    attainment: Number | None
    replicas: Number
    schedule: list[_Cell] | None = None
    variants: list[str] | None = None
    provenance: list[_Profile]
    runtime: str | None

    def __post_init__(self) -> None:
        if lacking := [name for name in _TITLED if name not in self.scenario]:
            raise ValueError(f"scenario lacks {', '.join(lacking)}")
        for number, point in enumerate(self.points):
            if self.verdict.subject not in point.strategies:
                raise ValueError(f"points.{number} lacks the subject, {self.verdict.subject}")


class ComparedAnswer(Excerpt):
    """Answer of ``ssdsim serve --compare`` of an older version, in serving.json."""

    strategy: str
    workload: _Workload
