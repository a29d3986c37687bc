"""Devices and memory that a strategy occupies at a site, and whether it fits there."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from ssdsim.base.errors import CannotRun, DoesNotFit, InputError, Shortage, Ways
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import smaller_in_family
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.site import Site, memoized
from ssdsim.transformer.cache_memory import PLAIN, CacheMemory, Caching, in_pages, paged_bytes, state_bytes
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.context_parallel import legal_context_parallel, most_that_share
from ssdsim.transformer.operations import DTYPE_BYTES, DTYPES, QUANTISED_BYTES, WEIGHT_BYTES
from ssdsim.transformer.parallel_degrees import legal_tensor_parallel
from ssdsim.transformer.precision import Precision


class Devices(Record):
    """Devices that a strategy occupies: the target's (all its replicas), and the draft's own.

    A target's batch goes through it in ``microbatches``, one a pipeline stage, which the draft serves in turn. Those of
    the draft may serve so many ``targets``, each on devices of its own: in turn, or all that wait
    ``together``. ``on_host``: the draft runs on the host's CPU, which is no GPU.
    """

    target: int
    draft: int = 0
    targets: int = 1
    together: bool = False
    on_host: bool = False
    microbatches: int = 1

    @property
    def served(self) -> int:
        """Batches that the draft's own devices serve, each for itself."""
        return self.targets * self.microbatches if self.draft else self.targets

    @property
    def draft_gpus(self) -> int:
        """GPUs of the draft's own."""
        return 0 if self.on_host else self.draft

    @property
    def total(self) -> int:
        """GPUs of all that share the draft."""
        return self.targets * self.target + self.draft_gpus

    def of_kind(self, kind: str) -> int:
        """GPUs of all roles of a kind (``target``, ``draft``); 0 of one that runs on a host."""
        return {"target": self.targets * self.target, "draft": self.draft}.get(kind, 0)

    @property
    def sharing(self) -> str | None:
        """Text about a draft that several targets share."""
        if self.targets == 1:
            return None
        return f"one for {self.targets} targets, {'all that wait together' if self.together else 'one after the other'}"

    @property
    def per_target(self) -> float:
        """GPUs per target, with its share of a shared draft: 4 + 1/N; a whole number where nothing is shared."""
        return self.total if self.targets == 1 else self.total / self.targets


def is_host_of(draft: HardwareProfile, target: HardwareProfile) -> bool:
    """Tell whether a draft's device is the CPU of the host in which the target's GPUs are."""
    return draft.device.kind == "cpu" and target.device.kind != "cpu"


def format_count(gpus: float) -> str:
    """Text of a number of devices, with a share of a shared draft: 5, 4.25."""
    return f"{round(gpus, 2):g}"


@memoized
def check_dtypes(site: Site, drafts: bool, beside: bool = False) -> None:
    """Check dtypes: where a profile lacks a model's, name one that all have (of activations, if weights are quantised).

    ``beside``: the draft runs on the target's devices, not on those of its own profile.

    Raises
    ------
    InputError : a profile lacks it, and there is one that all have (else pricing refuses the profile).
    """
    wanted = [(site.profile, site.precision_of("target").activations)]
    draft = site.profile if beside else site.draft_profile
    wanted += [(draft, site.precision_of("draft").activations)] if drafts else []
    if all(profile.prices(dtype) for profile, dtype in wanted):
        return
    if drafts and site.draft_profile is not site.profile:
        _check_draft_dtype(site, beside)
    common = [other for other in DTYPES if all(profile.prices(other) for profile, _ in wanted)]
    for profile, dtype in wanted:
        if not profile.prices(dtype) and common:
            closest = min(common, key=lambda other: abs(DTYPE_BYTES[other] - DTYPE_BYTES[dtype]))
            has = ", ".join(profile.gemm)
            raise InputError(
                f"profile {profile.name} has no {dtype} gemm timings (it has {has}); give --dtype {closest}"
            )


def _check_draft_dtype(site: Site, beside: bool) -> None:
    """Raise :class:`InputError` where another dtype, or its own device, lets the draft run on its own profile."""
    dtype, own = site.precision_of("draft").activations, site.draft_profile
    fitting = [other for other in DTYPES if own.prices(other)]
    shared = any(site.profile.prices(other) for other in fitting)
    if not fitting or (shared and not (beside and own.prices(dtype))):
        return
    lacking = site.profile if own.prices(dtype) else own
    closest = min(fitting, key=lambda other: abs(DTYPE_BYTES[other] - DTYPE_BYTES[dtype]))
    give = [] if own.prices(dtype) else [f"--draft-dtype {closest}"]
    give += ["--sd-draft separate (SD drafts on the target's devices otherwise)"] if beside else []
    raise InputError(
        f"profile {lacking.name} has no {dtype} gemm timings (it has {', '.join(lacking.gemm)}) for the draft; "
        f"give {' '.join(give)}"
    )


def check_context(site: Site, lookahead: int) -> None:
    """Raise :class:`DoesNotFit` where context and tokens in flight pass what a model was made for."""
    for card in (site.target, site.draft):
        if site.context + lookahead + 1 > card.max_context:
            raise DoesNotFit(
                f"--context {site.context} and K + 1 tokens in flight pass the {card.max_context} of {card.name}"
            )


def check_place(title: str, drafter: str, apart: bool) -> None:
    """Raise :class:`CannotRun` where a drafter that reads the target's memory would be on other devices."""
    if apart:
        raise CannotRun(f"{title} drafts on devices of its own, {drafter} only on the target's, whose memory it reads")


def check_devices(title: str, site: Site, devices: Devices, together: bool = True, advice: str = "") -> None:
    """Each profile's node must have the devices of the model that runs there; of both, where they share a node.

    A refusal of devices for the draft alone ends with ``advice``.

    Raises
    ------
    DoesNotFit : it has fewer.
    """
    have, draft, target = site.profile.device.count, devices.draft, devices.target * site.in_node // (site.tp * site.pp)
    shared = draft if together and site.profile.name == site.draft_profile.name else 0
    if target + shared > have:
        fitting = [tp for tp in legal_tensor_parallel(site.target) if target // site.tp * tp + shared <= have]
        nearest_fit = _nearest(site, max(fitting)) if fitting else ""
        needs = f"{target} target and {shared} draft devices" if shared else f"{target} target devices"
        beside = advice if target <= have else ""
        needs += "" if target <= site.tp or site.pp == 1 else " in a node (--pp-link rdma: a node for each stage)"
        raise DoesNotFit(f"{title} needs {needs}, {site.profile.name} has {have}{nearest_fit}{beside}")
    if draft > site.draft_profile.device.count:
        count = site.draft_profile.device.count
        raise DoesNotFit(f"{title} needs {draft} draft devices, {site.draft_profile.name} has {count}")


def _nearest(site: Site, tp: int) -> str:
    """The degree for which there are devices, if the target has room there, else what it lacks and has room there."""
    there = target_alone(replace(site, tp=tp, ep=min(site.ep, tp)), 0, wider=False)
    if there.needs_bytes(site.batch) <= usable_bytes(site.profile):
        return f"; the nearest that fits is tp {tp}"
    return f"; at most tp {tp} is there, and {there.shortage(site.batch)}"


USABLE_SHARE = 0.9  # of memory, for weights, caches and what a runtime ``keeps``; the rest for graphs (vLLM's default)
_CONTEXT_STEP = 1024  # between contexts that a refusal may name
_MOST_STAGES = 8  # that a refusal may name


def usable_bytes(profile: HardwareProfile, share: float = USABLE_SHARE) -> int:
    """Bytes of each device for weights, caches and what a runtime keeps from them."""
    return int(profile.device.memory_bytes * share)


class Demand(Record):
    """Bytes that one model asks of one device: fixed ones, which are mostly weights, and what each sequence adds.

    All devices have all sequences, or so many ``devices`` split them.
    """

    weights_bytes: int
    sequence_bytes: int
    devices: int = 1

    def total_bytes(self, batch: int) -> int:
        """Bytes of ``batch`` sequences on the fullest device."""
        return self.weights_bytes + -(-batch // self.devices) * self.sequence_bytes


def demand_of(
    card: Transformer,
    tp: int,
    context: int,
    lookahead: int,
    precision: Precision,
    *,
    branches: int = 0,
    logits: bool = False,
    data_parallel: bool = False,
    caching: Caching = PLAIN,
    dcp: int = 1,
    pp: int = 1,
) -> Demand:
    """Weights and cache of a model: a sequence has K+1 slots for tokens in flight, and K for each of its ``branches``.

    ``logits``: those of every branch token are kept, too, as sampling needs them (SSD paper, appendix C).
    ``data_parallel``: each of the ``tp`` devices has sequences of its own, and the whole model but for its experts.
    ``caching``: what the engine keeps of recurrent layers, where a branch has a state of its own, and from caches.
    ``dcp`` devices share the tokens of each sequence, fewer where fewer can.
    ``pp`` stages have layers of their own, the first one the embedding and the last one the LM head; it is the fullest.
    """
    sharing, devices = (1, tp) if data_parallel else (tp, 1)
    more = lookahead + 1 + branches * lookahead
    parts = most_that_share(card, sharing, dcp)
    held = CacheMemory(-(-(context + more) // parts), lookahead, branches)
    if in_pages(card, caching):
        cache_bytes = paged_bytes(card, held, caching, sharing, precision)
    else:
        own = -(-more // parts)
        cache_bytes = card.cache_bytes(held.tokens - own, own, sharing, precision.kv)
        cache_bytes += state_bytes(card, held, caching.states, sharing, precision)
    logit_bytes = branches * lookahead * card.vocab_size * DTYPE_BYTES[precision.activations] if logits else 0
    weights_bytes = card.weight_bytes(sharing, precision, tp)
    if pp > 1:
        share = -(-card.layers // pp) / card.layers
        weights_bytes = _on_a_stage(card, weights_bytes, share, sharing, precision)
        cache_bytes = math.ceil(share * cache_bytes)
    kept_bytes = caching.kept_bytes(card, sharing, precision)
    return Demand(weights_bytes + kept_bytes, cache_bytes + logit_bytes, devices)


def _on_a_stage(card: Transformer, weights_bytes: int, share: float, sharing: int, precision: Precision) -> int:
    """Of the bytes of all stages on a device, those of a stage with a share of the layers and one end of the model."""
    matrix = -(-card.vocab_size * card.hidden_size // sharing)
    head, embedding = (matrix * WEIGHT_BYTES[kept] for kept in (precision.lm_head, precision.activations))
    ends = head + (0.0 if card.tied_embeddings else embedding)
    return math.ceil(share * (weights_bytes - ends) + max(head, embedding))


def largest_budget(
    card: Transformer,
    context: int,
    lookahead: int,
    precision: Precision,
    logits: bool,
    batch: int,
    profile: HardwareProfile,
    caching: Caching = PLAIN,
) -> int:
    """The most cached outcomes a sequence that one draft device holds beside its weights; 0 if none."""
    of = (card, 1, context, lookahead, precision)
    bare, one = (demand_of(*of, branches=branches, logits=logits, caching=caching) for branches in (0, 1))
    each = one.sequence_bytes - bare.sequence_bytes
    room = usable_bytes(profile) - bare.total_bytes(batch)
    return max(0, room // (batch * each))


class Occupancy(Record):
    """Memory in use on each device of a kind. A refusal calls it ``what`` and ends with ``advice``, then ``ways``."""

    what: str
    demands: Sequence[Demand]
    profile: HardwareProfile
    advice: str = ""
    ways: Ways = ()

    def needs_bytes(self, batch: int) -> int:
        """Bytes that each device needs."""
        return sum(demand.total_bytes(batch) for demand in self.demands)

    @property
    def largest_batch(self) -> int:
        """The most sequences that its devices hold; 0 if none. All of them split the sequences or none does."""
        room = usable_bytes(self.profile) - sum(demand.weights_bytes for demand in self.demands)
        each = sum(demand.sequence_bytes for demand in self.demands)
        return room // each * self.demands[0].devices if room > 0 else 0

    def shortage(self, batch: int) -> Shortage:
        """Text about the memory that a batch lacks, and the largest batch that fits."""
        largest = self.largest_batch
        fits = f"the largest batch that fits is {largest}" if largest else "not even one sequence fits"
        return Shortage(
            f"{self.what} needs {self.needs_bytes(batch) / 2**30:.1f} GiB on each device, {self.profile.name} has "
            f"{usable_bytes(self.profile) / 2**30:.1f} GiB usable; {fits}{self.advice}",
            f" for {batch}" if batch > 1 else "",
            self.ways,
        )


@memoized
def target_on(site: Site, lookahead: int, beside: bool = False) -> Demand:
    """The target's share on each of its devices, with a head's cache ``beside`` it where that is in its pages."""
    kept, caching = site.precision_of("target"), site.runtime.caching
    if beside and _in_the_targets_pages(site):
        caching = replace(caching, head_layers=site.draft.layers)
    of = (site.target, site.tp, site.context, lookahead, kept)
    return demand_of(*of, data_parallel=site.data_parallel, caching=caching, dcp=site.dcp, pp=site.pp)


def _in_the_targets_pages(site: Site) -> bool:
    """Say whether a head's keys and values share the pages of a target with recurrent states: both have one shape."""
    alike = all(getattr(site.draft, name) == getattr(site.target, name) for name in ("kv_heads", "head_dim", "latent"))
    return site.draft.head is not None and alike and in_pages(site.target, site.runtime.caching)


@memoized
def draft_on(site: Site, tp: int, lookahead: int, branches: int, beside: bool) -> Demand:
    """The draft's share on each of ``tp`` devices of its own, or of those ``beside`` the target."""
    of = (site.draft, tp, site.context, lookahead, site.precision_of("draft"))
    beside_all, caching = beside and site.data_parallel, site.runtime.caching
    caching = replace(caching, keeps=None) if beside else caching  # which the target's passes need, not at once
    demand = demand_of(*of, branches=branches, logits=site.sampling, data_parallel=beside_all, caching=caching)
    return replace(demand, sequence_bytes=0) if beside and _in_the_targets_pages(site) else demand


@memoized
def target_alone(site: Site, lookahead: int, wider: bool = True) -> Occupancy:
    """The target with nothing beside it; a refusal says what has room, with more devices if they may be ``wider``."""
    alone = Occupancy(f"{site.target.name} at tp {site.tp}", [target_on(site, lookahead)], site.profile)
    short = alone.needs_bytes(site.batch) > usable_bytes(site.profile)
    return replace(alone, ways=_with_room(site, lookahead, alone.largest_batch > 0, wider)) if short else alone


def _with_room(site: Site, lookahead: int, one_fits: bool, wider: bool) -> Ways:
    """What has room for all sequences, one change at a time: more devices (if ``wider``), each sequence on one of them,
    more nodes, a shared cache, a shorter context, a format of fewer bits.

    Where not even one sequence fits, and no format has room, also a smaller model.
    """

    def fits(**changed: Any) -> bool:
        return target_on(replace(site, **changed), lookahead).total_bytes(site.batch) <= usable_bytes(site.profile)

    name, count, own = site.profile.name, site.profile.device.count, site.tp * site.pp
    timed = site.profile.collectives.get("all_reduce", {})
    more = (tp for tp in legal_tensor_parallel(site.target) if tp > site.tp and count > 1 and wider)
    degrees = (tp for tp in more if (tp in timed or tp > max(timed, default=0)) and fits(tp=tp, ep=min(site.ep, tp)))
    contexts = range(_CONTEXT_STEP, site.context, _CONTEXT_STEP)
    shorter = contexts[: bisect(contexts, False, key=lambda tokens: not fits(context=tokens))]
    formats = [kept for kept in _narrower(site) if fits(dtype=kept)]
    smaller = () if one_fits or formats else smaller_in_family(site.target)
    models = (card for card in smaller if site.tp in legal_tensor_parallel(card) and fits(target=card))
    there = {tp: tp * site.in_node // site.tp for tp in islice(degrees, 1)}
    ways = [
        (f"{tp * site.pp} {name} (tp {tp}{f', a node has {count}' if in_node > count else ''})", tp * site.pp)
        for tp, in_node in there.items()
    ]
    if _splits_sequences(site) and fits(data_parallel=True, ep=site.tp):
        ways.append(("--attention data-parallel", own))
    stages = (pp for pp in range(site.pp + 1, _stages_of_nodes(site) + 1) if fits(pp=pp) and wider)
    ways += [(f"--pp {pp} --pp-link rdma", site.tp * pp) for pp in islice(stages, 1)]
    shared = (dcp for dcp in _sharing(site) if dcp > site.dcp and fits(dcp=dcp))
    ways += [(f"--dcp {dcp}", own) for dcp in islice(shared, 1)]
    ways += [(f"--context {tokens}", own) for tokens in shorter[-1:]]
    ways += [(f"--dtype {kept}", own) for kept in formats[:1]]
    return [*ways, *((f"--target {card.name}", own) for card in islice(models, 1))]


def _splits_sequences(site: Site) -> bool:
    """Say whether each sequence may lie on one device of its own, which it does not yet."""
    return bool(site.target.experts) and not site.data_parallel and site.tp > 1 and site.dcp == site.pp == 1


def _stages_of_nodes(site: Site) -> int:
    """The most pipeline stages to propose, each of a whole node; none where a stage has room to grow in its node."""
    known, is_whole = site.runtime.runs, site.tp >= site.profile.device.count > 1
    return _MOST_STAGES if is_whole and (known is None or known.over_stages is not None) else 0


def _sharing(site: Site) -> tuple[int, ...]:
    """The numbers of the target's devices that may share a cache, as far as the engine has them do so."""
    known = site.runtime.runs
    return legal_context_parallel(site.target, site.sharing) if known is None or known.dcp else ()


def _narrower(site: Site) -> list[str]:
    """Formats of fewer bits than the target's weights have, the widest first; of equals what was timed there first."""
    bits = {kept: int(8 * WEIGHT_BYTES[kept]) for kept in WEIGHT_BYTES}
    own = min(bits[kept] for kept in site.precision_of("target").formats_of_blocks)
    formats = dict.fromkeys((*(kept for kept in QUANTISED_BYTES if kept in site.profile.gemm), "int8", "int4"))
    return sorted((kept for kept in formats if bits[kept] < own), key=lambda kept: -bits[kept])


def check_memory(batch: int, occupancies: Iterable[Occupancy]) -> None:
    """Raise :class:`DoesNotFit` where memory is short, about the devices that hold the fewest sequences."""
    short = [each for each in occupancies if each.needs_bytes(batch) > usable_bytes(each.profile)]
    if short:
        raise DoesNotFit(min(short, key=lambda each: each.largest_batch).shortage(batch))
