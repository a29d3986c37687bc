"""Does a calibration fit? What each rank allocates, against the memory that is free, before anything starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from calibration.machine.graph_memory import FLOAT32_BYTES, POOL_BYTES, attention_bytes, graph_memory
from calibration.timings.plan import OPERATIONS, CalibrationWorkload, TimingPoint, plan
from ssdsim.base.errors import InputError
from ssdsim.base.free_memory import free_memory_bytes
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import DTYPE_BYTES, Attention

# torch itself; on a GPU the kernels that load when first used, the workspace of GEMMs, NCCL's buffers
_OTHER_BYTES = {"cpu": 600 << 20, "cuda": 1 << 30}


def rank_bytes(workload: CalibrationWorkload, rank: int, ranks: int, kind: str) -> int:
    """Most bytes that a rank holds at once.

    That is its models with their caches and buffers, on the first rank the pool that operations stream from, and
    beside them one benchmark's own tensors or a tensor that is being made.
    """
    w, pool = workload, POOL_BYTES[kind] if rank == 0 else 0
    models: list[list[tuple[str, ForwardPass]]] = []
    if rank < w.tp:
        models.append(w.target_passes())
    if rank == ranks - 1:
        models.append(w.draft_passes())
    graphs = [graph_memory([one for _, one in passes], w.batch, w.context, w.dtype) for passes in models if passes]
    points = [point for point in plan(w, ranks) if rank == 0 or point.benchmark not in OPERATIONS]
    passing = [graph.passing_bytes for graph in graphs] + [benchmark_bytes(point, w.dtype, kind) for point in points]
    return _OTHER_BYTES[kind] + pool + sum(graph.held_bytes for graph in graphs) + max(passing)


def benchmark_bytes(point: TimingPoint, dtype: str, kind: str) -> int:
    """Bytes of the tensors that a benchmark makes for itself, beside the pool and the models."""
    value, given = DTYPE_BYTES[dtype], dict(point.parameters)
    match point.benchmark:
        case "gemm":  # itself, and on a core the one before it
            m, (n, k) = given["m"], given["after"] if kind == "cpu" else (0, 0)
            return _gemm_bytes(m, given["n"], given["k"], value, kind) + _gemm_bytes(m, n, k, value, kind)
        case "attention":
            op = Attention("attention", **given)
            tokens, inner = op.batch * op.queries, op.heads * op.head_dim
            width = inner + 2 * op.kv_heads * op.head_dim
            caches = 2 * _copied_bytes(value * op.batch * op.kv_heads * op.context * op.head_dim, kind)
            mask = value * op.queries * op.heads // op.kv_heads * op.context if op.masked else 0
            projection = _gemm_bytes(tokens, width, inner, value, kind) if kind == "cpu" else 0
            return (FLOAT32_BYTES + value) * tokens * width + caches + mask + projection + attention_bytes(op)
        case "elementwise":
            return int(given["moved_bytes"])
        case "experts":  # inputs and outputs, what an expert makes of its tokens, and weights beyond the pool
            tokens, (count, hidden), width = given["batch"] * given["queries"], given["after"], given["width"]
            weights = sum(_copied_bytes(value * count * part * width * hidden, kind) for part in (2, 1))
            return int((FLOAT32_BYTES + 3 * value) * tokens * hidden + 4 * value * tokens * width + weights)
        case _:  # a message there and back, or what a collective reads and writes; passes are the models'
            return 2 * int(given.get("message_bytes", 0))


def _gemm_bytes(m: int, n: int, k: int, value: int, kind: str) -> int:
    """Inputs, drawn as float32 and converted, outputs, and the weights where they are no view of the pool."""
    return FLOAT32_BYTES * m * k + value * (m * k + m * n) + _copied_bytes(value * n * k, kind)


def _copied_bytes(streamed_bytes: int, kind: str) -> int:
    """Whole pools put together, for what is larger than the pool."""
    pool = POOL_BYTES[kind]
    return -(-streamed_bytes // pool) * pool if streamed_bytes > pool else 0


def check_memory(workload: CalibrationWorkload, devices: Sequence[str]) -> None:
    """Raise :class:`InputError` where the ranks need more than their devices have free."""
    from calibration.machine.inventory import gpus  # here, because a plan needs no torch

    needs: dict[str, int] = defaultdict(int)
    for rank, device in enumerate(devices):
        kind = device.split(":")[0]
        needs["cpu" if kind == "cpu" else device] += rank_bytes(workload, rank, len(devices), kind)
    gpus_here = gpus(devices)
    for device, need in needs.items():
        free = gpus_here[device].free_bytes if device in gpus_here else free_memory_bytes()
        if need > free:
            raise InputError(
                f"{workload.target.name} with {workload.draft.name} needs {need / 2**30:.1f} GiB on {device}, "
                f"{free / 2**30:.1f} GiB are free; give smaller cards (--target transformer-shaped-1536x4) or more GPUs"
            )
