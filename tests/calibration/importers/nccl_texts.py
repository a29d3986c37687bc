"""Small texts in the layouts of nccl-tests' versions, launchers and logs, made from a known law."""

from __future__ import annotations

LATENCY_US, BYTES_PER_US = 30.0, 50_000.0  # 50 GB/s
SIZES = tuple(2**power for power in range(10, 29, 2))
GPU = "Tesla V100-SXM2-16GB"
OLD_SETTINGS = (
    "# nThread 1 nGpus {ranks} minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1"
)
NEW_SETTINGS = OLD_SETTINGS + " graph: {graph}"


def time_us(size: float) -> float:
    return LATENCY_US + size / BYTES_PER_US


def devices(ranks: int, gpu: str = GPU, hosts: int = 1, processes: int = 1, group: str = "") -> list[str]:
    return [
        f"#   Rank {rank:2d} {group}Pid {700 + rank * processes // ranks:6d} on node{rank * hosts // ranks:02d} "
        f"device {rank:2d} [0x{rank:02x}] {gpu}"
        for rank in range(ranks)
    ]


def half(size: float, share: float, check: str, factor: float = 1.0) -> str:
    """Time, rates and check of one of the two groups."""
    taken = factor * time_us(size)
    rate = 1e-3 * size / taken
    return f"{taken:8.2f} {rate:7.2f} {share * rate:7.2f} {check:>6}"


def rows(columns: str, check: str, share: float, groups: int = 2) -> list[str]:
    halves = [[half(size, share, check, 1.0 + 2.0 * group) for group in range(groups)] for size in SIZES]
    return [
        f"{size:12d} {size // 4:13d}   float {columns} {'  '.join(each)}"
        for size, each in zip(SIZES, halves, strict=True)
    ]


def old(ranks: int = 8, rooted: bool = False, **kind: object) -> list[str]:
    """The layout until 2021: a column ``error``, no ``root`` but for rooted tests, the test not named."""
    group = "time   algbw   busbw  error"
    header = f"#       size         count    type   redop {'   root ' if rooted else ''}    {group}     {group}"
    columns = "sum 0" if rooted else "sum"
    return [
        OLD_SETTINGS.format(ranks=ranks),
        "#",
        "# Using devices",
        *devices(ranks, **kind),  # type: ignore[arg-type]
        "#                                                     out-of-place                       in-place",
        header,
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
        *rows(columns, "2e-07", all_reduce_share(ranks)),
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 25.9598",
    ]


def new(ranks: int = 8, test: str = "all_reduce", graph: int = 0, check: str = "0", **kind: object) -> list[str]:
    """The layout since 2021: ``#wrong``, a ``root`` always, graphs said, the test named."""
    share, columns = (all_reduce_share(ranks), "sum -1") if test == "all_reduce" else ((ranks - 1) / ranks, "none -1")
    share = 1.0 if test == "sendrecv" else share
    return [
        f"# Collective test starting: {test}_perf",
        NEW_SETTINGS.format(ranks=ranks, graph=graph),
        "#",
        "# Using devices",
        *devices(ranks, group="Group  0 ", **kind),  # type: ignore[arg-type]
        "#",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        "     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
        *rows(columns, check, share),
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 33.1",
        "#",
        f"# Collective test concluded: {test}_perf",
    ]


def one_group(ranks: int = 2) -> list[str]:
    """As an author shortened it: one timing group, no ``root``, no settings."""
    return [
        "# nccl-tests version 2.17.8",
        *devices(ranks, gpu="Tesla V100-PCIE-16GB"),
        "#       size         count    type   redop     time   algbw   busbw  #wrong",
        *rows("sum", "0", all_reduce_share(ranks), groups=1)[:6],
    ]


def more_columns(ranks: int = 8) -> list[str]:
    """Bitwise and per-iteration columns of newer versions, and a date after each row."""
    group = "time  algbw  busbw #wrong #bitdiff i_min i_max i_p99 i_cv%"
    extra = " 0 1.00 2.00 1.50 3.10 "
    table = [
        f"{size} {size // 4} bfloat16 sum -1 {half(size, all_reduce_share(ranks), '0')}{extra}"
        f"{half(size, 1.75, '0', 3.0)}{extra} 2026-11-02 12:00:01"
        for size in SIZES
    ]
    return [
        "# Collective test starting: all_reduce_perf",
        *devices(ranks),
        f"# size count type redop root {group} {group} timestamp",
        *table,
    ]


def all_reduce_share(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks
