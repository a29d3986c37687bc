"""The SSD paper's printed speeds and ratios, each with its command, what that predicts, and whether it is inside.

python docs/paper.py       (writes paper.md; seconds)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from calibration.runtimes.fit import fit_runtime
from calibration.validation.paper import (
    PublishedFamily,
    PublishedSpeeds,
    Sweep,
    TreeSweep,
    load_paper,
    replay_families,
)
from ssdsim import predict
from ssdsim.answers.predict import Prediction
from ssdsim.base.checks import Array
from ssdsim.base.intervals import bounds_95, median
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, save_runtime
from ssdsim.readers.row import Row
from ssdsim.rounds.round import Estimate
from ssdsim.tokens.acceptance import expected_tokens, rate_of
from ssdsim.tokens.acceptance_models import ACCEPTANCE

PAGE = Path(__file__).with_name("paper.md")
_LOADED = load_paper("kumar2026")
assert isinstance(_LOADED, PublishedSpeeds)
PAPER = _LOADED
HARDWARE = "h100-sxm"
CARDS = {"llama-3.1-70b": "kumar2026-llama", "qwen3-32b": "kumar2026-qwen"}
HEAD = "kumar2026-eagle3"
BUNDLED = {"sglang-0.5.9": "sglang", "vllm-0.16.0": "vllm-0.16"}
HOST = "host.toml"
"""SGLang's card as fitted to the paper's chains, in the commands of the page."""

FITTED = ("per_round_s", "per_draft_step_s")


@dataclass(frozen=True)
class Drawn:
    """A speed or a ratio: the value that is shown, and its draws."""

    shown: float
    draws: Array

    def over(self, other: Drawn) -> Drawn:
        ratios = self.draws / other.draws
        return Drawn(float(median(ratios)), ratios)

    @property
    def interval(self) -> tuple[float, float]:
        low, high = bounds_95(self.draws)
        return float(low), float(high)

    def holds(self, seen: float) -> bool:
        return self.interval[0] <= seen <= self.interval[1]


@dataclass(frozen=True)
class Number:
    """A printed number beside the draws of what is predicted; ``fitted`` if a number of ours was fitted to it."""

    table: str
    what: str
    seen: float
    draws: Drawn
    command: str
    fitted: bool = False
    bundled: Drawn | None = None
    """What the engine's bundled card says, where ``draws`` are of one that was fitted to the host."""

    @property
    def error(self) -> float:
        return self.draws.shown / self.seen - 1.0

    @property
    def inside(self) -> bool:
        return self.draws.holds(self.seen)

    @property
    def inside_bundled(self) -> bool:
        return (self.bundled or self.draws).holds(self.seen)


@cache
def _asked(options: tuple[tuple[str, Any], ...]) -> Prediction:
    return predict(**dict(options))


def _prediction(options: dict[str, Any]) -> Prediction:
    return _asked(tuple({**options, "context": PAPER.context}.items()))


def _estimate(strategy: str, **options: Any) -> Estimate:
    return _prediction(options).estimates[strategy]


def of(strategy: str, **options: Any) -> Drawn:
    """A strategy's tokens/s under these options and the paper's setting."""
    prediction = _prediction(options)
    assert prediction.draws is not None
    return Drawn(prediction.rates.shown(strategy), np.asarray(prediction.draws[strategy].joint))


def command(**options: Any) -> str:
    """The command that asks for them."""
    given = {**options, "context": PAPER.context}
    return "ssdsim predict " + " ".join(
        f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in given.items()
    )


# Table B.3 and what the text says of it.


def options_of(family: PublishedFamily) -> dict[str, Any]:
    """The options that state a pair's setting."""
    sd_k, ssd_k, fan_out = PAPER.setting_of(family)
    return {"target": family.target, "draft": family.draft, "k": ssd_k, "sd_k": sd_k, "f": fan_out}


def b3(family: PublishedFamily) -> Iterator[Number]:
    """AR once; SD, SSD and both ratios by data set, then on average."""
    rates = ACCEPTANCE.find(CARDS[family.target]).rates
    sets = [
        (name, sd, ssd, {"alpha": rate})
        for name, sd, ssd, rate in zip(
            family.datasets, family.sd_tokens_per_s, family.ssd_tokens_per_s, rates, strict=True
        )
    ]
    sd_mean, ssd_mean = (float(np.mean(each)) for each in (family.sd_tokens_per_s, family.ssd_tokens_per_s))
    average: tuple[str, float, float, dict[str, Any]]
    average = ("average", sd_mean, ssd_mean, {"acceptance": CARDS[family.target]})
    table = f"Table B.3, {family.target}"
    for number, (name, sd, ssd, accepted) in enumerate([*sets, average]):
        given = {**options_of(family), **accepted}
        ar_s, sd_s, ssd_s = (of(each, **given) for each in ("ar", "sd", "ssd"))
        asks = command(**given)
        if number == 0:
            yield Number(table, "AR, tokens/s", family.ar_tokens_per_s, ar_s, asks, fitted=True)
        yield Number(table, f"{name}: SD, tokens/s", sd, sd_s, asks, fitted=True)
        yield Number(table, f"{name}: SSD, tokens/s", ssd, ssd_s, asks)
        yield Number(table, f"{name}: SSD over SD", ssd / sd, ssd_s.over(sd_s), asks)
        yield Number(table, f"{name}: SSD over AR", ssd / family.ar_tokens_per_s, ssd_s.over(ar_s), asks)


# Tables 1 and 2.


def accepts(method: str) -> dict[str, Any]:
    """Options of what drafts in a sweep, and of what is accepted of it."""
    if method == "eagle-3":
        return {"drafter": "eagle3", "acceptance": HEAD}
    return {"acceptance": CARDS[PAPER.sweeps[0].target]}


def tokens(method: str, k: int) -> float:
    """Tokens of a round with a chain of ``k``."""
    rates = ACCEPTANCE.find(accepts(method)["acceptance"]).rates
    return float(np.mean([expected_tokens(rate, k) for rate in rates]))


def one_rate(method: str) -> float:
    """The one rate of as many tokens at the longest K, which trees take."""
    longest = max(PAPER.sweeps[0].k)
    return round(rate_of(tokens(method, longest), longest), 3)


def chain_rows() -> list[Row]:
    """SGLang's chains of table 1 as rows of an engine, with the tokens of a round."""
    return [
        Row(
            model=sweep.target,
            hardware=HARDWARE,
            tp=PAPER.tp,
            batch=1,
            input_tokens=PAPER.context // 2,
            output_tokens=PAPER.context,
            k=k,
            metric="tokens_per_s",
            value=speed,
            acceptance_length=round(tokens(sweep.method, k), 4),
            draft=None if sweep.method == "eagle-3" else PAPER.families[0].draft,
            drafter="eagle3" if sweep.method == "eagle-3" else None,
        )
        for sweep in PAPER.sweeps
        if sweep.engine.startswith("sglang")
        for k, speed in zip(sweep.k, sweep.tokens_per_s, strict=True)
    ]


def sweeps(host: Path) -> Iterator[Number]:
    """Chains of both engines, and SGLang's trees; ``host`` is SGLang's card as it is on the paper's host."""
    for sweep in (*PAPER.sweeps, *PAPER.tree_sweeps):
        yield from _sweep(sweep, host)


def _sweep(sweep: Sweep, host: Path) -> Iterator[Number]:
    on_sglang = sweep.engine.startswith("sglang")
    table = f"Table {1 if on_sglang else 2}, {sweep.engine} {sweep.method}"
    for k, seen in zip(sweep.k, sweep.tokens_per_s, strict=True):
        given: dict[str, Any]
        if isinstance(sweep, TreeSweep):
            drafts = {name: value for name, value in accepts(sweep.method).items() if name != "acceptance"}
            strategy, what = "tree", f"top {sweep.topk}, K {k}"
            given = {**drafts, "alpha": one_rate(sweep.method), "tree_depth": k, "tree_beam": sweep.topk}
        else:
            strategy, what, given = "sd", f"K {k}", {**accepts(sweep.method), "k": k}
        given = {"strategies": f"ar,{strategy}", **given}
        bundled = of(strategy, engine=BUNDLED[sweep.engine], **given)
        fitted = not isinstance(sweep, TreeSweep)
        if on_sglang:
            asks = command(engine=HOST, **given)
            yield Number(table, what, seen, of(strategy, engine=str(host), **given), asks, fitted, bundled)
        else:
            yield Number(table, what, seen, bundled, command(engine=BUNDLED[sweep.engine], **given), fitted)


def abstract(host: Path) -> Iterator[Number]:
    """What the abstract and the introduction print."""
    llama = PAPER.families[0]
    best = max(PAPER.tree_sweeps, key=lambda sweep: max(sweep.tokens_per_s))
    k = best.k[int(np.argmax(best.tokens_per_s))]
    tree = {"strategies": "ar,tree", "alpha": one_rate(best.method), "tree_depth": k, "tree_beam": best.topk}
    average = {**options_of(llama), "acceptance": CARDS[llama.target]}
    ssd_s, tree_s = of("ssd", **average), of("tree", engine=str(host), **tree)
    asks = f"{command(**average)}` over `{command(engine=HOST, **tree)}"
    yield Number("Text", "30 % over the strongest baseline (table 1's best)", 1.3, ssd_s.over(tree_s), asks)
    fastest = {**options_of(llama), "alpha": max(ACCEPTANCE.find(CARDS[llama.target]).rates)}
    over_ar = of("ssd", **fastest).over(of("ar", **fastest))
    yield Number("Text", "up to 5 times AR (GSM8k)", 5.0, over_ar, command(**fastest))
    crowd = {**average, "b": 16}
    over_sd = of("ssd", **crowd).over(of("sd", **crowd))
    yield Number("Text", "20 % over SD at larger batches (here 16)", 1.2, over_sd, command(**crowd))


@cache
def host_card() -> Runtime:
    """SGLang's card with the rounds of the paper's host, fitted to the chains of table 1."""
    return fit_runtime(chain_rows(), find_runtime("sglang"), name="host", fields=FITTED).card


@cache
def numbers() -> tuple[Number, ...]:
    """Every number of the page."""
    with TemporaryDirectory() as folder:
        host = Path(folder, HOST)
        save_runtime(host_card(), host)
        of_pairs = (each for family in PAPER.families for each in b3(family))
        return (*abstract(host), *of_pairs, *sweeps(host))


# The engine's own runs.

_RUNS = (
    ("llama-3.1-70b", "ar", 1, 54.0),
    ("llama-3.1-70b", "sd", 1, 172.0),
    ("llama-3.1-70b", "ssd", 1, 270.0),
    ("llama-3.1-70b", "ssd", 2, 409.0),
    ("llama-3.1-70b", "ssd", 4, 681.0),
    ("llama-3.1-70b", "ssd", 8, 1166.0),
    ("llama-3.1-70b", "ssd", 16, 1900.0),
    ("qwen3-32b", "ar", 1, 89.0),
    ("qwen3-32b", "sd", 1, 156.0),
    ("qwen3-32b", "ssd", 1, 195.0),
)
"""Target, strategy, batch and tokens/s of tests/reference_test_outputs.md in the engine's repository."""
_DRAFT_MS = {1: 21.12, 2: 24.88, 4: 28.96, 8: 35.29, 16: 43.84}
"""What the file says of a round of Llama's draft, by batch."""
_RUN_AT = {"llama-3.1-70b": (6, 3), "qwen3-32b": (4, 2)}  # K and F


def run_options(target: str, batch: int) -> dict[str, Any]:
    """The options of a run, at the acceptance of the paper's GSM8k."""
    family = next(each for each in PAPER.families if each.target == target)
    (k, fan_out), rates = _RUN_AT[target], ACCEPTANCE.find(CARDS[target]).rates
    given = {"target": target, "draft": family.draft, "k": k, "sd_k": k, "f": fan_out, "backup": "jit", "b": batch}
    return {**given, "alpha": rates[family.datasets.index("GSM8k")]}


def runs() -> Iterator[Number]:
    """The engine's own reference runs."""
    for target, strategy, batch, seen in _RUNS:
        given = run_options(target, batch)
        what = f"{target}, {strategy.upper()}, batch {batch}"
        yield Number("Runs", what, seen, of(strategy, **given), command(**given))


# What table B.3 leaves open.

_ASSUMED = ((4, 4, 2), (4, 5, 2), (4, 5, 3), (5, 5, 3), (5, 6, 3), (6, 6, 3), (6, 7, 3))


def left_open() -> Iterator[str]:
    """A line for each K and F that the Qwen runs may have had, with the hits that B.3 then asks for."""
    llama, qwen = PAPER.families
    for sd_k, ssd_k, fan_out in _ASSUMED:
        there = qwen.changed(sd_k=sd_k, ssd_k=ssd_k, fan_out=fan_out)
        replays = replay_families(PAPER.changed(families=(llama, there)), HARDWARE)
        worst = max(float(np.abs(each.errors).max()) for each in replays)
        hits = " | ".join(f"{each.p_hit:.2f}" for each in replays)
        mark = " (its bound)" if replays[0].at_bound else ""
        yield f"| {sd_k} | {ssd_k} | {fan_out} | {replays[0].hit_c:.2f}{mark} | {hits} | {worst:.1%} |"


# The page.

_INTRO = """# The SSD paper's numbers

For readers of the [SSD paper](https://arxiv.org/abs/2603.03251) (Kumar, Dao and May, 2026). After this page you know
which of its printed speeds and ratios ssdsim predicts, with which command, and what is not determined. `python
docs/paper.py` makes the page, and a test makes it again.

**{inside} of {all} printed numbers lie inside the 95 % interval of the command that states their setting.** The mean
error of the {predicted} to which nothing of ours was fitted is {error:.1%}: {b3_error:.1%} in table B.3,
{tree_error:.1%} of table 1's trees. Table 1's commands take SGLang's card as fitted to its chains. With the bundled
card {inside_bundled} of all {all} are inside, and the trees' mean error is {bundled_error:.0%}.

- *fitted* says that a number of ours was fitted to this one: acceptance to SD's speeds, the engine's host time to
  AR's, a card of SGLang or vLLM to chains. The paper publishes no acceptance. These numbers count as inside or
  outside, and not in the mean error.
- No SSD speed and no ratio was fitted. Hits are the default: c 0.4 and r 0.7, anywhere in their ranges.
- *ours* is the median of the draws, as `predict` shows it.
"""

_B3 = """
## Table B.3, {target} with {draft}

{assumed}.

```sh
{command}
```

{rates} is the rate of each data set in the table's order; the average takes `--acceptance {card}`.

"""

_TABLE_1 = """
## Tables 1 and 2: the baselines, {target}

What is accepted of the 1B draft is known: the paper's own engine had the same pair, greedy, on the same sets
(`--acceptance kumar2026-llama`). An EAGLE-3 head's is one rate that both engines' chains ask for (`--acceptance
kumar2026-eagle3`). Trees take one rate, {model_rate} and {head_rate}. How many of a tree's nodes SGLang verified is
not published: each tree is the fastest of its levels and beam.

**The host.** SGLang's rounds take about 3 ms longer here than in the 107 rows that the bundled card `sglang` rests
on. Two numbers say so, fitted to the 14 chains (`chains.csv`, below): {round_ms:.2f} ms a round and {step_ms:.2f} ms
a draft step. The 38 trees are then predicted.

```sh
ssdsim fit runtime chains.csv --like sglang --fields per_round_s,per_draft_step_s -o host.toml
{command}
```

*bundled* is the error with `--engine sglang` in place of `host.toml`.

"""

_REFERENCE = """
## The engine's own runs

Not of the paper, and not counted above: the reference runs of the engine's repository (tanishqkumar/ssd,
tests/reference_test_outputs.md), greedy, 512 tokens, on 8 to 128 prompts of GSM8k. Llama has K 6 and F 3, Qwen K 4
and F 2. Acceptance is that of GSM8k in table B.3.

"""

_TOO_FAST = """
**A round costs each sequence {sequence_ms:.2f} ms beside all passes.** The file has the mean time of a draft's round,
too: {seen} ms at batches of {batches}. This number of the card `ssd-engine` is fitted to them. Ours then take
{ours} ms. We suppose that SD pays it too: then the paper's 20 % at larger batches hold, which are 40 % without it.
By the file's times the runs had {tokens} tokens a round. Ours have {our_tokens}: what is still too fast are hits.
"""

_OPEN = """
## What table B.3 does not determine

The paper says neither K nor F of the Qwen runs. One miss rate c of a guess, the same for both pairs, is fitted to all
eight SSD speeds, with the engine's card as it is (`ssdsim validate paper kumar2026`):

| K of SD | K of SSD | F | c | hits, Llama | hits, Qwen | worst error |
|---|---|---|---|---|---|---|
{rows}

- **Two explanations are equally good**: K 4 and F 2, as in the engine's reference runs, or K 5 and F 3, with more
  hits. The card takes the first.
- **K 6 and 7, as for Llama, are none**: each guess would have to be right. Drafting would outlast verification, which
  the paper's appendix A excludes.
- A dearer draft step and more hits stand for each other, too. The default's range of hits, c 0.05 to 1, holds all of
  this table but the bounds.
- The released engine drafts K + 1 passes in SD (`speculator_sync.py`), of which the last is for its cache. ssdsim has
  K. With one more, acceptance would be about 0.02 higher. vLLM's chains ask for the rates as they are.

## What lies outside

- With the commands of this page: {outside}.
- With the bundled card `sglang`: {bundled}. All are too fast. Its rounds and its heads' steps are those of other
  hosts, on which a step of a head takes {head_ms:.2f} ms where it takes {step_ms:.2f} ms here. Rows of your
  own host tell: `ssdsim fit runtime`.

Table 1's widest trees of the draft model, of five guesses a token, are the worst: they are slower than those of
three, where ssdsim has them as fast. It takes their most nodes to be free to choose, and the paper does not print
them.

## The chains

`chains.csv`, of table 1's first columns and of the acceptance above:

```text
{csv}
```
"""


def page() -> str:
    """The page's text."""
    every = numbers()
    predicted = [each for each in every if not each.fitted]
    parts = [
        _INTRO.format(
            inside=sum(each.inside for each in every),
            inside_bundled=sum(each.inside_bundled for each in every),
            bundled_error=float(
                np.mean([abs(each.bundled.shown / each.seen - 1.0) for each in predicted if each.bundled is not None])
            ),
            all=len(every),
            predicted=len(predicted),
            error=_mean_error(predicted),
            b3_error=_mean_error([each for each in predicted if each.table.startswith("Table B.3")]),
            tree_error=_mean_error([each for each in predicted if each.table.startswith("Table 1")]),
        ),
        "\n## Text\n\n",
        _lines("number", [each for each in every if each.table == "Text"], with_command=True),
    ]
    for family in PAPER.families:
        rates = ACCEPTANCE.find(CARDS[family.target]).rates
        parts.append(
            _B3.format(
                target=family.target,
                draft=family.draft,
                assumed=family.assumed[0].upper() + family.assumed[1:],
                command=command(**options_of(family), alpha=rates[0]),
                rates=", ".join(f"{rate:g}" for rate in rates),
                card=CARDS[family.target],
            )
        )
        parts.append(_lines("number", [each for each in every if each.table == f"Table B.3, {family.target}"]))
    of_engine = [_REFERENCE, _lines("run, tokens/s", list(runs()), seen="file"), _too_fast()]
    return "".join([*parts, *_of_sweeps(every), *of_engine, _open(every)])


def _too_fast() -> str:
    """What the runs of several sequences tell."""
    seen = {batch: speed for target, strategy, batch, speed in _RUNS if (target, strategy) == ("llama-3.1-70b", "ssd")}
    ours = {batch: _estimate("ssd", **run_options("llama-3.1-70b", batch)) for batch in seen}
    tokens = {batch: speed / batch * _DRAFT_MS[batch] / 1e3 for batch, speed in seen.items()}
    return _TOO_FAST.format(
        sequence_ms=1e3 * find_runtime("ssd-engine").host.per_round_sequence_s,
        seen=_in_words([f"{each:.0f}" for each in _DRAFT_MS.values()]),
        batches=_in_words([str(batch) for batch in seen]),
        ours=_in_words([f"{1e3 * float(each.round_s):.0f}" for each in ours.values()]),
        tokens=_in_words([f"{each:.1f}" for each in tokens.values()]),
        our_tokens=_in_words([f"{float(each.tokens_per_round):.1f}" for each in ours.values()]),
    )


def _in_words(some: Sequence[str]) -> str:
    return f"{', '.join(some[:-1])} and {some[-1]}"


def _of_sweeps(every: Sequence[Number]) -> Iterator[str]:
    trees = [each for each in every if each.table.startswith("Table 1")]
    yield _TABLE_1.format(
        target=PAPER.sweeps[0].target,
        model_rate=one_rate("standalone"),
        head_rate=one_rate("eagle-3"),
        round_ms=1e3 * host_card().host.per_round_s,
        step_ms=1e3 * host_card().host.per_draft_step_s,
        command=next(each.command for each in trees if each.what == "top 3, K 10" and "standalone" in each.table),
    )
    for table in dict.fromkeys(each.table for each in every if each.table.startswith(("Table 1", "Table 2"))):
        yield f"\n{table.split(', ', 1)[1]}:\n\n"
        yield _lines("tree or chain", [each for each in every if each.table == table])


_COLUMNS = ("model", "draft", "drafter", "hardware", "tp", "batch", "input_tokens", "output_tokens", "k")
_VALUES = ("acceptance_length", "metric", "value")


def _open(every: Sequence[Number]) -> str:
    outside = [f"{each.table}, {each.what}" for each in every if not each.inside]
    bundled = [f"{each.table}, {each.what}" for each in every if not each.inside_bundled]
    rows = [[getattr(row, name) for name in (*_COLUMNS, *_VALUES)] for row in chain_rows()]
    cells = [[f"{each:g}" if isinstance(each, float) else str(each or "") for each in row] for row in rows]
    return _OPEN.format(
        rows="\n".join(left_open()),
        outside="; ".join(outside) or "nothing",
        bundled="; ".join(bundled) or "nothing",
        head_ms=1e3 * (find_runtime("sglang").head_step_s or 0.0),
        step_ms=1e3 * host_card().host.per_draft_step_s,
        csv="\n".join(",".join(row) for row in [(*_COLUMNS, *_VALUES), *cells]),
    )


def _mean_error(some: Sequence[Number]) -> float:
    return float(np.mean([abs(each.error) for each in some]))


def _lines(head: str, some: Sequence[Number], with_command: bool = False, seen: str = "paper") -> str:
    """A table."""
    bundled = any(each.bundled is not None for each in some)
    names = [head, seen, "ours", "95 %", "error", "inside"]
    names += [*(["bundled"] if bundled else []), *(["command"] if with_command else [])]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for each in some:
        low, high = each.draws.interval
        cells = [each.what, _three(each.seen), _three(each.draws.shown), f"{_three(low)}-{_three(high)}"]
        cells += [f"{each.error:+.1%}{' (fitted)' if each.fitted else ''}", "yes" if each.inside else "**no**"]
        if each.bundled is not None:
            held = "" if each.inside_bundled else ", outside"
            cells.append(f"{each.bundled.shown / each.seen - 1.0:+.0%}{held}")
        cells += [f"`{each.command}`"] if with_command else []
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _three(value: float) -> str:
    return f"{value:.1f}" if value >= 10.0 else f"{value:.2f}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
