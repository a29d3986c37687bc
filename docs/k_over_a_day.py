"""Does K that follows the load beat the best K for good? Each policy of K over an invented day, repeated.

Run: python docs/k_over_a_day.py > docs/k_over_a_day.md   (about a minute of a core)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibration.validation.comparison import interval
from ssdsim.advise.schedule import schedule
from ssdsim.base.checks import Array
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.serving.batching import EMA, THROUGHPUT, THROUGHPUT_AWARE, Batching
from ssdsim.serving.metrics import metrics_of_requests
from ssdsim.serving.policies import AUTO, policies
from ssdsim.serving.policy import Policy
from ssdsim.serving.replica import simulate
from ssdsim.serving.workload import Lengths, Workload, synthetic

PAIR: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "drafter": "eagle3", "engine": "sglang"}
PAIR |= {"sd_draft": "colocated"}
MOST_K, CONTEXT = 7, 612
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
INPUT, OUTPUT = Lengths.parse("lognormal:512,400", "input"), Lengths.parse("lognormal:200,150", "output")
DAY_S = 120.0
DAYS = {"a day below capacity": (3.0, 30.0), "a day with a rush": (3.0, 45.0)}
"""Requests a second at night, and at the busiest hour; SD with K 5 is saturated from 37."""
SEEDS = range(8)
ANSWER = """\
**Little, for a dense 8B model with EAGLE-3 on one H100, if the load is known.** Below capacity a table of the best K by
batch and the table of the most tokens a second are as fast as the best fixed K, which is 5: it is nearly the best at
any batch that occurs. In a rush the best fixed K is 3. The most tokens a second take as long to the last token as it
does, and 13 % less than K 5. That is what a table is worth to those who do not know the load.

SGLang's tiers take 2.3 and 2.2 times as long. They do not know what a token costs, and draft one token or none for more
than 30 sequences, where drafting still pays here. Requests then take longer, so more of them run, so K stays at 0.

SGLang's scores know what a round costs. They come within 1 % of K 5 below capacity, and of K 3 in the rush."""
HEADING = """# K over a day

For people who choose between a fixed K and one that follows the load. This page says what each policy of
`serve --k-table` gains over the best fixed K, with its interval.

{answer}

The days are invented. Requests a second follow a cosine, quietest at 3 and busiest at 15 o'clock. The 24 hours pass in
{day_s:g} seconds, and a request takes one to five. Prompts have 512 tokens (SD 400), answers 200 (SD 150), lognormal.
Acceptance by position is published (eagle3-llama-3.1-8b on MT-Bench). Prices are those of the profile `h100-sxm` and of
the runtime `sglang`. K 0 of a policy pays a pass of the draft; K 0 for good is AR.

Each policy meets the same requests as each fixed K from 0 to {most_k}. The difference is of the means over requests,
with the 95 % interval of {count} days, paired by their seeds. The best fixed K is the best of the same days, which
favours it a little. SGLang processes prompts first, in passes of their own, and the others wait. The time to the last
token judges. `docs/k_over_a_day.py` makes the tables, in about a minute of a core.
"""


METRICS = {"e2el": ("s to the last token", 1e-3), "tpot": ("ms a token", 1.0)}


@dataclass(frozen=True)
class Seen:
    """Means over the requests of each day, by metric, in its unit; and the share of the time of each K."""

    means: Mapping[str, Array]
    shares: Mapping[str, float]


def rate(hour: Array, night: float, busiest: float) -> Array:
    """Requests a second."""
    return night + (busiest - night) * (0.5 - 0.5 * np.cos(2.0 * np.pi * (hour - 3.0) / 24.0))


def day(seed: int, night: float, busiest: float) -> Workload:
    """A Poisson process with that rate, by the times at which as many have come as of a process of rate 1."""
    hours = np.linspace(0.0, 24.0, 2401)
    each = rate(hours, night, busiest)
    came = np.concatenate([[0.0], np.cumsum((each[1:] + each[:-1]) / 2.0 * np.diff(hours))]) * DAY_S / 24.0
    unit = synthetic(int(1.5 * came[-1]), 1.0, INPUT, OUTPUT, seed=seed)
    arrival_s = np.interp(unit.arrival_s, came, hours * DAY_S / 24.0, right=np.inf)
    count = int(np.isfinite(arrival_s).sum())
    columns = (arrival_s, unit.input_tokens, unit.output_tokens, unit.kind)
    return Workload(*(column[:count] for column in columns), source="an invented day")


def batching_of(**options: Any) -> Batching:
    """With prompts as the engine takes them."""
    return Batching(**options).as_engine(find_runtime(PAIR["engine"]))[0]


def policies_of_k(like: Workload) -> tuple[dict[str, tuple[Policy, Batching]], dict[int, Policy]]:
    """Each policy with its name, and each K for good."""
    best = schedule(b=BATCHES, k=[1, 3, 5, 7], context=CONTEXT, **{**PAIR, "strategies": "sd"}).cells
    firsts = [1, *(batch + 1 for batch in BATCHES)]
    table = [[first, cell.b, cell.settings["k"]] for first, cell in zip(firsts, best, strict=False)]
    says = {
        "a table of the best K by batch": table,
        "the most tokens a second": THROUGHPUT,
        "SGLang's tiers": EMA,
        "SGLang's scores": THROUGHPUT_AWARE,
    }
    made = {}
    for name, word in says.items():
        batching = batching_of(k_table=word)
        made[name] = policies({**PAIR, "strategies": "sd", "k": MOST_K}, like, batching).by_name[AUTO], batching
    every = batching_of(k_table=[[k + 1, k + 1, k] for k in range(MOST_K + 1)])
    return made, dict(policies({**PAIR, "strategies": "sd"}, like, every).fixed_k)


def seen(policy: Policy, batching: Batching, days: Sequence[Workload]) -> Seen:
    """Every day under a policy."""
    means: dict[str, list[float]] = {metric: [] for metric in METRICS}
    seconds = np.zeros(len(policy.variants))
    for number, requests in enumerate(days):
        run = simulate(policy, requests, batching, seed=number)
        each = metrics_of_requests(run)
        for metric, (_, unit) in METRICS.items():
            means[metric].append(unit * float(np.nanmean(each[metric])))
        seconds += np.bincount(run.columns[5].astype(int), weights=run.round_s, minlength=seconds.size)
    shares = {variant.label: share for variant, share in zip(policy.variants, seconds / seconds.sum(), strict=True)}
    return Seen({metric: np.array(values) for metric, values in means.items()}, shares)


def beside(metric: str, by_policy: Seen, alone: Mapping[int, Seen]) -> str:
    """Cells: the policy's mean, the best fixed K with its own, and the difference with its interval."""
    k = min(alone, key=lambda each: float(alone[each].means[metric].mean()))
    own, best = by_policy.means[metric], alone[k].means[metric]
    difference = interval((own - best).tolist())
    within = f"{signed(difference.value)} ({signed(difference.low)} to {signed(difference.high)})"
    return f"{own.mean():.2f} | K {k}: {best.mean():.2f} | {within}"


def signed(number: float) -> str:
    """Without the sign of a zero that was rounded."""
    return f"{round(number, 2) + 0.0:+.2f}"


def table(days: Sequence[Workload]) -> Iterator[str]:
    """A line a policy, and a line of all fixed Ks."""
    by_policy, fixed = policies_of_k(days[0])
    alone = {k: seen(policy, batching_of(), days) for k, policy in fixed.items()}
    units = [f"{unit} | best fixed K | difference (95 %)" for unit, _ in METRICS.values()]
    yield f"| K by | {' | '.join(units)} | Ks of the time |"
    yield "|---" * (2 + 3 * len(METRICS)) + "|"
    for what, (policy, batching) in by_policy.items():
        own = seen(policy, batching, days)
        shares = [f"{label.removeprefix('SD ')} {share:.0%}" for label, share in own.shares.items() if share >= 0.005]
        yield f"| {what} | {' | '.join(beside(metric, own, alone) for metric in METRICS)} | {', '.join(shares)} |"
    yield ""
    for metric, (unit, _) in METRICS.items():
        each = ", ".join(f"K {k} {of.means[metric].mean():.2f}" for k, of in alone.items())
        yield f"Fixed Ks, {unit}: {each}.\n"


def main() -> None:
    print(HEADING.format(answer=ANSWER, day_s=DAY_S, most_k=MOST_K, count=len(SEEDS)))
    for name, (night, busiest) in DAYS.items():
        print(f"## {name.capitalize()}: {night:g} to {busiest:g} requests/s\n")
        for line in table([day(seed, night, busiest) for seed in SEEDS]):
            print(line)


if __name__ == "__main__":
    main()
