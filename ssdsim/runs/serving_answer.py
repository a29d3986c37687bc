"""Schema of the answers that ``ssdsim serve`` leaves in a run folder."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

Number = Annotated[float, Field(ge=-1e40, le=1e40, allow_inf_nan=False)]
MOST_VARIANTS = 100_000
"""That a schedule may switch between."""


class _Part(BaseModel):
    """A record of which some fields are read."""

    model_config = ConfigDict(frozen=True, strict=True)


class _Of(_Part):
    value: Any


_TITLED = ("target", "draft", "hardware", "tp")


class _Profile(_Part):
    profile: str
    summary: str


class _Percentile(_Part):
    value: Number
    low: Number | None
    high: Number | None


class _Times(_Part):
    p50: _Percentile | None = None
    p99: _Percentile | None = None


class _Closed(_Part):
    tpot_ms: Number | None


class _Attainment(_Part):
    mean: Number | None


class _Minute(_Part):
    at_s: list[Number]
    running: list[Number]
    in_flight: list[Number] = Field(alias="held")
    variant: list[Annotated[float, Field(ge=0, le=MOST_VARIANTS)]]

    @model_validator(mode="after")
    def _lists_are_of_the_same_rounds(self) -> _Minute:
        if len({len(each) for each in (self.at_s, self.running, self.in_flight, self.variant)}) > 1:
            raise ValueError("at_s, running, held and variant must be lists of one length")
        return self


class _Served(_Part):
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

    @model_validator(mode="after")
    def _a_run_has_a_minute(self) -> _Served:
        if self.tpot_ms is not None and self.minute is None:
            raise ValueError("minute is missing beside tpot_ms")
        return self


class _Workload(_Part):
    source: str


class _Point(_Part):
    rate: Number | None
    workload: _Workload
    strategies: Annotated[dict[str, _Served], Field(min_length=1)]


class _Crossing(_Part):
    over: str
    basis: str
    rate: Number | None
    low: Number | None
    high: Number | None


class _Capacity(_Part):
    rate: Number


class _Verdict(_Part):
    subject: str
    sentence: str


class _Cell(_Part):
    number: Annotated[int, Field(ge=0, le=MOST_VARIANTS)]
    label: str


class ServingAnswer(_Part):
    """``ssdsim serve --json``, in serving.json."""

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
    provenance: list[_Profile]
    runtime: str | None

    @model_validator(mode="after")
    def _has_what_a_title_has(self) -> ServingAnswer:
        if lacking := [name for name in _TITLED if name not in self.scenario]:
            raise ValueError(f"scenario lacks {', '.join(lacking)}")
        return self

    @model_validator(mode="after")
    def _subject_is_served(self) -> ServingAnswer:
        for number, point in enumerate(self.points):
            if self.verdict.subject not in point.strategies:
                raise ValueError(f"points.{number} lacks the subject, {self.verdict.subject}")
        return self


class ComparedAnswer(_Part):
    """Answer of ``ssdsim serve --compare`` of an older version, in serving.json."""

    strategy: str
    workload: _Workload
