"""Hardware profiles: a device, the fitted timings of its operations, and where each came from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os.path import exists
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import Field, model_validator

from ssdsim.documents import as_record, read_json
from ssdsim.errors import InputError, nearest
from ssdsim.files import write_whole
from ssdsim.hardware.attention import AnyAttention
from ssdsim.hardware.experts import ExpertsModel
from ssdsim.hardware.latent import LatentCosts, LatentModel, scaled_to
from ssdsim.hardware.laws import (
    DATASHEET_LOG_SD,
    Array,
    CollectiveModel,
    ElementwiseModel,
    FixedCosts,
    GemmModel,
    Interference,
    LinkModel,
    Roofline,
    TimingModel,
)
from ssdsim.hardware.prefill_attention import REACHED, PrefillAttentionModel
from ssdsim.hardware.rings import over_ring, ring_rate
from ssdsim.records import FROM_LIST, Card, Count, LogSd, Positive
from ssdsim.transformer.operations import (
    DTYPE_BYTES,
    DTYPES,
    QUANTISED_BYTES,
    Attention,
    Collective,
    CollectiveKind,
    Elementwise,
    ExpertMlp,
    Gemm,
    LatentAttention,
    Operation,
    PrefillAttention,
)

ProvenanceKind = Literal["measured", "imported", "datasheet", "hypothetical"]
Model = TypeVar("Model", bound=TimingModel)

EXTRAPOLATION_LOG_SD = 0.15
"""Added (in quadrature) to the error of a timing outside its domain."""

LinkCount = Annotated[int, Field(ge=0, le=1000)]

SHORTEST_S, LONGEST_S = 1e-15, 1e9
"""Of an operation: what lies outside comes from a profile whose numbers are wrong."""

_CACHED_TIMINGS = 65536
_MORE_KERNELS = 3
"""Of an expert layer beside its first: a second product, and sorting tokens to experts and back."""

_STANDS_IN = {"float8-block": "float8"}
"""Formats that are near enough for the timings of one, with an extra error, where the other's are not there."""


class Provenance(Card):
    """Where numbers came from. ``source`` names the machine, the project or the document."""

    kind: ProvenanceKind
    source: str
    commit: str = ""
    licence: str = ""
    date: str = ""
    note: str = ""


class Device(Card):
    """One of ``count`` equal devices of a node; ``peak_flops`` is by dtype.

    ``nvlinks`` holds the number of NVLinks between each two of them, where pairs differ: row and column are devices.
    """

    name: str
    kind: Literal["cuda", "cpu"]
    memory_bytes: Count
    memory_bandwidth: Positive
    peak_flops: dict[str, Positive] = Field(min_length=1)
    compute_units: Count | None = None
    count: Count
    topology: str
    nvlinks: Annotated[tuple[Annotated[tuple[LinkCount, ...], FROM_LIST], ...], FROM_LIST] | None = None

    @model_validator(mode="after")
    def _links_are_of_pairs(self) -> Device:
        rows = self.nvlinks or ()
        if rows and [len(row) for row in rows] != [self.count] * self.count:
            raise ValueError(f"nvlinks: must have {self.count} rows of {self.count} numbers, one for each device")
        if any(rows[a][b] != rows[b][a] for a in range(len(rows)) for b in range(a)):
            raise ValueError("nvlinks: two devices have as many links one way as the other")
        return self


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one operation.

    ``log_sd`` is the standard deviation of log(real / predicted). Part of it comes from the fit's coefficients:
    ``shared`` names the directions in which they wander, with the standard deviation along each, and every operation
    of the model shares these. The rest, ``own_log_sd``, is shared by operations with the same ``key`` (one matrix at
    another number of tokens is wrong in the same direction).
    """

    seconds: float
    log_sd: float
    key: str
    provenance_kind: ProvenanceKind
    warning: str | None = None
    shared: Mapping[str, float] = field(default_factory=dict)

    @property
    def own_log_sd(self) -> float:
        return math.sqrt(max(0.0, self.log_sd**2 - sum(moved**2 for moved in self.shared.values())))


class HardwareProfile(Card):
    """Seconds of any operation on one machine.

    Models are by the weights' format (``gemm``, ``experts``), by the cache's dtype (``attention``,
    ``attention_masked``, ``attention_windowed``), by both (``latent``), by dtype (``prefill_attention``) or by kind and
    number of ranks (``collectives``); each names its entry of ``sources``. Where pairs of devices differ, a datasheet's
    collectives take the bandwidth of the rings that links make (:mod:`ssdsim.hardware.rings`). ``link`` is between any
    two devices, or, where ``links`` has one for each number of NVLinks, between those that the device's
    ``nvlinks`` does not tell apart. ``spread`` is the relative standard deviation of a timing from run to run. What
    lies between kernels is a runtime's; ``fixed`` is read from profiles of before.
    """

    schema_: Literal[1] = Field(alias="schema")
    name: str
    device: Device
    gemm: dict[str, GemmModel] = Field(default_factory=dict)
    attention: dict[str, AnyAttention] = Field(default_factory=dict)
    attention_masked: dict[str, AnyAttention] = Field(default_factory=dict)
    attention_windowed: dict[str, AnyAttention] = Field(default_factory=dict)
    prefill_attention: dict[str, PrefillAttentionModel] = Field(default_factory=dict)
    experts: dict[str, ExpertsModel] = Field(default_factory=dict)
    latent: dict[str, dict[str, LatentModel]] = Field(default_factory=dict)
    collectives: dict[CollectiveKind, dict[Annotated[int, FROM_LIST], CollectiveModel]] = Field(default_factory=dict)
    link: LinkModel | None = None
    links: dict[Annotated[int, FROM_LIST], LinkModel] | None = None
    elementwise: ElementwiseModel | None = None
    fixed: FixedCosts | None = None
    interference: Interference = Interference()
    spread: LogSd = 0.0
    sources: dict[str, Provenance]

    @model_validator(mode="after")
    def _sources_exist(self) -> HardwareProfile:
        for where, model in self.models().items():
            if model.source not in self.sources:
                hint = nearest(model.source, self.sources)
                raise ValueError(f"{where}: source '{model.source}' is not in sources{hint}")
        return self

    def models(self) -> dict[str, TimingModel]:
        """Every timing model by a readable name such as ``gemm:bfloat16`` or ``all_reduce:4``."""
        found: dict[str, TimingModel] = {}
        found |= {f"gemm:{dtype}": model for dtype, model in self.gemm.items()}
        found |= {f"attention:{dtype}": model for dtype, model in self.attention.items()}
        found |= {f"attention_masked:{dtype}": model for dtype, model in self.attention_masked.items()}
        found |= {f"attention_windowed:{dtype}": model for dtype, model in self.attention_windowed.items()}
        found |= {f"prefill_attention:{dtype}": model for dtype, model in self.prefill_attention.items()}
        found |= {f"experts:{kept}": model for kept, model in self.experts.items()}
        for cache, by_weights in self.latent.items():
            found |= {f"latent:{cache}:{weights}": model for weights, model in by_weights.items()}
        for kind, by_ranks in self.collectives.items():
            found |= {f"{kind}:{ranks}": model for ranks, model in by_ranks.items()}
        found |= {"link": self.link} if self.link else {}
        found |= {f"link:{count}": model for count, model in (self.links or {}).items()}
        found |= {"elementwise": self.elementwise} if self.elementwise else {}
        return found

    @cached_property
    def timings(self) -> dict[Operation, Timing]:
        """Operations priced so far (a pass repeats its operations, a decode loop its passes)."""
        return {}

    @cached_property
    def costs(self) -> dict[Any, Any]:
        """Costs of whole passes and of messages so far (kept here by :mod:`ssdsim.pricing.passes`)."""
        return {}

    def placed(self, order: Sequence[int]) -> HardwareProfile:
        """The node with these of its devices in front, in this order, and the rest behind them as they were.

        A target's ranks are the first devices and its draft the next one, so this says who pays which links.

        Raises
        ------
        InputError : a device that the node has not, one named twice, or pairs that are all alike.
        """
        device = self.device
        if device.nvlinks is None:
            raise InputError(f"--placement has no effect on {self.name}, whose pairs of devices are all linked alike")
        odd = next((each for i, each in enumerate(order) if each >= device.count or each in order[:i]), None)
        if odd is not None:
            said = "is named twice" if odd < device.count else "is not there"
            raise InputError(f"--placement: device {odd} {said}; {self.name} has 0-{device.count - 1}, each once")
        devices = (*order, *(each for each in range(device.count) if each not in order))
        if devices not in self._placed:
            rows = tuple(tuple(device.nvlinks[a][b] for b in devices) for a in devices)
            update = {"device": device.model_copy(update={"nvlinks": rows})}
            self._placed[devices] = self.model_copy(update=update)
        return self._placed[devices]

    @cached_property
    def _placed(self) -> dict[tuple[int, ...], HardwareProfile]:
        """By the order of the devices, so that each remembers what it has priced."""
        return {}

    def __copy__(self) -> HardwareProfile:
        """A copy prices by itself: it is mostly made to change some timings."""
        copied = super().__copy__()
        for remembered in ("timings", "costs", "_placed"):
            copied.__dict__.pop(remembered, None)
        return copied

    def seconds(self, op: Operation) -> Timing:
        """Time of ``op``.

        Raises
        ------
        InputError : the profile has no timings for this dtype, kind or number of ranks.
        """
        timing = self.timings.get(op)
        if timing is None:
            if len(self.timings) >= _CACHED_TIMINGS:
                self.timings.clear()
            timing = self.timings[op] = self._price(op)
        return timing

    def seconds_of(self, ops: Sequence[Operation]) -> list[Timing]:
        """Time of each of ``ops``; a law is asked for all its matrices at once, which takes as long as one."""
        new = dict.fromkeys(op for op in ops if isinstance(op, Gemm) and op not in self.timings)
        for dtype in {op.dtype for op in new}:
            gemms = [op for op in new if op.dtype == dtype]
            if self._on_roofline(dtype):
                continue  # one after another
            shapes = np.array([(op.m, op.n, op.k) for op in gemms], float)
            with np.errstate(all="ignore"):  # what leaves the floats is refused as a timing
                seconds = self.gemm_model(gemms[0]).seconds(*shapes.T)
            self.timings.update((op, self._gemm(op, each)) for op, each in zip(gemms, seconds, strict=True))
        return [self.seconds(op) for op in ops]

    def _price(self, op: Operation) -> Timing:
        with np.errstate(all="ignore"):  # what leaves the floats is refused as a timing
            match op:
                case Gemm() if self._on_roofline(op.dtype):
                    return self._gemm_on_roofline(op)
                case Gemm():
                    return self._gemm(op, self.gemm_model(op).seconds(op.m, op.n, op.k))
                case Attention():
                    return self._attention(op)
                case PrefillAttention():
                    return self._prefill_attention(op)
                case LatentAttention():
                    return self._latent_attention(op)
                case ExpertMlp():
                    return self._experts(op)
                case Collective():
                    return self._collective(op)
                case Elementwise():
                    return self._elementwise(op)

    def launch_seconds(self, op: Operation) -> float:
        """The floor under ``op``'s time however little it does, as fitted; 0 for a collective, which has its own law.

        Raises
        ------
        InputError : the profile has no timings for this dtype or kind.
        """
        self.seconds(op)  # refuses what the profile does not know
        match op:
            case Gemm():
                return self.gemm_model(op).segment_at(op.m).roofline.launch_s
            case Attention():
                return self.attention_model(op).launch_s
            case PrefillAttention() if op.dtype in self.prefill_attention:
                return self.prefill_attention[op.dtype].launch_s
            case Elementwise() if self.elementwise:
                return self.elementwise.launch_s
            case ExpertMlp() if op.dtype in self.experts:
                return float(self.experts[op.dtype].few.floor_s(op.hidden, op.width))
            case ExpertMlp():
                return self._few_tokens(op.activations_dtype).launch_s
            case LatentAttention():
                found = self.latent_model(op)
                costs = found[0].costs if found else self._scaled_latent(op)
                return float(costs.floor_s(op.batch * op.queries, op.queries * op.heads))
        return 0.0

    def gemm_model(self, op: Gemm) -> GemmModel:
        """The timings that ``op`` is priced with: of its weights' format, of a near one, or of its activations' dtype.

        Of the last, where the weights are quantised, the rooflines alone are of use.
        """
        timed = op.activations_dtype if self._on_roofline(op.dtype) else self._timed_format(op.dtype)
        return self._of_dtype("gemm", self.gemm, timed)

    def attention_model(self, op: Attention) -> AnyAttention:
        """The timings that ``op`` is priced with: over such a cache, under a mask or a window where they were taken.

        Where none were taken over a quantised cache, those over one of the activations' dtype.
        """
        where, dtype = self._timed_attention(op)
        return self._of_dtype("attention", self._attentions[where], dtype)

    @property
    def _attentions(self) -> dict[str, dict[str, AnyAttention]]:
        """Timings of decode attention, by what was timed."""
        return {
            "attention": self.attention,
            "attention_masked": self.attention_masked,
            "attention_windowed": self.attention_windowed,
        }

    def _timed_format(self, dtype: str) -> str:
        return dtype if dtype in self.gemm else _STANDS_IN.get(dtype, dtype)

    def _on_roofline(self, dtype: str) -> bool:
        """Whether nothing like products with weights of this quantised format was timed."""
        return dtype in QUANTISED_BYTES and self._timed_format(dtype) not in self.gemm

    def _timed_attention(self, op: Attention) -> tuple[str, str]:
        """Which timings those of :meth:`attention_model` are, and of which dtype."""
        dtypes = (op.cache_dtype,) if op.cache_dtype in DTYPES else (op.cache_dtype, op.dtype)
        special = [name for name, asked in (("masked", op.masked), ("windowed", op.windowed)) if asked]
        for dtype in dtypes:
            for where in (*(f"attention_{name}" for name in special), "attention"):
                if dtype in self._attentions[where]:
                    return where, dtype
        return "attention", dtypes[-1]

    def _gemm(self, op: Gemm, seconds: Array) -> Timing:
        model, timed = self.gemm_model(op), self._timed_format(op.dtype)
        key = f"gemm:{op.n}x{op.k}:{op.dtype}"
        shape = (op.m, op.n, op.k)
        log_sd = model.log_sd_at(op.m)
        shared = _under(f"gemm:{timed}", model.wander(*shape), log_sd)
        outside = model.outside(*shape)
        if outside is None and timed != op.dtype:
            outside = f"{op.dtype} was not timed, {timed} was"
        return self._timing(key, model, seconds, outside, shared, log_sd)

    def _gemm_on_roofline(self, op: Gemm) -> Timing:
        """A guess: the operation's bytes and flops on the rooflines of products in the activations' dtype.

        Without a timing nothing says what turning weights back into 16 bits costs, nor that the arithmetic is faster.
        The rooflines are fitted together with their correction, so the device's peak is a floor besides.
        """
        model, peaks = self.gemm_model(op), self.device.peak_flops
        floor_s = next((op.flops / peaks[dtype] for dtype in op.arithmetic if dtype in peaks), 0.0)
        seconds = np.maximum(model.roofline_seconds(op.m, op.bytes, op.flops), floor_s)
        log_sd = max(model.log_sd, DATASHEET_LOG_SD)
        timing = self._timing(f"gemm:{op.n}x{op.k}:{op.dtype}", model, seconds, None, {}, log_sd)
        said = f"no {op.dtype} GEMMs were timed: roofline from the {op.activations_dtype} law's bandwidth"
        return replace(timing, warning=f"{self.name}: {said}")

    def _attention(self, op: Attention) -> Timing:
        model, (where, timed) = self.attention_model(op), self._timed_attention(op)
        shape = (op.batch, op.queries, op.context, op.heads, op.kv_heads, op.head_dim)
        seconds, outside, wander = model.timed(shape, DTYPE_BYTES[op.cache_dtype])
        if timed != op.cache_dtype:
            outside = f"a {op.cache_dtype} cache was not timed, a {timed} one was"
        elif op.masked and where != "attention_masked" and outside is None:
            outside = "branch masks were not timed, ordinary attention was"
        key = f"{where}:{op.kv_heads}x{op.head_dim}:{op.cache_dtype}"
        return self._timing(key, model, seconds, outside, _under(f"{where}:{timed}", wander, model.log_sd))

    def _prefill_attention(self, op: PrefillAttention) -> Timing:
        """A part of a prompt is as efficient as the prompt up to its end: it takes its share of that one's time."""
        if op.prefix:
            whole = self.seconds(op.whole)
            return replace(whole, seconds=whole.seconds * op.flops / op.whole.flops)
        model = self.prefill_attention.get(op.dtype)
        key = f"prefill_attention:{op.heads}x{op.head_dim}:{op.dtype}"
        if model is None:
            return self._untimed_prefill_attention(op, key)
        shape = (op.batch, op.tokens, op.heads, op.kv_heads, op.head_dim)
        element_bytes = DTYPE_BYTES[op.dtype]
        shared = _under(f"prefill_attention:{op.dtype}", model.wander(*shape, element_bytes), model.log_sd)
        return self._timing(key, model, model.seconds(*shape, element_bytes), model.outside(*shape), shared)

    def _untimed_prefill_attention(self, op: PrefillAttention, key: str) -> Timing:
        """The device's roofline at a part of the peak rate; of an unknown rate, the slowest known one."""
        peaks = self.device.peak_flops
        peak_flops = REACHED * peaks.get(op.dtype, min(peaks.values()))
        roofline = Roofline(launch_s=0.0, bandwidth=self.device.memory_bandwidth, peak_flops=peak_flops)
        seconds = float(roofline.seconds(op.bytes, op.flops))
        warning = (
            f"{self.name}: prefill attention of {op.dtype} was not timed: {REACHED:.0%} of the device's peak flops"
        )
        return Timing(seconds, DATASHEET_LOG_SD, key, "datasheet", warning)

    def _experts(self, op: ExpertMlp) -> Timing:
        model = self.experts.get(op.dtype)
        if model is None:
            return self._untimed_experts(op)
        seconds = model.seconds(op.tokens, op.count, op.visits, op.hidden, op.width, op.touched, op.expert_bytes)
        outside = model.outside(op.visits, op.hidden, op.width, op.touched)
        key = f"experts:{op.count}x{op.per_token}x{op.width}x{op.hidden}:{op.dtype}"
        return self._timing(key, model, np.asarray(seconds), outside, {}, model.log_sd_at(op.tokens))

    def _untimed_experts(self, op: ExpertMlp) -> Timing:
        """A guess: the touched experts' bytes and the tokens' flops on the roofline of products of few tokens."""
        roofline = self._few_tokens(op.activations_dtype)
        peaks = self.device.peak_flops
        floor_s = next((op.flops / peaks[dtype] for dtype in op.arithmetic if dtype in peaks), 0.0)
        seconds = max(float(roofline.seconds(op.bytes, op.flops)), floor_s) + _MORE_KERNELS * roofline.launch_s
        key = f"experts:{op.count}x{op.per_token}x{op.width}x{op.hidden}:{op.dtype}"
        return self._untimed(key, seconds, f"no {op.dtype} experts were timed")

    def _latent_attention(self, op: LatentAttention) -> Timing:
        key = f"latent_attention:{op.heads}x{op.rank}:{op.cache_dtype}"
        found = self.latent_model(op)
        if found is None:
            return self._scaled_latent_attention(op, key)
        model, other = found
        seconds = model.seconds(op.batch, op.queries, op.heads, op.cache_bytes, op.row_flops)
        outside = other or model.outside(op.batch, op.queries, op.heads, op.context, op.rank + op.rope_dim)
        if outside is None and op.queries > 1:
            outside = "one query a sequence was timed, more are taken for as many times the heads"
        return self._timing(key, model, np.asarray(seconds), outside, {})

    def latent_model(self, op: LatentAttention) -> tuple[LatentModel, str | None] | None:
        """The timings that ``op`` is priced with and how they are not its own; None where there are none like them."""
        by_weights = self.latent.get(op.cache_dtype) or self.latent.get(op.dtype)
        if not by_weights:
            return None
        other = None if op.cache_dtype in self.latent else f"a {op.cache_dtype} cache was not timed, {op.dtype} was"
        weights = next((w for w in (op.projections, op.dtype) if w in by_weights), next(iter(by_weights)))
        if weights != (op.projections or op.dtype):
            other = other or f"beside {op.projections} projections it was not timed, beside {weights} it was"
        return by_weights[weights], other

    def _scaled_latent_attention(self, op: LatentAttention, key: str) -> Timing:
        costs, shape = self._scaled_latent(op), (op.batch, op.queries, op.queries * op.heads)
        seconds = float(costs.seconds(*shape, op.cache_bytes, op.row_flops))
        said = "no attention over a latent cache was timed"
        return self._untimed(key, seconds, said, "scaled from that of H100 and H200")

    def _scaled_latent(self, op: LatentAttention) -> LatentCosts:
        """What H100 and H200 take, by this device's bandwidth and peak."""
        peaks, narrow = self.device.peak_flops, DTYPE_BYTES[op.cache_dtype] == 1
        block_scaled = op.projections == "float8-block" and op.projections in self.gemm
        peak_flops = peaks.get(op.dtype, min(peaks.values()))
        return scaled_to(self.device.memory_bandwidth, peak_flops, narrow, block_scaled)

    def _few_tokens(self, dtype: str) -> Roofline:
        return self._of_dtype("gemm", self.gemm, dtype).segments[0].roofline

    def _untimed(self, key: str, seconds: float, said: str, instead: str = "roofline") -> Timing:
        """With the error of a datasheet."""
        if not SHORTEST_S <= seconds <= LONGEST_S:
            raise InputError(f"profile {self.name}: {key} takes {seconds:g} s, so its timings are wrong")
        return Timing(seconds, DATASHEET_LOG_SD, key, "datasheet", f"{self.name}: {said}: {instead}")

    def _collective(self, op: Collective) -> Timing:
        key = f"{op.kind}:{op.ranks}"
        if op.ranks == 1:
            return Timing(0.0, 0.0, key, "measured")
        if op.kind == "all_to_all" and op.ranks not in self.collectives.get("all_to_all", {}):
            return self._untimed_exchange(key, op)
        model = self.collective_model(op.kind, op.ranks)
        shared = _under(key, model.wander(op.message_bytes), model.log_sd)
        return self._timing(key, model, model.seconds(op.message_bytes), model.outside(op.message_bytes), shared)

    def _untimed_exchange(self, key: str, op: Collective) -> Timing:
        """An all-to-all by the all-gather, in which a device receives as much as it sends here.

        On seven GPUs that have both, half to nearly twice the time.
        """
        seconds = float(self.collective_model("all_gather", op.ranks).seconds(op.message_bytes))
        return self._untimed(key, seconds, f"no {op.ranks}-rank all-to-all was timed", "as an all-gather of as much")

    def collective_model(self, kind: CollectiveKind, ranks: int) -> CollectiveModel:
        """What a collective over the node's first ``ranks`` devices pays.

        Where pairs differ, one that nobody timed has the bandwidth of the rings that those devices' links make.

        Raises
        ------
        InputError : the profile has none over so many ranks.
        """
        by_ranks = self.collectives.get(kind, {})
        if ranks not in by_ranks:
            known = ", ".join(map(str, sorted(by_ranks)))
            raise self._lacks(f"{ranks}-rank {kind}", known, "choose a degree that it has, calibrate")
        model, nvlinks = by_ranks[ranks], self.device.nvlinks
        if self.sources[model.source].kind != "datasheet" or not nvlinks or not self.links:
            return model
        rate = ring_rate(nvlinks, self.links, ranks)
        return model if rate is None else over_ring(model, kind, ranks, rate)

    def _elementwise(self, op: Elementwise) -> Timing:
        model = self.elementwise
        if model is None:
            raise self._lacks("elementwise", "", "calibrate")
        outside = model.beyond({"moved_bytes": op.moved_bytes})
        shared = _under("elementwise", model.wander(op.moved_bytes), model.log_sd)
        return self._timing("elementwise", model, model.seconds(op.moved_bytes), outside, shared)

    def link_between(self, pair: tuple[int, int] | None = None) -> tuple[str, LinkModel]:
        """What a message between two devices of the node pays, and its name; of any two without a ``pair``.

        Raises
        ------
        InputError : the profile has no link.
        """
        matrix, links = self.device.nvlinks, self.links or {}
        if pair and matrix and max(pair) < len(matrix) and (count := matrix[pair[0]][pair[1]]) in links:
            return f"link:{count}", links[count]
        if self.link is None:
            raise self._lacks("link", "", "calibrate")
        return "link", self.link

    def message_seconds(self, message_bytes: int, pair: tuple[int, int] | None = None) -> Timing:
        """Time of a point-to-point message between two devices, as of :meth:`link_between`.

        Raises
        ------
        InputError : the profile has no link.
        """
        name, link = self.link_between(pair)
        smallest = link.domain.get("message_bytes", (0.0, 0.0))[0]
        # a message below the smallest one timed takes the latency, which that one measured
        outside = link.beyond({"message_bytes": max(message_bytes, smallest)})
        shared = _under(name, link.wander(message_bytes), link.log_sd)
        return self._timing(name, link, link.seconds(message_bytes), outside, shared)

    def _of_dtype(self, what: str, models: Mapping[str, Model], dtype: str) -> Model:
        if dtype not in models:
            raise self._lacks(f"{dtype} {what}", ", ".join(models), f"calibrate with --dtype {dtype}")
        return models[dtype]

    def _lacks(self, what: str, has: str, remedy: str) -> InputError:
        return InputError(
            f"profile {self.name} has no {what} timings (it has {has or 'none'}); {remedy} or choose another profile"
        )

    def _timing(
        self,
        key: str,
        model: TimingModel,
        seconds: Array,
        outside: str | None,
        shared: Mapping[str, float],
        log_sd: float | None = None,
    ) -> Timing:
        """``outside`` widens the error and is the warning; ``log_sd`` is the model's if not given."""
        kind = self.sources[model.source].kind
        log_sd = model.log_sd if log_sd is None else log_sd
        if not SHORTEST_S <= seconds <= LONGEST_S or not all(map(math.isfinite, shared.values())):
            raise InputError(f"profile {self.name}: {key} takes {float(seconds):g} s, so its timings are wrong")
        if outside is None:
            return Timing(float(seconds), log_sd, key, kind, shared=shared)
        warning = f"{self.name}: {key} is extrapolated: {outside}"
        return Timing(float(seconds), math.hypot(log_sd, EXTRAPOLATION_LOG_SD), key, kind, warning, shared)

    def save(self, path: Path) -> None:
        """Write the profile as JSON, atomically."""
        write_whole(path, self.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n")


def _under(where: str, wander: Mapping[str, float], log_sd: float) -> dict[str, float]:
    """Directions named by the model whose coefficients they move, together no more than the held-out error.

    That one holds what the coefficients make; a bootstrap of few timings says more of it than there is.
    """
    length = math.hypot(*wander.values())
    share = min(1.0, log_sd / length) if length else 1.0
    return {f"{where} {direction}": share * moved for direction, moved in wander.items()}


def load_profile(path: str | Path) -> HardwareProfile:
    """The hardware profile in a JSON file.

    Raises
    ------
    InputError : the file is missing, cut short or not a valid profile; the message names file and key.
    """
    path = Path(path)
    if not exists(path):
        raise InputError(f"{path}: no such hardware profile")
    return as_record(HardwareProfile, read_json(path, "hardware profile"), path, "profile")
