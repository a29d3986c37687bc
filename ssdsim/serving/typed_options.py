"""The options of ``serve`` as types, for editors and mypy.

Made by ``python -m site_generator.typed_options`` from the records; change those.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ssdsim.base.progress import Progress
from ssdsim.question.typed_options import SharedOptions
from ssdsim.serving.batching import FirstSpeculation, Prefill
from ssdsim.serving.effort import ServeEngine
from ssdsim.serving.k_table import KTable
from ssdsim.serving.lengths import Lengths
from ssdsim.serving.replicas import Router
from ssdsim.serving.slo import Slo
from ssdsim.serving.workload import Workload


class ServeOptions(SharedOptions, total=False):
    """Options of ``serve``: requests, who serves them, batches, what is good, who works; and a scenario."""

    rate: float | Sequence[float]
    """requests a second; a list or range sweeps; inf: all at once"""
    concurrency: int
    """requests in flight at any time, in place of a rate"""
    input_len: Lengths | str | int
    """tokens of prompts: N, lognormal:MEAN,SD, ... [default: 1024]"""
    output_len: Lengths | str | int
    """tokens of answers, likewise [default: 256]"""
    requests: int
    """how many come [default: 2000]"""
    seconds: float
    """how long they come, in place of --requests"""
    burstiness: float
    """shape of the gamma law of gaps: 1 Poisson, less comes in bursts [default: 1.0]"""
    ramp_up: str
    """the rate grows while they come"""
    workload: Path | str | Workload
    """a log: Azure, BurstGPT, Mooncake, vLLM, ... or CSV"""
    scale_rate: float
    """the log's time, compressed by a factor [default: 1.0]"""
    slice: str | tuple[float, float]
    """seconds of the log: 0:3600"""
    limit: int
    """requests of the log"""
    tokenizer: Path | str
    """tokenizer.json that counts ShareGPT's tokens"""
    replicas: int
    """of each strategy, that share the requests [default: 1]"""
    router: Router
    """round-robin or least-loaded [default: round-robin]"""
    draft_pool: int
    """that draft for all replicas together [default: one each]"""
    prefill: Prefill
    """chunked, priority or none (elsewhere) [default: chunked]"""
    token_budget: int
    """tokens that a pass has room for [default: 2048]"""
    prefill_ms: float
    """what prefill elsewhere takes [default: 0.0]"""
    max_batch: int
    """requests held at once [default: 256]"""
    kv_fraction: float
    """of memory, for weights and caches [default: 0.9]"""
    block: int
    """tokens of a cache block [default: 16]"""
    first_speculation: FirstSpeculation
    """miss, or prefill: guessed meanwhile [default: miss]"""
    dynamic_tax: float
    """share by which a schedule's rounds are longer [default: 0.0]"""
    hold: int
    """rounds before a schedule switches [default: 1]"""
    k_table: KTable | str | Sequence[Sequence[int]]
    """SD's K by the requests: 1-4:5,5-:0, vLLM's list, throughput, or SGLang's ema or throughput-aware"""
    slo: Slo | str
    """what a good request keeps, in ms or with units: ttft:500,tpot:20,e2el:10s,queue:100"""
    capacity: bool
    """the highest rate at which enough requests keep the --slo"""
    attainment: float
    """how many are enough, as a share [default: 0.9]"""
    engine: ServeEngine
    """closed: the closed form alone [default: auto]"""
    precision: float
    """more requests until the mean TPOT is known to it at 95 %: 0.02"""
    seed: int
    jobs: int
    """processes on this machine; -1: one a core [default: 1]"""
    cluster: str
    """a Dask scheduler, whose workers do the work"""
    progress: Progress
