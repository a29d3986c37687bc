"""Choice of a pair's findings: of one temperature, of all requests or of one set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import Record

if TYPE_CHECKING:
    from ssdsim.tokens.pair_file import Findings, Pair


RANDOM = "random"
"""The backup whose tokens are random."""
TOKEN_MODEL = "token-model"
"""How a pair came about that no models were measured for."""


class ChosenFindings(Record):
    """Findings, and the temperature that they hold for: None where the file does not say it."""

    path: str
    pair: Pair
    findings: Findings
    temperature: float | None
    set_name: str | None

    @property
    def name(self) -> str:
        return PurePath(self.path).name

    @property
    def positions(self) -> int | None:
        """Largest K at which acceptance is known: rates by position, else the drafted tokens; None where unsaid."""
        return len(self.findings.rates) or self.findings.length.k or self.pair.settings.k

    @property
    def fan_outs(self) -> int | None:
        """Largest measured fan-out of hits that follow power laws; None where unsaid."""
        laws = [law for law in self.findings.hits.laws.values() if law.curve and law.fits is not False]
        return min((law.curve[-1][0] for law in laws if law.curve), default=None)

    @property
    def source(self) -> str:
        """Short text of what the numbers rest on."""
        of_set = f", set {self.set_name}" if self.set_name else ""
        at = "" if self.temperature is None else f", temperature {self.temperature:g}"
        return f"{self.name}: {self._how()}{of_set}{at}"

    def _how(self) -> str:
        requests = self.findings.count
        if requests is None and self.set_name is None:
            requests = self.pair.requests
        rounds = self.findings.length.rounds
        size = f"{requests:,} requests" if requests is not None else f"{rounds:,} rounds" if rounds else ""
        if self.pair.how == TOKEN_MODEL:
            return f"a token model of {requests:,} contexts"
        if self.pair.how in ("teacher-forced", "loop"):
            return f"measured on {size}" if size else "measured"
        return f"read from {self.pair.how}" + (f", {size}" if size else "")


def chosen(path: str, temperature: float | None, set_name: str | None, nearest_to: bool = False) -> ChosenFindings:
    """Findings at a temperature; by default at the only one that was measured, else at 0.

    With ``nearest_to`` those of the nearest temperature will do.
    """
    from ssdsim.tokens.pair_file import load_pair  # here: its records take time to make, and most calls have no pair

    pair = load_pair(path)
    at = {each.temperature: each for each in pair.by_temperature}
    known = [each for each in at if each is not None]
    if temperature is None:
        temperature = known[0] if len(known) == 1 else 0.0
    if temperature in at:
        whole, holds_for = at[temperature], temperature
    elif None in at:
        whole, holds_for = at[None], None
    elif nearest_to:
        holds_for = min(known, key=lambda each: abs(each - temperature))
        whole = at[holds_for]
    else:
        listed = ", ".join(f"{each:g}" for each in sorted(known))
        others = "; --extrapolate takes the nearest"
        raise InputError(f"{path}: not measured at --temperature {temperature:g}, only at {listed}{others}")
    if set_name is None:
        return ChosenFindings(path, pair, whole, holds_for, None)
    if set_name not in whole.sets:
        allowed = f"Allowed: {', '.join(whole.sets)}" if whole.sets else "It has none"
        raise InputError(f"{path}: no set '{set_name}' in it{nearest(set_name, whole.sets)} {allowed}")
    return ChosenFindings(path, pair, whole.sets[set_name], holds_for, set_name)


def chosen_by(options: Mapping[str, Any], temperature: float | None) -> ChosenFindings | None:
    """Look up what ``--pair`` and ``--pair-set`` choose; None without them."""
    if options.get("pair") is None:
        return None
    return chosen(str(options["pair"]), temperature, options.get("pair_set"), bool(options.get("extrapolate")))


def positions_known(options: Mapping[str, Any]) -> int | None:
    """Largest K at which acceptance is known, from a list of rates or a pair; None for one rate at all positions."""
    alpha = options.get("alpha")
    if alpha is not None:
        return len(alpha) if isinstance(alpha, list | tuple) else None
    chosen = chosen_by(options, options.get("temperature"))
    return None if chosen is None or options.get("extrapolate") else chosen.positions


def fan_outs_known(options: Mapping[str, Any]) -> int | None:
    """Largest fan-out at which a pair knows hits; None without a pair, or with ``--extrapolate``."""
    chosen = chosen_by(options, options.get("temperature"))
    return None if chosen is None or options.get("extrapolate") else chosen.fan_outs
