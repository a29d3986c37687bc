"""Every operation of a round's passes against the roofs of its device (Williams et al., Roofline, 2009).

The roofs are the datasheet's: arithmetic of the dtype (of quantised weights, where the device has it), memory
bandwidth. The times are the profile's, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ssdsim import strategies
from ssdsim.base.errors import CannotRun
from ssdsim.base.option import Group
from ssdsim.base.plain import plain
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.pricing.passes import kernel_factor
from ssdsim.pricing.step import Pass, Step
from ssdsim.question.drafting import drafter_by_options
from ssdsim.question.option_usage import check_owners
from ssdsim.question.options import ALL, members, refuse_others
from ssdsim.question.price import price
from ssdsim.question.question import Question
from ssdsim.question.spellings import any_spelling
from ssdsim.strategies import drafters
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import ExpertMlp, Operation

if TYPE_CHECKING:
    import pandas as pd

    from ssdsim.question.typed_options import Options

COLUMNS = (
    "pass", "times", "device", "operation", "kind", "shape", "count", "flops", "bytes", "intensity", "seconds",
    "roof_s", "memory_s", "flops_per_second", "bytes_per_second", "share_of_roof", "above_roof", "bound",
    "share_of_pass",
)  # fmt: skip
_EXPERTS = ExpertMlp.__name__.lower()
BOUNDS = ("memory", "compute", "latency", "communication", "fixed")
LATENCY_SHARE = 0.5  # of a roof: below it, and with a launch floor above the roof's time, an operation waits, not works


@any_spelling
def roofline(**options: Unpack[Options]) -> pd.DataFrame:
    """Every operation of the passes of a round, against its device's roofs.

    Parameters
    ----------
    options : those of :func:`accepted_options`, as :func:`ssdsim.configure` takes them; ``strategies`` names whose
        rounds.

    Returns
    -------
    DataFrame with a row an operation of each pass: ``decode`` (the target over b tokens), ``verify`` (over b (K+1)),
    ``draft step``, and pre-speculation's ``glue`` and ``branch step``; a round has ``times`` of them. ``shape`` is
    m x n x k of a GEMM, sequences x queries over the context of attention, else the bytes. ``flops``, ``bytes``
    and ``seconds`` are of one run on one device, ``count`` its runs in the pass; ``intensity`` is flops a byte;
    ``roof_s`` what the device's roofs allow at best, ``memory_s`` what its memory alone does; ``share_of_roof`` is
    ``roof_s / seconds``; ``share_of_pass`` is ``count * seconds`` over the pass's cost. The row ``fixed`` is the
    profile's cost a layer and a pass that belongs to no operation, so that the shares of a pass sum to 1.
    ``attrs["warnings"]`` lists extrapolations, and why a strategy, whose passes then are not there, has no room.

    ``bound`` says what holds an operation back:

    * ``memory``, ``compute``: the roof that takes longer;
    * ``latency``: the roof explains less than half of the time, and the launch floor is longer than the roof's time;
    * ``communication``: a collective, whose roof is a ring over the profile's link (``2 (n-1) / n`` of the message
      for an all-reduce, ``(n-1) / n`` for an all-gather): small messages stay far below it, by their latency, and
      where a device has several links (a V100 of a cube mesh has six) large ones beat the one of a pair;
    * ``fixed``: no operation at all.

    ``above_roof`` marks timings that beat the datasheet: activations that stay in the cache (an H100's holds 50 MB),
    counted as if they went to memory and back, or collectives over several links. Weights, keys and values come from
    memory in every pass, so no timing beats these nor the arithmetic
    (:meth:`ssdsim.hardware.timing.Law.least_s`).

    Raises
    ------
    InputError : an option that has no part here, or a placement that does not fit.

    >>> from ssdsim import roofline
    >>> frame = roofline(b=1)
    >>> frame[frame["pass"] == "verify"].set_index("operation").bound["gate_up"]
    'memory'
    """
    refuse_others("roofline", options, accepted_options())
    check_owners(options)
    drafter = drafters.ALL.named(drafter_by_options(options))
    asked = Question.of(options if drafter.needs_target else {**options, "sd_draft": "separate"})
    assert asked.site is not None  # only --t-sd reads no hardware
    rounds, refused = [], []
    for name in asked.contestants.names:
        try:
            # a pass is held against its own devices: whether those of the other model are in the same node does not
            # matter
            settings, strategy = asked.settings.copy(), strategies.ALL.named(name)
            rounds.append(price(settings, strategy, asked.site, drafter, together=False).steps)
        except CannotRun as error:
            refused.append(error)
    if not rounds:
        raise refused[-1]
    frame = of_steps(rounds)
    frame.attrs["warnings"] += [str(error) for error in refused]
    return frame


def accepted_options() -> tuple[str, ...]:
    """The options that passes may read: strategies, drafter, batch, K, hardware, and strategies' and drafters' own."""
    own = [option.name for owner in (*strategies.ALL, *drafters.ALL) for option in owner.options]
    # what is accepted shapes no pass, how outcomes are spread no more than their number; a fallback without a model is
    # none; and SD's draft is priced by itself
    idle = {*members(Group.ACCEPTANCE), *members(Group.CACHE_SHAPE), "backup", "backup_ms", "sd_draft"}
    names = ("strategies", "drafter", "b", "k", *members(Group.HARDWARE), *own)
    return tuple(name for name in ALL if name in names and name not in idle)


def of_steps(rounds: Iterable[Mapping[str, Step]]) -> pd.DataFrame:
    """:func:`roofline` of the rounds' steps; a pass that several rounds have stands there once."""
    import pandas as pd

    passes: dict[tuple[str, ForwardPass], tuple[Pass, float]] = {}
    for piece in (piece for steps in rounds for step in steps.values() for piece in step.pieces):
        if isinstance(piece.work, Pass):
            passes.setdefault((piece.work.name, piece.work.forward), (piece.work, piece.times))
    rows = [row for work, times in passes.values() for row in _rows(work, times)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    warnings = [work.cost.warnings for work, _ in passes.values()]
    frame.attrs["warnings"] = sorted(frozenset().union(*warnings))
    return frame


def _rows(work: Pass, times: float) -> Iterator[dict[str, Any]]:
    profile, total_s = work.priced_on, work.cost.seconds
    of_pass = {"pass": work.name, "times": times, "device": profile.name}
    operations_s = 0.0
    for op, count in work.forward.counted:
        row = _against_roofs(op, profile, work.runtime)
        operations_s += count * row["seconds"]
        yield of_pass | {"count": count, "share_of_pass": count * row["seconds"] / total_s} | row
    fixed_s = total_s - operations_s
    yield of_pass | {
        "operation": "fixed", "kind": "fixed", "shape": "", "count": 1,
        "flops": 0.0, "bytes": 0.0, "seconds": fixed_s, "memory_s": 0.0, "above_roof": False, "bound": "fixed",
        "share_of_pass": fixed_s / total_s,
    }  # fmt: skip


def _against_roofs(op: Operation, profile: HardwareProfile, runtime: Runtime) -> dict[str, Any]:
    alone_s = profile.seconds(op).seconds
    seconds = alone_s * kernel_factor(op, alone_s, profile, runtime.kernels)
    memory_s, roof_s = profile.device.memory_s(op), profile.law(op).floor_s(op)
    return {
        "operation": op.name,
        "kind": op.kernel,
        "shape": op.shape,
        "flops": op.flops,
        "bytes": op.bytes,
        "intensity": op.flops / op.bytes,
        "seconds": seconds,
        "roof_s": roof_s or None,
        "memory_s": memory_s,
        "flops_per_second": op.flops / seconds,
        "bytes_per_second": op.bytes / seconds,
        "share_of_roof": roof_s / seconds if roof_s else None,
        "above_roof": roof_s > seconds,
        "bound": _bound(op, seconds, roof_s, profile),
    }


def _bound(op: Operation, seconds: float, roof_s: float, profile: HardwareProfile) -> str:
    if op.family == "communication":
        return "communication"
    if roof_s < LATENCY_SHARE * seconds and profile.launch_seconds(op) > roof_s:
        return "latency"
    return "compute" if profile.device.compute_s(op) > profile.device.memory_s(op) else "memory"


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a pass, in order, of a frame of :func:`roofline`.

    ``seconds`` of the pass; ``expert_bytes_share``, the share of its bytes that are routed experts;
    ``streaming_share``, the share of it that its bytes alone take at the memory's bandwidth;
    and the shares of the operations by what binds them: ``memory_share``, ``compute_share``, ``latency_share``,
    ``communication_share``, ``fixed_share``, which sum to 1.
    """
    import pandas as pd

    rows = []
    for name, of_pass in frame.groupby("pass", sort=False):
        total_s = (of_pass["count"] * of_pass["seconds"]).sum()
        by_bound = of_pass.groupby("bound")["share_of_pass"].sum()
        streaming = (of_pass["count"] * of_pass["memory_s"]).sum() / total_s
        shares = {f"{bound}_share": by_bound.get(bound, 0.0) for bound in BOUNDS}
        moved = of_pass["count"] * of_pass["bytes"] * (of_pass["bound"] != "communication")
        rows.append(
            {
                "pass": name,
                "times": of_pass["times"].iloc[0],
                "seconds": total_s,
                "expert_bytes_share": float(moved[of_pass["kind"] == _EXPERTS].sum() / moved.sum()),
                "streaming_share": min(1.0, streaming),
            }
            | shares
        )
    return pd.DataFrame(rows)


def as_json(frame: pd.DataFrame) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim roofline --json`` (schema 2); null if a number does not apply."""
    return {
        "schema": 2,
        "passes": plain(summarise(frame).to_dict("records")),
        "operations": plain(frame.to_dict("records")),
        "warnings": frame.attrs["warnings"],
    }
