"""What ``ssdsim plan --explain`` prints below the first screen: each load's numbers, batches, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from rich.console import Console

from ssdsim.answers.evidence import inputs_text
from ssdsim.base.intervals import Interval, Measured
from ssdsim.base.settings import DEFAULT, GIVEN
from ssdsim.cli.console import console, print_labelled, print_origins
from ssdsim.cli.render_plan import percent_text
from ssdsim.cli.tables import TextTable
from ssdsim.pricing.occupancy import format_count
from ssdsim.serving.answer import Pace, ServedLoad, Serving
from ssdsim.serving.batching import EMA, THROUGHPUT, THROUGHPUT_AWARE, KTable
from ssdsim.serving.degrees import SEARCHED
from ssdsim.serving.lookahead import KS
from ssdsim.serving.metrics import Metrics, Summary
from ssdsim.serving.policies import AUTO

_BARS = 12
_PREFILL: Mapping[str | None, str] = {
    "chunked": "in the passes that decode",
    "priority": "in passes of their own, for which decoding waits",
    "none": "elsewhere",
}
_SAYS_K = {
    THROUGHPUT: "the most tokens a second",
    EMA: "SGLang's tiers",
    THROUGHPUT_AWARE: "SGLang's scores",
}


def print_explanation(serving: Serving, gpu_hour: float | None) -> None:
    """Print from which rate on another strategy is faster, then the numbers of each load, then what they rest on."""
    out = console()
    if serving.plan is None:  # of fleets the first screen has said it
        out.print(serving.verdict.sentence, style="bold")
        out.print()
    print_labelled(out, "Full at         ", f"a replica: {'; '.join(_capacities(serving))}")
    fewer = {} if serving.plan is None else {name: need.fewer for name, need in serving.plan.needs.items()}
    kept = [f"{title(serving, name)} {share:.0%}" for name, share in fewer.items() if share is not None]
    if kept:
        print_labelled(out, "A replica less  ", f"keeps {', '.join(kept)} of requests within the SLO")
    for each in serving.unsupported.values():
        print_labelled(out, "Apart           ", each.sentence)
    if serving.how.slo is not None:
        print_labelled(out, "A good request  ", f"keeps {serving.how.slo.sentence}")
    if serving.within_slo:
        print_labelled(out, "Within the SLO  ", "; ".join(_within_slo(serving)))
    for point in serving.points:
        out.print()
        out.print(f"{_headline(point)}{'' if serving.plan is None else ', on the GPUs that each needs'}", style="bold")
        out.print(_runs(serving, point.metrics, gpu_hour) if point.metrics else _closed(serving, point))
        if serving.plan is None:
            _beside_fixed_k(out, point, serving.how.batching.says_k)
        _notes(out, point)
    if len(serving.points) == 1 and serving.points[0].metrics:
        out.print()
        _batches(out, serving, serving.points[0])
    _rests_on(out, serving)


def _capacities(serving: Serving) -> list[str]:
    """The rate of each policy from which on a replica's queue grows without end."""
    return [
        f"{title(serving, name)} {rate:.1f}{_bounds(interval)} requests/s"
        for name, (rate, interval) in serving.capacities.items()
    ]


def _within_slo(serving: Serving) -> list[str]:
    """The rate of each policy within the SLO, and what it is a GPU."""
    return [
        f"{title(serving, name)} {each.rate:.2f} ({each.low:.2f}-{each.high:.2f}) requests/s, "
        f"{each.rate / serving.policies.by_name[name].gpus:.2f} a GPU"
        for name, each in serving.within_slo.items()
    ]


def title(serving: Serving, name: str) -> str:
    """The name by which a person knows a policy."""
    return AUTO if name == AUTO else serving.policies.by_name[name].title


def _bounds(interval: Interval | None) -> str:
    return f" ({interval.low:.1f}-{interval.high:.1f})" if interval else ""


def _headline(point: ServedLoad) -> str:
    """``4 requests/s: 600 requests, input 1024, output 256``."""
    workload = point.workload
    load = f"{workload.concurrency} in flight" if point.rate is None else f"{point.rate:.3g} requests/s"
    if point.rate is None and workload.concurrency is None:
        load = "all at once"
    return f"{load}: {workload.requests} requests, {workload.source}"


def _runs(serving: Serving, measured: Mapping[str, Metrics], gpu_hour: float | None) -> TextTable:
    """The table of what was simulated at the load: a row a metric, a column a policy."""
    columns = ["GPUs", "requests done/s", "TTFT p50 ms", "TTFT p99 ms", "TPOT p50 ms", "TPOT p50 95 %", "TPOT p99 ms"]
    columns += ["ITL p99 ms", "tokens/s/GPU", "requests running"]
    goodput = serving.how.slo is not None
    columns += ["good/s", "in SLO"] if goodput else []
    columns += ["per 1M tok"] if gpu_hour is not None else []
    table = TextTable(("",), [*columns, "preempted"], turned=True)
    for name, metrics in measured.items():
        gpus, ran = serving.gpus(name) or 0.0, metrics.tokens_per_s / (metrics.tokens_per_s_per_gpu or np.inf)
        every = gpus / ran if ran else 1.0  # GPUs for one that ran
        ttft, tpot = metrics.of_requests["ttft"], metrics.of_requests["tpot"]
        cells = [
            format_count(gpus),
            f"{every * metrics.requests_per_s:.2f}" + ("*" if metrics.saturated else ""),
            _percentile(ttft, 50, "{:.0f}"),
            _percentile(ttft, 99, "{:.0f}"),
            _percentile(tpot, 50, "{:.2f}"),
            _interval(tpot, 50),
            _percentile(tpot, 99, "{:.2f}"),
            f"{metrics.itl_ms[99]:.1f}" if metrics.itl_ms else "-",
            f"{metrics.tokens_per_s_per_gpu:.0f}",
            f"{every * metrics.running:.1f}",
        ]
        if goodput:
            good = metrics.goodput
            cells += ["-", "-"] if good is None else [f"{every * good:.2f}", _attained(metrics)]
        cells += [f"{gpu_hour * metrics.gpu_hours_per_million_tokens:.3g}"] if gpu_hour is not None else []
        table.add_row(title(serving, name), *cells, f"{metrics.preemptions}")
    return table


def _attained(metrics: Metrics) -> str:
    return "-" if metrics.attainment is None else percent_text(metrics.attainment.value)


def _percentile(summary: Summary | None, percent: int, form: str) -> str:
    """A percentile of a time over the requests, written as ``form`` says; a dash where no request has that time."""
    return "-" if summary is None else form.format(summary.percentiles[percent].value)


def _interval(summary: Summary | None, percent: int) -> str:
    """The 95 % interval of a percentile; a dash where too few requests came to have one."""
    if summary is None or np.isnan(summary.percentiles[percent].low):
        return "-"
    percentile = summary.percentiles[percent]
    return f"{percentile.low:.2f}-{percentile.high:.2f}"


def _closed(serving: Serving, point: ServedLoad) -> TextTable:
    """The table where nothing was simulated: a row a policy, with the means of the closed form at the load."""
    table = TextTable(("",), ("GPUs", "TPOT ms", "TTFT ms", "waiting ms", "running"))
    for name, closed in point.closed.items():
        numbers = (1e3 * closed.tpot_s, 1e3 * closed.ttft_s, 1e3 * closed.queue_s, closed.running)
        cells = [f"{float(each):.2f}" if np.isfinite(each) else "full" for each in numbers]
        table.add_row(title(serving, name), format_count(serving.gpus(name) or 0.0), *cells)
    return table


def _beside_fixed_k(out: Console, point: ServedLoad, says_k: KTable | str | None) -> None:
    """Print the best of the Ks between which K moves, where it has run for good."""
    best, least_tpot = point.best_k_e2el, point.best_k
    if best is None or least_tpot is None:
        return
    by = _SAYS_K[says_k] if isinstance(says_k, str) else "the table"
    fixed = point.fixed_k
    said = f"the best K is {best}: {_pace(fixed[best])}" if _keeps_up(fixed[best]) else "no K keeps up"
    out.print(f"K by {by}: {_pace(point.switching)}; held fixed, {said}")
    if best != least_tpot:
        out.print(
            f"{_k(least_tpot)} has the least TPOT, and later first tokens: {_pace(fixed[least_tpot])}", style="dim"
        )


def _k(k: int) -> str:
    return "K 0, without a draft," if k == 0 else f"K {k}"


def _pace(pace: Pace) -> str:
    """``1.12 s (1.05-1.19) to the last token, TPOT 5.45 ms (5.31-5.59)``."""
    if not _keeps_up(pace):
        return "saturated"
    return f"{_mean(pace.e2el, 's', 1e-3)} to the last token, TPOT {_mean(pace.tpot, 'ms')}"


def _keeps_up(pace: Pace) -> bool:
    return bool(np.isfinite(pace.e2el.value))


def _mean(ms: Measured, unit: str, scale: float = 1.0) -> str:
    value, low, high = (scale * each for each in (ms.value, ms.low, ms.high))
    return f"{value:.2f} {unit}" + ("" if np.isnan(low) else f" ({low:.2f}-{high:.2f})")


def _notes(out: Console, point: ServedLoad) -> None:
    """Print what qualifies the table: how the log was read, full queues, few requests, requests without room."""
    measured = point.metrics
    for note in point.workload.notes:
        out.print(note, style="dim")
    if any(metrics.saturated for metrics in measured.values()):
        out.print("* full: its queue grows, so its times are those of this finite run", style="yellow")
    if any(s is not None and s.few for m in measured.values() for s in (m.of_requests["ttft"],)):
        out.print("fewer than 1,000 requests after the start: a p99 rests on fewer than ten of them", style="dim")
    rejected = {name: m.rejected for name, m in measured.items() if m.rejected}
    if rejected:
        said = ", ".join(f"{count} by {name}" for name, count in rejected.items())
        out.print(f"rejected, because no cache could hold them: {said}", style="yellow")


def _batches(out: Console, serving: Serving, point: ServedLoad) -> None:
    """Print how many decode together, as shares of the time, and what runs there where it follows them."""
    measured = point.metrics
    width = max((6, *(len(title(serving, name)) + 1 for name in measured)))
    for name, metrics in measured.items():
        counts = np.array(list(metrics.batch_histogram) or [0])
        shares = np.array(list(metrics.batch_histogram.values()) or [1.0])
        edges = np.unique(np.linspace(0, counts.max() + 1, _BARS + 1).astype(int))
        heights = [float(shares[(counts >= low) & (counts < high)].sum()) for low, high in pairwise(edges)]
        bars = "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * height / max(heights)))] for height in heights)
        clean = "" if metrics.clean_share is None else f", all hit in {metrics.clean_share:.1%} of rounds"
        forced = "" if not metrics.forced_share else f", {metrics.forced_share:.1%} of look-ups are of new requests"
        print_labelled(out, f"{title(serving, name):{width}}", f"0 {bars} {edges[-1] - 1} running{clean}{forced}")
    for name, metrics in measured.items():
        policy = point.served[name].policy
        if not (policy.is_schedule or policy.variants[0].follows_batch):
            continue
        shares_of = dict.fromkeys((variant.label for variant in policy.variants), 0.0)  # some read alike
        for variant, share in zip(policy.variants, metrics.variant_share, strict=True):
            shares_of[variant.label] += share
        used = ", ".join(f"{label} {share:.0%}" for label, share in shares_of.items() if share >= 0.005)
        print_labelled(out, f"{title(serving, name):{width}}", f"of the time: {used}")


def _searched(serving: Serving) -> str:
    """The Ks and degrees that were tried, and what a recommendation would vary besides."""
    settings, by_k, by_name = serving.policies.configuration.settings, serving.policies.by_k, serving.policies.by_name
    degrees = ["TP"] if settings.source("tp") == SEARCHED else []
    held = [f"TP {settings['tp']}"] if settings.source("tp") == DEFAULT else []
    ranked = [by_name[name].variants[0].scenario.strategy for name in by_k if name in by_name]
    ks = [f"K {', '.join(map(str, KS))}"] if ranked else []
    caching = any(strategy.miss_state for strategy in ranked)
    held += [f"fan-out F {settings['f']}"] if caching and settings.source("f") == DEFAULT else []
    beside = f"; {' and '.join(held)}: defaults, not searched (ssdsim recommend does)" if held else ""
    return f"{' and '.join(ks + degrees)}{beside}" if ks or degrees else ""


def _prompts(serving: Serving) -> str:
    """How prompts are processed, and why so."""
    why = "given" if serving.prefill_source == GIVEN else f"{serving.prefill_source} (--prefill)"
    return f"{_PREFILL[serving.how.batching.prefill]}: {why}"


def _rests_on(out: Console, serving: Serving) -> None:
    """Print what the numbers rest on: where timings and tokens come from, and who cannot run."""
    configuration = serving.policies.configuration
    out.print()
    if said := _searched(serving):
        print_labelled(out, "Searched ", said, "dim")
    print_labelled(out, "Prompts  ", _prompts(serving), "dim")
    for reason in configuration.refused.values():
        out.print(reason, style="yellow")
    print_origins(out, configuration.provenance, configuration.runtime, inputs_text(configuration.inputs))
    for crossing in serving.crossings[:1]:
        if crossing.interval is not None:
            out.print(
                "intervals of rates: 95 % from all that is not known; of times: 95 % of a run as long", style="dim"
            )
