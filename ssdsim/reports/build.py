"""The report of a run folder: every figure that it can show, on one page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ssdsim.answers.workers import Workers
from ssdsim.base.checks import text
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.base.record import Record
from ssdsim.reports.figure import Figure, LeftOut
from ssdsim.reports.page import Page, origins, strategies_table, verdict_lines
from ssdsim.reports.study import Study
from ssdsim.reports.style import PALETTE, colour_of, title_of
from ssdsim.reports.sweep_controls import grid_json, made_by, sweep_controls
from ssdsim.runs.report_folder import RunFolder, read_run_folder


class Report(Record):
    """One self-contained page, and what is on it."""

    html: str
    sentence: str
    figures: tuple[Figure, ...]
    left_out: tuple[LeftOut, ...]
    unfinished: str | None = None
    """How many points of the sweep are in, where they are not all."""

    def __repr__(self) -> str:
        return f"Report({self.sentence!r}, left_out={self.left_out!r}, unfinished={self.unfinished!r})"

    def save(self, path: Path) -> None:
        """Write the page, atomically."""
        if not path.name:
            raise InputError(f"the report needs the name of a file, got '{path}'")
        try:
            write_whole(path, self.html)
        except OSError as error:
            raise InputError(f"{path}: the report cannot be written there ({error.strerror})") from None


def report(folder: str | Path, seed: int = 0) -> Report:
    """The report of a run folder, as ``ssdsim sweep -o FOLDER`` writes it.

    What the folder does not hold but follows from its config.toml is computed; what cannot be shown is left out, and
    the page's end says why.

    Parameters
    ----------
    folder : a run folder, of which only ``config.toml`` must be there.
    seed : of the draws of what is not known, behind the bands.

    Returns
    -------
    Report : the ``html`` of the page, which needs no other file; its ``sentence``, ``figures``, what was
        ``left_out``, and whether the sweep is ``unfinished``.

    Raises
    ------
    InputError : not a run folder, or its base point is not possible.
    """
    workers = Workers()
    run = read_run_folder(Path(text("a run folder", folder)))
    study = Study(run, seed)
    of_sweep = [] if run.rows is None else [partial(sweep_controls, study)]
    *controls, made = workers.answers([*of_sweep, partial(_drawn, study)])
    figures = tuple(item for item in made if isinstance(item, Figure))
    left_out = tuple(item for item in made if isinstance(item, LeftOut))
    if run.measured_alone:
        return _of_measured(run, figures)
    if run.serving is not None:
        return _of_serving(run.serving, figures, left_out)
    sentence, lines = verdict_lines(study)
    if run.of_rounds:
        from ssdsim.reports.validation import rounds_sentence  # here, as where figures are drawn

        sentence, lines = rounds_sentence(run), [sentence, *lines]
    more: dict[str, Any] = {"unfinished": _unfinished(run), "grid": grid_json(study)}
    more |= {"strategies": strategies_table(study), "origins": origins(study)}
    if run.rows is not None:
        more |= {"controls": controls[0], "made_by": made_by(run)}
    return _of(Page(study.configuration.place, sentence, colour_of(study.subject), figures, lines, left_out, **more))


def _drawn(study: Study) -> list[Figure | LeftOut]:
    from ssdsim.reports.drawers import drawers  # here: they load pandas, while a copy works at what a page follows

    return [item for draw in drawers(study).values() for item in draw()]


def figure(folder: str | Path, name: str, seed: int = 0) -> Figure:
    """One figure of a run folder's report, by its key; no other is computed."""
    from ssdsim.reports.drawers import drawers, one_figure

    return one_figure(drawers(Study(read_run_folder(Path(text("a run folder", folder))), seed)), name)


def _of_measured(folder: RunFolder, figures: tuple[Figure, ...]) -> Report:
    """The page of an engine's rows, which belong to no single scenario."""
    from ssdsim.reports.validation import measured_lines

    sentence, lines = measured_lines(folder)
    return _of(Page("An engine's benchmarks against predictions", sentence, PALETTE[0], figures, lines))


def _of_serving(answer: Mapping[str, Any], figures: tuple[Figure, ...], left_out: tuple[LeftOut, ...]) -> Report:
    """The page of requests that arrive; of a comparison that an older version made, its title alone."""
    from ssdsim.reports.serving import serving_lines, serving_title

    if "compared" in answer:
        strategy, source = answer["strategy"], answer["workload"]["source"]
        title = f"{title_of(strategy)} against {source}"
        return _of(Page(title, "No figures are drawn of it.", colour_of(strategy), figures, left_out=left_out))
    told = answer["verdict"]
    colour = colour_of(told["subject"])
    return _of(Page(serving_title(answer), told["sentence"], colour, figures, serving_lines(answer), left_out))


def _of(page: Page) -> Report:
    return Report(page.html(), page.sentence, tuple(page.figures), tuple(page.left_out), page.unfinished)


def _unfinished(folder: RunFolder) -> str | None:
    if folder.points_in == folder.points:
        return None
    return (
        f"Unfinished: {folder.points_in:,} of {folder.points:,} points of the sweep are in; "
        "the same ssdsim sweep resumes it."
    )
