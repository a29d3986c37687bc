"""The report of a run folder: every figure that it can show, on one page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ssdsim.checks import text
from ssdsim.reports.batch import batch_and_fallback
from ssdsim.reports.figure import Figure, LeftOut
from ssdsim.reports.header import origins, strategies_table, verdict_lines
from ssdsim.reports.hit_rate import hit_rate
from ssdsim.reports.page import html
from ssdsim.reports.pareto import pareto
from ssdsim.reports.roofs import roofs
from ssdsim.reports.speedups import grid_json, speedups
from ssdsim.reports.study import Study
from ssdsim.reports.timeline import timeline
from ssdsim.reports.validation import validation
from ssdsim.runs.report_folder import read_run_folder

_GROUPS: tuple[Callable[[Study], list[Figure | LeftOut]], ...] = (
    speedups,
    hit_rate,
    batch_and_fallback,
    timeline,
    roofs,
    pareto,
    validation,
)


@dataclass(frozen=True)
class Report:
    """One self-contained page, and what is on it."""

    html: str
    sentence: str
    figures: tuple[Figure, ...]
    left_out: tuple[LeftOut, ...]

    def save(self, path: Path) -> None:
        """Write the page, atomically."""
        partial = path.with_suffix(path.suffix + ".partial")
        partial.write_text(self.html, encoding="utf-8")
        partial.replace(path)


def report(folder: str | Path, seed: int = 0) -> Report:
    """The report of a run folder, as ``ssdsim sweep -o FOLDER`` writes it.

    What the folder does not hold but follows from its config.toml is computed; what cannot be shown is left out, and
    the page's end says why.

    Parameters
    ----------
    folder : a run folder, of which only ``config.toml`` must be there.
    seed : of the draws of the timings' errors behind the bands.

    Returns
    -------
    Report : the ``html`` of the page, which needs no other file; its ``sentence``, ``figures`` and what was
        ``left_out``.

    Raises
    ------
    InputError : not a run folder, or its base point is not possible.
    """
    study = Study(read_run_folder(Path(text("a run folder", folder))), seed)
    made = [item for group in _GROUPS for item in group(study)]
    figures = tuple(item for item in made if isinstance(item, Figure))
    left_out = tuple(item for item in made if isinstance(item, LeftOut))
    sentence, lines = verdict_lines(study)
    page = html(
        title=_title(study),
        sentence=sentence,
        lines=lines,
        strategies=strategies_table(study),
        figures=figures,
        grid=grid_json(study),
        origins=origins(study),
        left_out=left_out,
    )
    return Report(page, sentence, figures, left_out)


def _title(study: Study) -> str:
    """What the run is about."""
    if study.unit_free:
        values = study.configuration.values
        return f"Unit-free: T_SD {values['t_sd']:g}, T_p {values['t_p']:g}, T_b {values['t_b']:g}"
    placement = study.configuration.placement
    assert placement is not None
    hardware = dict.fromkeys((placement.profile.name, placement.draft_profile.name))
    return f"{placement.target.name} + {placement.draft.name} on {' + '.join(hardware)}, TP {placement.tp}"
