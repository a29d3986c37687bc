"""The first screens of bench, fit and measure: what was found, how sure it is, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ssdsim.cli.runtimes import share
from ssdsim.cli.screen import print_screen
from ssdsim.readers.row import Repeated, Row, noise_of

if TYPE_CHECKING:
    from calibration.pairs.speedup_with_pair import SpeedupWithPair
    from calibration.runtimes.fit import RuntimeFit
    from ssdsim.tokens.pair_file import AtTemperature, Pair

_MOST_LOADS = 7  # rows of a table; the others are behind --explain
_NOISY = 0.05  # of repeats: a fit cannot be better
_FEW_HITS = 0.5  # of rounds: a cache that is hit in fewer pays for no GPU
_FAN_OUT = 3


def print_bench(settings: Sequence[Repeated], output: Path) -> None:
    """Print milliseconds a token at each load, without drafts and with each draft, and whether they can be fitted."""
    first = settings[0].rows[0]
    who = " ".join(filter(None, (first.engine or "a server", first.stated_version)))
    drafts = list(dict.fromkeys(_drafts(each.rows[0]) for each in settings))
    loads = list(dict.fromkeys(_load(each.rows[0]) for each in settings))
    table = [["in flight", "prompt", *drafts, *(["gain"] if len(drafts) == 2 and "no drafts" in drafts else [])]]
    table[0].append("off by")
    for load in loads[:_MOST_LOADS]:
        here = {_drafts(each.rows[0]): each for each in settings if _load(each.rows[0]) == load}
        table.append([*load, *(f"{here[name].mean:.1f} ms" if name in here else "" for name in drafts)])
        if "gain" in table[0]:
            bare, drafted = (here.get(name) for name in ("no drafts", next(n for n in drafts if n != "no drafts")))
            table[-1].append(f"{bare.mean / drafted.mean:.1f}x" if bare and drafted else "")
        noises = [each.noise for each in here.values() if each.noise is not None]
        table[-1].append(share(max(noises)) if noises else "")
    times = sorted({len(each.rows) for each in settings})
    each_time = f"each {times[0]} time{'s' if times[0] > 1 else ''}" if len(times) == 1 else "some repeated"
    more = f"; {len(loads) - _MOST_LOADS} more loads: --explain" if len(loads) > _MOST_LOADS else ""
    headline = f"{who}, {first.model}: {len(settings)} settings, {each_time} -> {output}{more}"
    print_screen(headline, table, [*_may_fit(settings, output)])


def _drafts(row: Row) -> str:
    return "no drafts" if row.k is None else f"{row.draft or row.drafter}, K {row.k}"


def _load(row: Row) -> tuple[str, str]:
    return str(row.batch), f"{row.input_tokens:.0f}"


def _may_fit(settings: Sequence[Repeated], output: Path) -> Iterator[tuple[str, str]]:
    noise, fit = noise_of(settings), f"ssdsim fit runtime {output} --hold 0.3 -o engine.toml"
    if noise is None:
        yield "How sure", "nobody knows: nothing was repeated"
        yield "Next", f"the same command with --repeats 3; then {fit}"
        return
    worst = max((each for each in settings if each.noise is not None), key=lambda each: each.noise or 0.0)
    if noise > _NOISY:
        yield "How sure", f"too noisy to fit: at {worst.rows[0].batch} in flight repeats differ by {share(worst.noise)}"
        yield "Next", f"the same command with --repeats 5 on a quiet machine; then {fit}"
        return
    yield "How sure", f"a repeat is off by {share(noise)}: no fit can be trusted further"
    yield "Next", fit


HeldOutcome = tuple[float, int, float | None]
"""The error on the settings that were put aside, their count, and the noise of repeats."""


def print_fit(
    fit: RuntimeFit, rows: Sequence[Row], output: Path, held: HeldOutcome | None, run: str, more: str
) -> None:
    """Print what a fitted engine is good for, what to run on it, and the row that would tell ``more``."""
    row = rows[0]
    who = " ".join(filter(None, (row.engine or "engine", row.stated_version)))
    good = f"these rows: {share(fit.error)} off; --hold 0.3 tries it on settings that it is not shown"
    limit = ""
    if held is not None:
        error, count, noise = held
        good = f"settings like these: {share(error)} off on the {count} it was not shown"
        limit = "" if noise is None else f"your server repeats itself within {share(noise)}; no fit can be better"
    left = fit.left_out_error
    gpus = f" --gpus {row.tp}" if row.tp else ""
    lines = {
        "Good for": good,
        "Not yet": "" if left is None else f"others: whole series left out are missed by {share(left)}",
        "Limit": limit,
        "Run": run,
        "Most told": more,
        "Next": f"ssdsim recommend --engine {output}{gpus}   (--explain: each number, each series)",
    }
    print_screen(f"{output}: your {who}, from {len(rows)} rows", (), lines)


def print_measured(pair: Pair, verdicts: Sequence[SpeedupWithPair], output: Path) -> None:
    """Print how often a draft is right, what a round yields, whether a cache is hit, and what that changes."""
    at = pair.by_temperature[0]
    lines = {
        "A round": _round(at),
        "A cache": _cache(at),
        "By text": _by_text(at),
        "Changes": str(verdicts[0]) if verdicts else "",
        "More": next((each.next for each in verdicts if each.next is not None), ""),
        "Next": f"ssdsim recommend --gpus 5 --pair {output}\n--explain: positions, hit curves, laws",
    }
    others = [f"{_right(each)} at temperature {each.temperature:g}" for each in pair.by_temperature[1:]]
    print_screen(f"Your draft is right for {'; '.join([_whose(at, pair.requests), *others])}", (), lines)


def _right(at: AtTemperature) -> str:
    return "an unknown share" if at.alpha.mean is None else f"{at.alpha.mean:.0%}".replace("%", " %")


def _whose(at: AtTemperature, requests: int | None) -> str:
    alpha, told = at.alpha, [] if requests is None else [f"{requests} answers"]
    if alpha.low is not None and alpha.high is not None:
        told.insert(0, f"{100 * alpha.low:.0f}-{100 * alpha.high:.0f} %")
    if at.temperature is not None:
        told.append(f"temperature {at.temperature:g}")
    return f"{_right(at)} of its tokens ({', '.join(told)})"


def _round(at: AtTemperature) -> str:
    return "" if at.length.pooled is None else f"of {at.length.k} drafted tokens yields {at.length.pooled:.1f} tokens"


def _cache(at: AtTemperature) -> str:
    """How often some guesses a position hold what comes, after a rejection as most rounds have it."""
    law = at.hits.rejected
    hit = None if law is None else {point[0]: point[1] for point in law.curve or ()}.get(_FAN_OUT)
    if hit is None:
        return ""
    few = ": too few for SSD" if hit < _FEW_HITS else ""
    return f"of {_FAN_OUT} guesses a position is hit after {hit:.0%} of rejections{few}".replace("%", " %")


def _by_text(at: AtTemperature) -> str:
    rates = {name: each.alpha.mean for name, each in at.sets.items() if each.alpha.mean is not None}
    if len(rates) < 2:
        return ""
    alike = "alike" if max(rates.values()) - min(rates.values()) < 0.05 else "they differ: --pair-set takes one"
    return f"{', '.join(f'{name} {rate:.2f}' for name, rate in rates.items())}: {alike}"
