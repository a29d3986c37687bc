"""Ratios that figures draw: which strategy over which, and how."""

from __future__ import annotations

from ssdsim.base.record import Record
from ssdsim.reports.study import Study
from ssdsim.reports.style import colour_of, symbol_of, title_of

_DASHES = ("solid", "dashdot", "longdash", "longdashdot")


class Ratio(Record):
    """A line of the speedup charts; those over the baseline share a panel."""

    above: str
    below: str
    dash: str
    over_baseline: bool
    marked: str
    """The side that its markers are of: the one in which the lines of its panel differ."""

    @property
    def key(self) -> str:
        """The column of the ratio."""
        return f"{self.above}/{self.below}"

    @property
    def title(self) -> str:
        return f"{title_of(self.above)} / {title_of(self.below)}"

    @property
    def colour(self) -> str:
        return colour_of(self.above)

    @property
    def symbol(self) -> str:
        return symbol_of(self.marked)


def baseline(study: Study) -> str:
    """The strategy that all are held over: the first of the run that is not its subject."""
    return next(name for name in study.names if name != study.subject)


def ratios(study: Study) -> tuple[Ratio, ...]:
    """The subject over each rival, the first of them first; then the others over the baseline."""
    if not study.rivals:
        return ()
    base = baseline(study)
    others = [name for name in study.rivals if name != base]
    dashes = {base: "dash"} | {name: _DASHES[number % len(_DASHES)] for number, name in enumerate(others)}
    return (
        *(Ratio(study.subject, name, dashes[name], name == base, name) for name in study.rivals),
        *(Ratio(name, base, "dot", True, name) for name in others),
    )
