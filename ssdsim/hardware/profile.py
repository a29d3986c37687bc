"""Hardware profiles: a device, the fitted timings of its operations, and where each came from."""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from itertools import permutations
from math import hypot
from os.path import exists
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import field

from ssdsim.base.card import Card, Count, LogSd
from ssdsim.base.display import Display, Displayable
from ssdsim.base.documents import as_record, read_json
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.files import write_whole
from ssdsim.base.record import Record, replace
from ssdsim.hardware.attention import AnyAttention, AttentionLaw
from ssdsim.hardware.collectives import CollectiveLaw, CollectiveModel
from ssdsim.hardware.compressed import CompressedLaw, CompressedModel, CompressedProjectionsLaw
from ssdsim.hardware.device import Device
from ssdsim.hardware.elementwise import ConvolutionLaw, ConvolutionModel, ElementwiseLaw, ElementwiseModel
from ssdsim.hardware.experts import ExpertsLaw, ExpertsModel
from ssdsim.hardware.gemm import GemmLaw, GemmModel
from ssdsim.hardware.hyper_connections import HyperConnectionLaw, MixingModel
from ssdsim.hardware.latent import LatentLaw, LatentModel
from ssdsim.hardware.laws import NO_INTERFERENCE, FixedCosts, Interference, TimingModel
from ssdsim.hardware.links import LinkModel, OfMessages
from ssdsim.hardware.of_engines import NO_ENGINE, engine_read
from ssdsim.hardware.power import PowerLaw
from ssdsim.hardware.prefill import (
    PrefillAttentionLaw,
    PrefillAttentionModel,
    PrefillRecurrenceLaw,
    PrefillRecurrenceModel,
)
from ssdsim.hardware.recurrence import RecurrenceLaw, RecurrenceModel
from ssdsim.hardware.sparse import (
    BlockAttentionLaw,
    BlockChoiceLaw,
    BlockChoiceModel,
    IndexerLaw,
    IndexerModel,
    PrefillSparseLaw,
    SparseLaw,
    SparseModel,
)
from ssdsim.hardware.timing import EXTRAPOLATION_LOG_SD, Law, ProvenanceKind, Timing, missing_timings, timed
from ssdsim.transformer.block_sparse import BlockAttention, BlockChoice
from ssdsim.transformer.compressed import (
    CompressedAttention,
    CompressedIndexer,
    CompressedProjections,
    Part,
    PrefillCompressed,
)
from ssdsim.transformer.hyper_connections import HyperConnection, Way
from ssdsim.transformer.operations import (
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
from ssdsim.transformer.precision import FORMATS
from ssdsim.transformer.recurrences import Convolution, PrefillRecurrence, RecurrentStep, Rule
from ssdsim.transformer.sparse import Indexer, PrefillSparse, SparseAttention

LAWS: dict[type[Operation], type[Law[Any]]] = {
    Gemm: GemmLaw,
    Attention: AttentionLaw,
    PrefillAttention: PrefillAttentionLaw,
    LatentAttention: LatentLaw,
    Indexer: IndexerLaw,
    SparseAttention: SparseLaw,
    BlockChoice: BlockChoiceLaw,
    BlockAttention: BlockAttentionLaw,
    PrefillSparse: PrefillSparseLaw,
    CompressedProjections: CompressedProjectionsLaw,
    CompressedIndexer: CompressedLaw,
    CompressedAttention: CompressedLaw,
    PrefillCompressed: CompressedLaw,
    HyperConnection: HyperConnectionLaw,
    RecurrentStep: RecurrenceLaw,
    PrefillRecurrence: PrefillRecurrenceLaw,
    Convolution: ConvolutionLaw,
    ExpertMlp: ExpertsLaw,
    Collective: CollectiveLaw,
    Elementwise: ElementwiseLaw,
}
"""The law of each type of operation. A new one is priced as soon as it is here."""

REACHED = 0.94
"""Share of memory's bandwidth that reading reaches: 3.1 to 3.2 TB/s of an H100's 3.35, over long contexts."""

_CACHED_TIMINGS = 65536
_DTYPE_FIELDS = ("dtype", "activations", "kv_dtype", "projections")
"""Of operations, where these have them."""

OF_ENGINES = ("indexer", "sparse_attention", "block_choice", "block_attention", "compressed")
"""Fields whose models are by engine first."""
_RARE = (*OF_ENGINES, "latent", "hyper_connection")
_PARTS = ("attention", "indexer", "pre", "post")
"""Of layers with compressed caches and of streams between layers."""

_NAMED: dict[str, tuple[str, ...]] = {"collectives": (), "links": ("link",)}
"""What models of a field are called where it is not its name."""


class Provenance(Card):
    """Origin of numbers. ``source`` names the machine, the project or the document."""

    kind: ProvenanceKind
    source: str
    commit: str = ""
    licence: str = ""
    date: str = ""
    note: str = ""


class Calibrated(Card):
    """What a profile was calibrated for, which verbs take where nobody says otherwise.

    ``devices`` are the target's, then the draft's, such as ``cuda:4``. ``dtype`` is empty where the models' names say
    the formats of their weights.
    """

    target: str
    draft: str
    dtype: str
    tp: Count
    context: Count
    devices: tuple[str, ...]

    def __str__(self) -> str:
        dtype = f" {self.dtype}," if self.dtype else ""
        return f"{self.target} + {self.draft},{dtype} TP {self.tp}, context {self.context}"


class Memory(Record):
    """What a profile has priced so far; its copies begin anew."""

    laws: dict[type[Operation], Law[Any]] = field(default_factory=dict)
    timings: dict[Operation, Timing] = field(default_factory=dict)
    """Of operations: a pass repeats its own, a decode loop its passes."""
    costs: dict[Any, Any] = field(default_factory=dict)
    """Of whole passes and of messages, put here by :mod:`ssdsim.pricing.passes`."""
    placed: dict[tuple[int, ...] | str, "HardwareProfile"] = field(default_factory=dict)
    """Profiles by the order of the devices, and by whose kernels they price."""


class HardwareProfile(Displayable, Card):
    """Seconds of any operation on one machine.

    Models are by the weights' format (``gemm``, ``experts``), by the cache's dtype (``attention``,
    ``attention_masked``, ``attention_windowed``), by both (``latent``), by engine and the format of the block's weights
    (``indexer``, ``block_choice``), by engine and both (``sparse_attention``, ``block_attention``), by dtype
    (``prefill_attention``), by rule (``recurrence``, ``prefill_recurrence``) or by kind and number of ranks
    (``collectives``); each names its entry of ``sources``. ``engine`` says whose kernels are taken where engines have
    their own; a file says none. Where pairs of devices differ, a datasheet's collectives take the bandwidth of the
    rings that links make (:mod:`ssdsim.hardware.links`). ``link`` is between any two devices, or, where ``links`` has
    one for each number of NVLinks, between those that the device's ``nvlinks`` does not tell apart. ``spread`` is the
    relative standard deviation of a timing from run to run. What lies between kernels is a runtime's; ``fixed`` is read
    from profiles of before. ``compressed`` attention is by engine, part and the format of the projections beside it,
    ``hyper_connection`` by way of mixing.
    """

    schema_: Literal[1] = field(name="schema")
    name: str
    device: Device
    gemm: dict[str, GemmModel] = field(default_factory=dict)
    attention: dict[str, AnyAttention] = field(default_factory=dict)
    attention_masked: dict[str, AnyAttention] = field(default_factory=dict)
    attention_windowed: dict[str, AnyAttention] = field(default_factory=dict)
    prefill_attention: dict[str, PrefillAttentionModel] = field(default_factory=dict)
    experts: dict[str, ExpertsModel] = field(default_factory=dict)
    latent: dict[str, dict[str, LatentModel]] = field(default_factory=dict)
    indexer: dict[str, dict[str, IndexerModel]] = field(default_factory=dict)
    sparse_attention: dict[str, dict[str, dict[str, SparseModel]]] = field(default_factory=dict)
    block_choice: dict[str, dict[str, BlockChoiceModel]] = field(default_factory=dict)
    block_attention: dict[str, dict[str, dict[str, SparseModel]]] = field(default_factory=dict)
    compressed: dict[str, dict[Part, dict[str, CompressedModel]]] = field(default_factory=dict)
    hyper_connection: dict[Way, MixingModel] = field(default_factory=dict)
    recurrence: dict[Rule, RecurrenceModel] = field(default_factory=dict)
    prefill_recurrence: dict[Rule, PrefillRecurrenceModel] = field(default_factory=dict)
    convolution: ConvolutionModel | None = None
    collectives: dict[CollectiveKind, dict[int, CollectiveModel]] = field(default_factory=dict)
    link: LinkModel | None = None
    links: dict[int, LinkModel] | None = None
    elementwise: ElementwiseModel | None = None
    fixed: FixedCosts | None = None
    interference: Interference = NO_INTERFERENCE
    spread: LogSd = 0.0
    engine: str | None = None
    power: PowerLaw | None = None
    """None where nobody measured watts."""
    calibrated: Calibrated | None = None
    """None in a profile that no calibration made, or one of before ssdsim 0.5."""
    sources: dict[str, Provenance]

    def __post_init__(self) -> None:
        powered = {} if self.power is None else {"power": self.power}
        for where, model in (self.models() | powered).items():
            if model.source not in self.sources:
                hint = nearest(model.source, self.sources)
                raise ValueError(f"{where}: source '{model.source}' is not in sources{hint}")

    @property
    def display(self) -> Display:
        """The devices, and what was timed on them."""
        device = self.device
        families = ", ".join(sorted({name.partition(":")[0] for name in self.models()}))
        return Display(f"{self.name}: {device.count} x {device.name}, {device.topology}", sentence=f"timed: {families}")

    @property
    def timed(self) -> dict[str, Any]:
        """Fields that hold timing models: one, or a mapping of them."""
        held = {name: getattr(self, name) for name in type(self).__struct_fields__ if name != "sources"}
        return {name: each for name, each in held.items() if isinstance(each, TimingModel | dict)}

    def models(self) -> dict[str, TimingModel]:
        """Every timing model by a readable name such as ``gemm:bfloat16`` or ``all_reduce:4``."""
        return {
            ":".join(map(str, keys)): model
            for field, held in self.timed.items()
            for keys, model in _each(held, *_NAMED.get(field, (field,)))
        }

    @cached_property
    def memory(self) -> Memory:
        """What it has priced so far."""
        return Memory()

    def placed(self, order: Sequence[int]) -> "HardwareProfile":
        """The node with these of its devices in front, in this order, and the rest behind them as they were.

        A target's ranks are the first devices and its draft the next one, so this says who pays which links.
        """
        device = self.device
        if device.nvlinks is None:
            raise InputError(f"--placement has no effect on {self.name}, whose pairs of devices are all linked alike")
        odd = next((each for i, each in enumerate(order) if each >= device.count or each in order[:i]), None)
        if odd is not None:
            said = "is named twice" if odd < device.count else "is not there"
            raise InputError(f"--placement: device {odd} {said}; {self.name} has 0-{device.count - 1}, each once")
        devices, known = (*order, *(each for each in range(device.count) if each not in order)), self.memory.placed
        if devices not in known:
            rows = tuple(tuple(device.nvlinks[a][b] for b in devices) for a in devices)
            known[devices] = self.changed(device=device.changed(nvlinks=rows))
        return known[devices]

    def of_engine(self, name: str) -> "HardwareProfile":
        """The profile with an engine's kernels, where engines have their own."""
        known = self.memory.placed
        if name not in known:
            known[name] = self if name == (self.engine or NO_ENGINE) else self.changed(engine=name)
        return known[name]

    def law(self, op: Operation) -> Law[Any]:
        """Law that prices ``op`` here."""
        known, kind = self.memory.laws, type(op)
        if kind not in known:
            if kind not in LAWS:
                raise InputError(f"{op.name}: no law prices operations of the type {kind.__name__}")
            known[kind] = LAWS[kind](self)
        return known[kind]

    def seconds(self, op: Operation) -> Timing:
        """Time of ``op``, never less than physics allows within a pass (:meth:`ssdsim.hardware.timing.Law.least_s`).

        Where its fit says less, it says nothing of ``op``: the error is that of an extrapolation, and a warning, the
        same for all operations of a kind, says so.
        """
        known = self.memory.timings
        timing = known.get(op)
        if timing is None:
            if len(known) >= _CACHED_TIMINGS:
                known.clear()
            read = self._read_as(op)
            law = self.law(read)
            with np.errstate(all="ignore"):  # what leaves the floats is refused as a timing
                timing, least_s = law.timing(read), law.least_s(read)
            if timing.seconds < least_s:
                bound = "what memory and arithmetic take at their best"
                said = f"{self.name}: {op.kernel} is priced at {bound}, since its fit is below that"
                log_sd = timing.log_sd if timing.is_extrapolated else hypot(timing.log_sd, EXTRAPOLATION_LOG_SD)
                warnings = (*timing.warnings, said)
                timing = replace(timing, seconds=least_s, log_sd=log_sd, warnings=warnings, is_extrapolated=True)
            if read is not op and timing.warning is None:
                (own, other), *_ = self._stand_ins.items()
                said = f"{self.name}: no {own} was timed: {other}'s kernels, which are as fast there"
                timing = replace(timing, warnings=(said,))
            known[op] = timing
        return timing

    def prices(self, dtype: str) -> bool:
        """Say whether products in a plain dtype are priced: they were timed, or those of one that is as fast."""
        return dtype in self.gemm or dtype in self._stand_ins

    def _read_as(self, op: Operation) -> Operation:
        """``op`` in the dtype whose timings are taken for its own."""
        others = self._stand_ins
        if not others:
            return op
        read = {name: others[dtype] for name in _DTYPE_FIELDS if (dtype := getattr(op, name, "")) in others}
        return replace(op, **read) if read else op  # type: ignore[type-var]

    @cached_property
    def _stand_ins(self) -> dict[str, str]:
        """Pairs of 16-bit floats: the one that was not timed and the other, which the device multiplies as fast."""
        peaks = self.device.peak_flops
        return {
            own: other
            for own, other in permutations(("float16", "bfloat16"))
            if other in self.gemm and own not in self.gemm and own in peaks and peaks[own] == peaks.get(other)
        }

    def launch_seconds(self, op: Operation) -> float:
        """The floor under ``op``'s time however little it does, as fitted."""
        self.seconds(op)  # refuses what the profile does not know
        read = self._read_as(op)
        return self.law(read).launch_s(read)

    @cached_property
    def reading_bandwidth(self) -> float:
        """Bytes/s at which attention at its best reads more than a cache holds: as was timed, of any dtype.

        It is at most :data:`REACHED` of a datasheet's figure; a calibration's figure is what products reached.
        """
        models = self.attention.values()
        if any(model.streaming is None and self.sources[model.source].kind == "measured" for model in models):
            return self.device.memory_bandwidth
        reached = REACHED * self.device.memory_bandwidth
        return min(reached, max((model.streaming for model in models if model.streaming), default=reached))

    def link_between(self, pair: tuple[int, int] | None = None) -> tuple[str, LinkModel]:
        """Link between two devices of the node, and its name; of any two without a ``pair``."""
        matrix, links = self.device.nvlinks, self.links or {}
        if pair and matrix and max(pair) < len(matrix) and (count := matrix[pair[0]][pair[1]]) in links:
            return f"link:{count}", links[count]
        if self.link is None:
            raise missing_timings(self, "link", "", "calibrate")
        return "link", self.link

    def message_seconds(self, message_bytes: int, pair: tuple[int, int] | None = None) -> Timing:
        """Time of a point-to-point message between two devices, as of :meth:`link_between`."""
        name, fastest = self.link_between(pair)
        link, seconds = fastest.of_message(message_bytes)
        outside = link.beyond({"message_bytes": message_bytes})
        return timed(self, name, link, seconds, outside, link.wander(message_bytes))

    def save(self, path: Path) -> None:
        """Write the profile as JSON, atomically."""
        write_whole(path, self.as_json(indent=1, without_none=True) + "\n")


def _each(held: Any, *keys: Any) -> Iterator[tuple[tuple[Any, ...], TimingModel]]:
    """A model and that of what is below it, or every model of a mapping, with the keys under which it is there."""
    if isinstance(held, TimingModel):
        yield keys, held
        if isinstance(held, OfMessages) and held.below is not None:  # type: ignore[attr-defined]
            name, *others = keys
            yield from _each(held.below, f"{name} below {held.smallest / 2**20:.4g} MiB", *others)  # type: ignore[attr-defined]
        return
    for key, each in held.items():
        yield from _each(each, *keys, key)


def load_profile(path: str | Path) -> HardwareProfile:
    """The hardware profile in a JSON file."""
    path = Path(path)
    if not exists(path):
        raise InputError(f"{path}: no such hardware profile")
    return as_record(HardwareProfile, read_json(path, "hardware profile"), path, "profile")


def provenance_summary(
    profile: HardwareProfile,
    dtypes: set[str],
    ranks: int,
    experts: bool = False,
    windows: bool = False,
    exchanges: bool = False,
    rules: Set[Rule] = frozenset(),
    rare: Set[str] = frozenset(),
) -> str:
    """The timings that a placement reads, by the kind of their provenance, with held-out median errors.

    ``dtypes`` are of weights, activations and caches; timings in a quantised one are told by its name. ``experts``
    and ``windows``: a model has some; ``exchanges``: all-to-alls bring tokens to their experts, or outputs
    together; ``rules``: of models' recurrent layers; ``rare``: the fields that few models read, of those that are read.
    """
    unread = {"prefill_attention", "prefill_recurrence"}  # by passes that decode
    some = {"experts": experts, "attention_windowed": windows, "all_to_all": exchanges, "convolution": bool(rules)}
    unread |= {name for name, there in some.items() if not there}
    by_kind: dict[str, list[str]] = defaultdict(list)
    origins: dict[str, set[str]] = defaultdict(set)
    for name, model in profile.models().items():
        what, _, variant = name.partition(":")
        if what in unread or (what in _RARE and what not in rare):
            continue
        of_engine = [engine_read(profile, what)[0]] if what in OF_ENGINES else []
        parts = variant.split(":") if what in _RARE else []
        formats = [part for part in parts if part in FORMATS]
        if parts and (
            any(part.startswith("prefill") for part in parts) or not {*parts} <= {*dtypes, *of_engine, *_PARTS}
        ):
            continue
        if parts:
            what, variant = " ".join((what, *(part for part in parts if part in _PARTS))), (formats or [""])[-1]
        elif variant and variant not in {*dtypes, *rules, str(ranks)}:
            continue
        source = profile.sources[model.source]
        error = f" {model.report.median_error:.1%}" if model.report and model.report.rows_held_out else ""
        called = what if variant not in QUANTISED_BYTES else f"{what} {variant}"
        by_kind[source.kind].append(f"{called}{error}")
        origins[source.kind].add(f"{source.source} {source.commit}".strip())
    parts = [f"{kind} from {', '.join(sorted(origins[kind]))}: {', '.join(by_kind[kind])}" for kind in by_kind]
    return "; ".join(parts) + " (held-out medians)"
