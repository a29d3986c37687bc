"""Import llama-bench: whole passes of a user's own models by their rows -> the machine that runs them so fast.

A pass is priced as a sum of operations, and llama-bench times their sum. So a profile of the GPU, or one likened to it,
prices all but the products with weights in the models' format; these take what is left of each pass. Models of one
format share their matrices' bandwidths by rows. Where two were timed there, a gap a layer is what makes both right.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from os.path import exists
from pathlib import Path
from typing import Any

import numpy as np

from calibration.importers.llama_models import TimedModel, timed_models
from calibration.timings.answer import own_file
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import HARDWARE, find_hardware
from ssdsim.hardware.gemm import GemmModel, GemmSegment
from ssdsim.hardware.gpu_names import is_same_gpu
from ssdsim.hardware.laws import FitReport, Roofline
from ssdsim.hardware.profile import Calibrated, HardwareProfile, Provenance
from ssdsim.hardware.runtime_card import Evidence, Runtime
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.what_if import Datasheet, from_datasheet
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import WEIGHT_BYTES, Gemm, Operation

SOURCE = "llama-bench"
LIKE = "rtx-4090"
"""The profile that an unknown GPU or CPU is likened to in all that its passes do not tell: a small part of them."""

SERVED_LOG_SD = 0.1
"""Of a pass between llama-bench and a round that serves: 16 rounds of six cards, from each card's step and lowest K,
are 8 % off on average and 17 % at worst; a V100's speed-up at K 2 is 14 % off (1.24, measured 1.43)."""

_REACHED = 0.85  # of a memory's bandwidth, by the weights of a pass over one token
_ROOM = 1.25  # times the largest model, where nobody says a memory
_LEAST_SHARE = 0.4  # of a pass, that its products with weights take at least
_CONTEXT = 1024  # of what is asked where nobody says it
_NO_PEAK = 1e18  # flops/s, of a segment that only streams


class Machine(Record):
    """A device by what its models' passes take: its profile and runtime, those models, and what was assumed of it.

    ``output`` is the profile's file.
    """

    output: Path
    profile: HardwareProfile
    runtime: Runtime
    models: tuple[TimedModel, ...]
    remarks: tuple[str, ...] = ()


def import_llama_bench(
    files: Iterable[Path],
    output: Path | None = None,
    *,
    target: str | None = None,
    draft: str | None = None,
    base: str | None = None,
    memory_bytes: int | None = None,
) -> list[Machine]:
    """A machine for each device that ran, that of the largest model first; the second is called the first's ``-draft``.

    Without an ``output`` they lie in the user's folder, by the device's name.
    """
    models = timed_models(files, target, draft)
    by_device: dict[str, list[TimedModel]] = defaultdict(list)
    for model in models:
        by_device[model.device].append(model)
    if len(by_device) > 2:
        raise InputError(
            f"{len(by_device)} devices ran ({', '.join(by_device)}): give files of a target's and a draft's"
        )
    first = output or own_file(models[0].device)
    files_of = (first, first.with_name(f"{first.stem}-draft{first.suffix}"))
    given: tuple[dict[str, Any], ...] = ({"base": base, "memory_bytes": memory_bytes}, {})
    each_device = zip(files_of, by_device.items(), given, strict=False)
    return [_machine(file, *of, models, **assumed) for file, of, assumed in each_device]


def _machine(
    output: Path,
    device: str,
    own: Sequence[TimedModel],
    models: Sequence[TimedModel],
    base: str | None = None,
    memory_bytes: int | None = None,
) -> Machine:
    under, remarks = _base(device, own, base, memory_bytes)
    sixteen = next(iter(under.gemm))
    own = _with_laws([each.in_16_bits(sixteen) for each in own])
    per_layer_s = _gap_a_layer(own, under)
    under = under.changed(sources={**under.sources, SOURCE: _provenance(own)})
    for dtype in sorted({each.dtype for each in own}, key=WEIGHT_BYTES.__getitem__, reverse=True):
        alike = [each for each in own if each.dtype == dtype]
        law = _products(alike, under, per_layer_s)
        shared = {kept: law.changed(element_bytes=alike[0].bytes_of(kept)) for kept in alike[0].formats}
        under = under.changed(gemm={**under.gemm, **shared})
    held = max(models, key=lambda each: each.file_bytes)
    draft = min(models, key=lambda each: each.file_bytes)
    made_for = Calibrated(
        target=held.called,
        draft=draft.called if draft is not held else held.usual_draft,
        dtype=held.in_16_bits(sixteen).dtype if exists(held.name) else "",
        tp=1,
        context=_CONTEXT,
        devices=(device,),
    )
    profile = under.changed(
        name=output.stem,
        spread=float(np.mean([each.spread for each in own])),
        calibrated=made_for if held.device == device else None,
    )
    return Machine(output, profile, _runtime(output.stem, per_layer_s), tuple(own), tuple(remarks))


def _with_laws(own: Sequence[TimedModel]) -> list[TimedModel]:
    """The models of a format with the largest one's bytes a weight, since a profile has one law of each.

    A file's output matrix has one of its own where another model of that format was timed.
    """
    of_format: dict[str, float] = {}
    for each in own:  # the largest first
        of_format.setdefault(each.dtype, each.weight_bytes)
    made = []
    for each in own:
        head = each.card.precision().lm_head
        formats = (each.dtype,) if head in of_format else (each.dtype, head)
        made.append(replace(each, weight_bytes=of_format[each.dtype], formats=formats))
    return made


def _base(
    device: str, own: Sequence[TimedModel], named: str | None, memory_bytes: int | None
) -> tuple[HardwareProfile, list[str]]:
    """The profile whose other timings are kept, as one of ``device``, and what is assumed of that."""
    ran = own[0].gpus
    held = _known(device, named)
    largest = max(own, key=lambda each: each.file_bytes)
    reached = largest.file_bytes / largest.steps[1] / _REACHED
    if held is not None:
        bandwidth = max(reached, held.device.memory_bandwidth)
        room = memory_bytes or held.device.memory_bytes * ran
        changes = {"memory_bandwidth": bandwidth, "memory_bytes": room}
        called = held.device.name if ran == 1 else f"{ran} x {held.device.name}, one after the other"
        return held.changed(device=held.device.changed(name=called, **changes)), []
    remarks = [f"no profile is of {device}: what is no product with weights is likened to {LIKE}'s, by its bandwidth"]
    if memory_bytes is None:
        memory_bytes = round(_ROOM * sum(each.file_bytes for each in own))
        remarks.append(f"its memory is not in the files: {memory_bytes / 2**30:.1f} GiB are taken; --memory says it")
    like = HARDWARE.find(LIKE)
    peak = max((2.0 * each.card.active_parameters * rows / s for each in own for rows, s in each.steps.items()))
    share = max(reached / like.device.memory_bandwidth, 2.0 * peak / like.device.peak_flops["bfloat16"])
    sheet = Datasheet(
        name=device,
        memory_bytes=memory_bytes,
        memory_bandwidth=reached,
        peak_flops={"": share * like.device.peak_flops["bfloat16"]},
        link="pcie4",
    )
    made = from_datasheet(like, sheet, "base")
    kind = "cpu" if own[0].on_cpu else "cuda"
    return made.changed(device=made.device.changed(name=device, kind=kind, compute_units=None)), remarks


def _known(device: str, named: str | None) -> HardwareProfile | None:
    """The profile that is named, or a bundled one of such a GPU; None where there is none."""
    if named is not None:
        return find_hardware(named)
    gpu = re.sub(r"^\d+ x ", "", device)
    of = (each for each in HARDWARE.cards() if is_same_gpu(gpu, each.device.name, each.device.memory_bytes))
    return next(of, None)


def _provenance(own: Sequence[TimedModel]) -> Provenance:
    told = "; ".join(f"{each.name} in {each.words}, rows {', '.join(map(str, each.steps))}" for each in own)
    return Provenance(kind="imported", source=f"{SOURCE} of llama.cpp {own[0].build}".strip(), note=told)


def _runtime(name: str, per_layer_s: float) -> Runtime:
    """What llama.cpp adds to passes as it times them: its own gaps are in these already."""
    known = find_runtime("llama-cpp")
    errors = known.errors.changed(pass_log_sd=SERVED_LOG_SD, beside_log_sd=0.0)
    evidence = Evidence(source=f"passes of {SOURCE}; between them as llama-cpp: {known.evidence.source}")
    host = known.host.changed(per_layer_s=per_layer_s, per_pass_s=0.0)
    alone = known.changed(name=name, host=host, errors=errors, evidence=evidence, covered=(), wander=())
    return alone.with_numbers({"gemm": 1.0, "attention": 1.0, "elementwise": 1.0})


# passes as sums


def _counted(model: TimedModel, rows: int) -> Iterator[tuple[Operation, int]]:
    """The operations of a pass as llama-bench ran it: only the last of a prompt's tokens has logits."""
    cached = model.cached(rows)
    forward = forward_pass(model.card, batch=1, queries=rows, context=cached, tp=1)
    for op, times in forward.counted:
        yield (replace(op, m=1) if isinstance(op, Gemm) and op.name == "lm_head" else op), times


def _is_own(op: Operation, model: TimedModel) -> bool:
    return isinstance(op, Gemm) and op.dtype in model.formats


def _rest_s(model: TimedModel, rows: int, under: HardwareProfile) -> float:
    """Seconds of all but the products with the model's weights."""
    return sum(n * under.seconds(op).seconds for op, n in _counted(model, rows) if not _is_own(op, model))


def _moved(model: TimedModel, rows: int) -> tuple[float, float]:
    """Bytes of the products with its weights over so many rows, and of those over one row beside them."""
    at_rows = at_one = 0.0
    for op, times in _counted(model, rows):
        if isinstance(op, Gemm) and _is_own(op, model):
            moved = times * model.bytes_of(op.dtype) * (op.m * (op.n + op.k) + op.n * op.k)
            at_rows += moved if op.m == rows else 0.0
            at_one += moved if op.m != rows else 0.0
    return at_rows, at_one


def _gap_a_layer(own: Sequence[TimedModel], under: HardwareProfile) -> float:
    """Seconds a layer with which one bandwidth explains the step of a target and of a draft in one format; else 0."""
    for one, other in pairwise(sorted(own, key=lambda each: -each.file_bytes)):
        if one.dtype != other.dtype:
            continue
        (left, of), (right, to) = (
            (each.steps[1] - _rest_s(each, 1, under), _moved(each, 1)[0]) for each in (one, other)
        )
        determinant = other.card.layers * of - one.card.layers * to
        if determinant > 0.0:
            most = (1.0 - _LEAST_SHARE) * right / other.card.layers
            return min(max(0.0, (right * of - left * to) / determinant), max(0.0, most))
    return 0.0


def _products(alike: Sequence[TimedModel], under: HardwareProfile, per_layer_s: float) -> GemmModel:
    """Products with weights in one format: what the largest model's passes leave for them, at each number of rows."""
    model = max(alike, key=lambda each: each.file_bytes)
    seconds: dict[int, float] = {}
    for rows, whole_s in sorted(model.steps.items()):
        left_s = whole_s - _rest_s(model, rows, under) - model.card.layers * per_layer_s
        at_rows, at_one = _moved(model, rows)
        left_s -= at_one * seconds.get(1, 0.0)
        seconds[rows] = max(left_s, _LEAST_SHARE * whole_s) / at_rows  # of a byte
    timed = sorted(seconds)
    matrices = {(op.n, op.k) for each in alike for op, _ in _counted(each, 1) if isinstance(op, Gemm)}
    sizes = [float(n * k) for n, k in matrices]
    report = FitReport(
        rows_fitted=len(timed),
        rows_held_out=max(0, len(timed) - 2),
        median_error=_between(seconds),
        p95_error=_between(seconds, 95.0),
        log_sd=math.hypot(SERVED_LOG_SD, model.spread),
        coefficients=len(timed),
    )
    shares = _by_weights(alike, under, per_layer_s, seconds[1], report.log_sd)
    segments = [
        GemmSegment(
            roofline=Roofline(launch_s=0.0, bandwidth=1.0 / seconds[each], peak_flops=_NO_PEAK),
            report=report,
            by_weights=shares,
        )
        for each in timed
    ]
    if len(timed) > 1:
        segments[-1] = segments[-1].changed(roofline=_beyond(seconds, model.weight_bytes))
    return GemmModel(
        source=SOURCE,
        domain={"m": (1.0, float(timed[-1]))} | {"nk": (min(sizes), max(sizes))},
        report=report,
        element_bytes=model.weight_bytes,
        segments=tuple(segments),
        blends=tuple((float(a), float(b)) for a, b in pairwise(timed)),
        matrices=tuple(sorted(matrices)),
    )


def _beyond(seconds: Mapping[int, float], weight_bytes: float) -> Roofline:
    """The last rows' time, growing beyond them as it did before: bytes of weights, and the work of a row."""
    before, last = sorted(seconds)[-2:]
    slope = max((seconds[last] - seconds[before]) / (last - before), 0.1 * seconds[last] / last)  # a byte and row
    return Roofline(
        launch_s=0.0,
        bandwidth=1.0 / max(seconds[last] - slope * last, 1e-3 * seconds[last]),
        peak_flops=2.0 / (slope * weight_bytes),
        sharpness=1.0,
    )


def _between(seconds: Mapping[int, float], percentile: float = 50.0) -> float:
    """Held-out error: each number of rows by those beside it, in the logarithms."""
    rows = sorted(seconds)
    logs = {each: math.log(seconds[each]) for each in rows}
    errors = [
        abs(math.expm1(float(np.interp(math.log(each), np.log([a, b]), [logs[a], logs[b]])) - logs[each]))
        for a, each, b in zip(rows, rows[1:], rows[2:], strict=False)
    ]
    return float(np.percentile(errors, percentile)) if errors else 0.0


def _by_weights(
    alike: Sequence[TimedModel], under: HardwareProfile, per_layer_s: float, second_a_byte: float, log_sd: float
) -> tuple[tuple[float, float], ...]:
    """Log-sds of the matrices of smaller models, where the largest one's bandwidth misses their step."""
    shares = []
    largest = max(alike, key=lambda each: each.file_bytes)
    for each in sorted(alike, key=lambda each: each.file_bytes):
        if each is largest:
            continue
        priced_s = _rest_s(each, 1, under) + each.card.layers * per_layer_s + _moved(each, 1)[0] * second_a_byte
        off = abs(math.log(priced_s / each.steps[1]))
        most = max(op.n * op.k for op, _ in _counted(each, 1) if isinstance(op, Gemm) and _is_own(op, each))
        shares.append((float(most), math.hypot(log_sd, off)))
    return tuple(shares)
