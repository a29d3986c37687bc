"""Figures of answers as plotly figures, for notebooks and papers: one function a figure.

``answer`` is what a verb gave: a :class:`ssdsim.Prediction`, the folder of a run (``ssdsim sweep -o``), or the JSON of
``ssdsim serve``. ``ssdsim report`` and ``ssdsim report --figure`` draw the very same, by the same names with ``-`` for
``_``.

>>> import ssdsim
>>> from ssdsim import figures
>>> plot = figures.all_hit(ssdsim.predict(t_sd=0.3, p_hit=0.85))
>>> [trace.name for trace in plot.data][-1]
'SSD'
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from ssdsim.answers.predict import Prediction
from ssdsim.base.checks import text
from ssdsim.reports import picture, theme
from ssdsim.reports.drawers import drawers, one_figure
from ssdsim.reports.published import datasets as _datasets
from ssdsim.reports.published import engine_sweeps as _engine_sweeps
from ssdsim.reports.study import Study
from ssdsim.reports.token_rates import miss_curves as _miss_curves
from ssdsim.reports.token_rates import saguaro as _saguaro
from ssdsim.reports.window_plot import window_plot
from ssdsim.runs.report_folder import RunFolder, checked_serving, read_run_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from calibration.validation.paper import FamilyReplay, SweepReplay
    from ssdsim.answers.token_rates import TokenRates

Answer = Prediction | str | Path | Mapping[str, Any]


def figure(answer: Answer, name: str, seed: int = 0) -> go.Figure:
    """The figure of this name, such as ``speedup-b`` or ``serving-tpot``; ``seed`` is of the draws behind its bands.

    Raises
    ------
    InputError : there is none of this name, or this answer cannot show it; then why.
    """
    return _on_white(one_figure(drawers(Study(_folder(answer), seed)), name).plot)


def save(plot: go.Figure, path: str | Path, columns: int = 1) -> None:
    """Write a figure for a paper, 85 mm wide or (two columns) 178: SVG, PDF or PNG by the path's ending.

    Raises
    ------
    InputError : another ending, other columns, no exporter or browser here, or a path that cannot be written.
    """
    picture.save_picture(plot, Path(text("a picture's path", path)), columns)


def speedup(answer: Answer, axis: str, seed: int = 0) -> go.Figure:
    """The subject over its rivals along one option, and those over the baseline."""
    return figure(answer, f"speedup-{axis}", seed)


def boundary(answer: Answer) -> go.Figure:
    """Map of where the subject is faster than its first rival, over two options."""
    return figure(answer, "boundary")


def hit_rate(answer: Answer) -> go.Figure:
    """The hit rate against the fan-out, by policy."""
    return figure(answer, "hit-rate")


def cache_shapes(answer: Answer) -> go.Figure:
    """Hit rate and speed by fan-out policy over the temperatures at which a pair was measured."""
    return figure(answer, "cache-shapes")


def fallback(answer: Answer, seed: int = 0) -> go.Figure:
    """Backups by batch, with Theorem 17's batch."""
    return figure(answer, "fallback", seed)


def all_hit(answer: Answer) -> go.Figure:
    """Chance that a whole batch hits."""
    return figure(answer, "all-hit")


def timeline(answer: Answer, seed: int = 0) -> go.Figure:
    """Some rounds as bars on tracks of target, link and draft."""
    return figure(answer, "timeline", seed)


def roofline(answer: Answer) -> go.Figure:
    """The operations of the passes against the roofs of their devices."""
    return figure(answer, "roofline")


def verification(answer: Answer, seed: int = 0) -> go.Figure:
    """Cost of verifying K + 1 tokens over decoding one, where the target is a mixture of experts."""
    return figure(answer, "verification", seed)


def pareto(answer: Answer, seed: int = 0) -> go.Figure:
    """Tokens/s of a user against tokens/s of a GPU."""
    return figure(answer, "pareto", seed)


def pair_hits(answer: Answer) -> go.Figure:
    """Measured hit curves of a pair, and the laws fitted to them."""
    return figure(answer, "pair-hits")


def pair_acceptance(answer: Answer) -> go.Figure:
    """Measured acceptance by position of a pair, and of its sets."""
    return figure(answer, "pair-acceptance")


def pair_batches(answer: Answer) -> go.Figure:
    """Share of a pair's whole batches that hit, measured in lockstep, against independent sequences."""
    return figure(answer, "pair-batches")


def pair_sets(answer: Answer) -> go.Figure:
    """Measured acceptance of a pair by set of requests."""
    return figure(answer, "pair-sets")


def serving_tpot(answer: Answer) -> go.Figure:
    """Time per output token over the rate of requests."""
    return figure(answer, "serving-tpot")


def serving_ttft(answer: Answer) -> go.Figure:
    """Time to the first token over the rate of requests."""
    return figure(answer, "serving-ttft")


def serving_crossing(answer: Answer) -> go.Figure:
    """Crossings of strategies over the rate, by the closed form."""
    return figure(answer, "serving-crossing")


def serving_goodput(answer: Answer) -> go.Figure:
    """Requests a second that keep what was promised, over the rate."""
    return figure(answer, "serving-goodput")


def serving_fixed_k(answer: Answer) -> go.Figure:
    """Each K for good beside the policy that moves K."""
    return figure(answer, "serving-fixed-k")


def serving_minute(answer: Answer) -> go.Figure:
    """A minute of the last load."""
    return figure(answer, "serving-minute")


def measured(answer: Answer) -> go.Figure:
    """Rows of an engine, measured against predicted; ``figure(answer, "measured-batch")`` has their errors by batch."""
    return figure(answer, "measured")


def validation(answer: Answer) -> go.Figure:
    """Rounds measured by ``ssdsim validate`` against those predicted."""
    return figure(answer, "validation")


def window(frame: pd.DataFrame) -> go.Figure:
    """Drafting that fits into one verification: of :func:`ssdsim.window`, over the one option that varies."""
    return _on_white(window_plot(frame))


def miss_curves(rates: TokenRates) -> go.Figure:
    """Misses of F guesses in a token model, by temperature."""
    return _on_white(_miss_curves(rates))


def saguaro(rates: TokenRates) -> go.Figure:
    """Hits against acceptance along Saguaro's C in a token model, by fan-out."""
    return _on_white(_saguaro(rates))


def datasets(replay: FamilyReplay) -> go.Figure:
    """Published and predicted speeds by data set."""
    return _on_white(_datasets(replay))


def engine_sweeps(replays: Sequence[SweepReplay]) -> go.Figure:
    """Published and predicted speeds of engines over K."""
    return _on_white(_engine_sweeps(replays))


def _folder(answer: Answer) -> RunFolder:
    if isinstance(answer, Prediction):
        return RunFolder(Path(), answer.configuration.given)
    if isinstance(answer, Mapping):
        return RunFolder(Path(), {}, serving=checked_serving(dict(answer), "the answer"))
    return read_run_folder(Path(text("an answer", answer)))


def _on_white(plot: go.Figure) -> go.Figure:
    """Copy a plot as notebooks show it, whose pages may be of any colour."""
    made = theme.LIGHT.template()
    made["layout"] |= {"paper_bgcolor": theme.LIGHT.card, "plot_bgcolor": theme.LIGHT.card}
    return plot.update_layout(template=made)


def __dir__() -> list[str]:
    """The figures, and how they are saved: not what draws them."""
    here = {name: each for name, each in globals().items() if not name.startswith("_")}
    return sorted(name for name, each in here.items() if getattr(each, "__module__", None) == __name__)
