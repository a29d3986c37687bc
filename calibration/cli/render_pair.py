"""A measured pair on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from ssdsim.cli.console import print_labelled
from ssdsim.cli.tables import Table

if TYPE_CHECKING:
    from calibration.pairs.measure.checks import LoopCheck
    from calibration.pairs.verdict import Consequence
    from ssdsim.tokens.pair_file import AtTemperature, Backup, Findings, HitLaw, Pair

_FAN_OUTS = (1, 3, 8)
_LABEL = 14
_BARS = " ▁▂▃▄▅▆▇█"


def print_pair(pair: Pair, out: Console) -> None:
    """A block for each temperature, the data sets, and what loops found."""
    title = f"{pair.target.id or 'a target'} + {pair.draft.id or 'a draft'}: {pair.requests} requests, "
    out.print(f"{title}{pair.tokens:,} tokens, {pair.how}", style="bold")
    for at in pair.by_temperature:
        out.print()
        _print_temperature(at, out)
    _print_lossless(pair, out)
    _print_routing(pair, out)


def _print_temperature(at: AtTemperature, out: Console) -> None:
    temperature = "" if at.temperature is None else f"temperature {at.temperature:g}"
    out.print(temperature, style="bold")
    _line(out, "acceptance", _alpha(at))
    rates = at.rates
    bars = "".join(_BARS[round(rate * (len(_BARS) - 1))] for rate in rates)
    _line(out, "by position", f"{bars}  {' '.join(f'{rate:.2f}' for rate in rates)}")
    _line(out, "tokens/round", _length(at))
    _line(out, "requests", _spread(at))
    out.print(_curves(at))
    if at.saguaro:
        out.print(_saguaro(at))
    if at.sets:
        out.print(_sets(at))


def _line(out: Console, label: str, text: str) -> None:
    print_labelled(out, f"{label:<{_LABEL}}", text)


def _alpha(at: Findings) -> str:
    alpha = at.alpha
    text = f"{alpha.mean:.3f}" if alpha.mean is not None else "not known"
    if alpha.low is not None and alpha.high is not None:
        text += f" (95 % {alpha.low:.3f} to {alpha.high:.3f}, over {at.count} requests)"
    return text + (f", sum min(p, q) {at.overlap:.3f}" if at.overlap is not None else "")


def _length(at: Findings) -> str:
    length = at.length
    if length.pooled is None:
        return "not known"
    text = f"{length.pooled:.2f} at K {length.k}"
    if length.mean_of_requests is not None:
        text += f", mean of requests {length.mean_of_requests:.2f}"
    if at.independence is not None and at.independence.length is not None:
        text += f", one rate alone would give {at.independence.length:.2f}"
    return text


def _spread(at: Findings) -> str:
    requests = at.requests
    text = "alike" if requests.alike else "differ"
    if requests.concentration is not None:
        text += f", a Beta of concentration {requests.concentration:.3g}"
    clusters = [batch for batch in at.correlation.batch if batch.p_all_hit is not None]
    if clusters:
        last = max((each for each in clusters if (each.independent or 0.0) > 1e-3), key=lambda b: b.b, default=None)
        if last is not None and last.p_all_hit is not None and last.independent is not None:
            text += f"; all {last.b} of a batch hit {last.p_all_hit:.3f}, independently {last.independent:.3f}"
    return text


def _curves(at: Findings) -> Table:
    fan_outs = [f"F {f}" for f in _FAN_OUTS]
    table = Table(("hits after",), (*fan_outs, "c", "r", "R2", "error"), ("law fits",), first=fan_outs)
    table.add_column("tokens/round")
    for name, law in at.hits.laws.items():
        table.add_row(name, *_law(law), _backup(at.backups.get(name)))
    return table


def _law(law: HitLaw) -> list[str]:
    by_f = {point[0]: point[1] for point in law.curve or ()}
    hits = [f"{by_f[f]:.3f}" if f in by_f else "" for f in _FAN_OUTS]
    if law.c is None or law.r is None or law.r2 is None or law.max_error is None:
        return [*hits, "", "", "", "", f"{law.trials or 0:.0f} rounds: too few" if (law.trials or 0) < 50 else ""]
    return [
        *hits,
        _with(law.c, law.c_interval),
        _with(law.r, law.r_interval),
        f"{law.r2:.2f}",
        f"{law.max_error:.2f}",
        "yes" if law.fits else "no: its curve is used",
    ]


def _with(value: float, interval: tuple[float, float] | None) -> str:
    return f"{value:.2f}" if interval is None else f"{value:.2f} ({interval[0]:.2f}-{interval[1]:.2f})"


def _backup(backup: Backup | None) -> str:
    return "" if backup is None or backup.length is None else f"{backup.length:.2f}"


def _saguaro(at: Findings) -> Table:
    """Saguaro's table at the lookahead of the lengths."""
    table = Table((), ("Saguaro's C", "F", "tokens/round", "acceptance", "hits after a rejection", "hits"))
    for each in at.saguaro:
        if each.k == at.length.k and each.f == _FAN_OUTS[1]:
            numbers = (each.tokens, each.alpha, each.hit_rejected, each.p_hit)
            table.add_row(f"{each.c:g}", str(each.f), *("" if n is None else f"{n:.3f}" for n in numbers))
    return table


def _sets(at: AtTemperature) -> Table:
    fan_outs = (f"F {f}" for f in _FAN_OUTS)
    table = Table(("set",), ("requests", "acceptance", "95 %", "tokens/round", *fan_outs))
    for name, findings in at.sets.items():
        alpha, rejected = findings.alpha, findings.hits.rejected
        interval = f"{alpha.low:.3f}-{alpha.high:.3f}" if alpha.low is not None and alpha.high is not None else ""
        hits = _law(rejected)[: len(_FAN_OUTS)] if rejected is not None else []
        mean, pooled = (f"{v:.3f}" if v is not None else "" for v in (alpha.mean, findings.length.pooled))
        table.add_row(name, str(findings.count), mean, interval, pooled, *hits)
    return table


def _print_lossless(pair: Pair, out: Console) -> None:
    if pair.lossless is None:
        return
    out.print()
    greedy, sampling = pair.lossless.greedy, pair.lossless.sampling
    if greedy is not None:
        text = f"{greedy.identical} of {greedy.requests} greedy answers are the target's own"
        text += f", {greedy.near_ties} part at a near tie, {greedy.bugs} elsewhere"
        _line(out, "lossless", text)
    if sampling is not None:
        verdict = "as the target's" if sampling.passed else "NOT as the target's"
        _line(out, "", f"sampled tokens are distributed {verdict} (p {sampling.p:.3g})")


def _print_routing(pair: Pair, out: Console) -> None:
    for role, routing in (pair.routing or {}).items():
        touched = ", ".join(f"{experts:.1f} by {m}" for m, experts in routing.in_a_row)
        apart = ", ".join(f"{experts:.1f} by {m}" for m, experts in routing.apart)
        out.print()
        _line(
            out, "experts", f"of the {role}, {routing.count} a layer: {touched} tokens in a row; {apart} of other texts"
        )
        _line(out, "", f"a card says so with overlap {routing.overlap:.2f}, skew {routing.skew:.2f}")


def print_compared(loops: Sequence[LoopCheck], out: Console) -> None:
    """Print what a real loop found beside the coupling."""
    if not loops:
        return
    out.print()
    table = Table(("a real loop",), ("temperature", "coupling", "loop", "±"), ("agree",), names=2)
    for each in loops:
        numbers = (f"{each.coupling:.3f}", f"{each.loop:.3f}", f"{each.error:.3f}")
        table.add_row(each.what, f"{each.temperature:g}", *numbers, "yes" if each.agrees else "NO")
    out.print(table)


def print_consequences(consequences: Sequence[Consequence], out: Console) -> None:
    """Print what the pair does to the answer."""
    out.print()
    for each in consequences:
        _line(out, f"at {each.temperature:g}", str(each))
        if each.next is not None:
            _line(out, "", each.next)
