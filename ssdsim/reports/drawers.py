"""Drawers of figures, by name; the key of a figure is its drawer's name or begins with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import replace
from ssdsim.reports.boundary import boundary
from ssdsim.reports.fallback import fallback
from ssdsim.reports.figure import Figure, LeftOut, with_plain_names
from ssdsim.reports.hits import all_hit, cache_shapes, hit_rate
from ssdsim.reports.pair import pair
from ssdsim.reports.pareto import pareto
from ssdsim.reports.passes import roofs, verification_cost
from ssdsim.reports.serving import serving
from ssdsim.reports.speedups import KEY as SPEEDUP
from ssdsim.reports.speedups import speedup, speedup_axes
from ssdsim.reports.study import Study
from ssdsim.reports.style import title_of
from ssdsim.reports.timeline import timeline
from ssdsim.reports.validation import measured, validation

Shown = Sequence[Figure | LeftOut]
Drawers = Mapping[str, Callable[[], Shown]]

_OF_A_STUDY: Mapping[str, Callable[[Study], Shown]] = {
    "boundary": boundary,
    "hit-rate": hit_rate,
    "cache-shapes": cache_shapes,
    "pair": pair,
    "fallback": fallback,
    "all-hit": all_hit,
    "timeline": timeline,
    "roofline": roofs,
    "verification": verification_cost,
    "pareto": pareto,
    "validation": validation,
    "measured": lambda study: measured(study.folder),
}


def drawers(study: Study) -> Drawers:
    """The drawers of a run, speedups along each option first; of rounds that ran, what was measured of them."""
    folder = study.folder
    if folder.serving is not None:
        return {"serving": partial(_serving, folder.serving)}
    if folder.measured_alone:
        return {"measured": partial(measured, folder)}
    if study.rivals:
        along = {f"{SPEEDUP}-{axis}": partial(speedup, study, axis) for axis in speedup_axes(study)}
    else:
        why = f"{title_of(study.subject)} stands alone: --strategies names rivals"
        along = {SPEEDUP: partial(list[Figure | LeftOut], [LeftOut("speedups", why)])}
    every: Drawers = {**along, **{name: partial(draw, study) for name, draw in _OF_A_STUDY.items()}}
    first = ("validation",) if folder.of_rounds else ()
    return {name: every[name] for name in dict.fromkeys((*first, *every))}


def _serving(answer: Mapping[str, object]) -> Shown:
    if "compared" in answer:
        return [LeftOut("a comparison with a benchmark", "an older version made it; ssdsim validate rows compares")]
    return serving(answer)


def one_figure(drawers: Drawers, name: str) -> Figure:
    """The figure of this key; only its own drawer is called."""
    group = next((group for group in drawers if name == group or name.startswith(f"{group}-")), None)
    if group is None:
        raise InputError(f"there is no figure '{name}'{nearest(name, drawers)} This run may have: {', '.join(drawers)}")
    shown = drawers[group]()
    figures = {each.key: each for each in shown if isinstance(each, Figure)}
    if name in figures:
        return replace(figures[name], plot=with_plain_names(figures[name].plot))
    why = next((each.why for each in shown if isinstance(each, LeftOut)), "it does not concern this run")
    if figures:
        raise InputError(f"there is no figure '{name}'{nearest(name, figures)} There are: {', '.join(figures)}")
    raise InputError(f"this run has no figure '{name}': {why}")
