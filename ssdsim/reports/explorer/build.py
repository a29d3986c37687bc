"""``ssdsim explore``: options in, an offline page with sliders out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ssdsim.answers.evidence import inputs_text
from ssdsim.answers.workers import Workers
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record
from ssdsim.question.configuration import Configuration, configure
from ssdsim.question.spellings import any_spelling
from ssdsim.reports.explorer.errors import Error
from ssdsim.reports.explorer.grid import ExplorerGrid, explorer_grid
from ssdsim.reports.explorer.page import grid_words, html
from ssdsim.reports.explorer.space import is_list_of, plain_value, side_axis

if TYPE_CHECKING:
    from ssdsim.question.typed_options import Axes

_RANDOM_PLACES = 1000  # at which interpolation is held against exact answers


class Explorer(Record):
    """The page, the verdict with which it opens, its number of points, and its errors between them."""

    html: str
    sentence: str
    points: int
    errors: tuple[Error, ...]

    def __repr__(self) -> str:
        return f"Explorer({self.sentence!r}, points={self.points}, errors={self.errors!r})"

    def save(self, path: Path) -> None:
        """Write the page, atomically."""
        try:
            write_whole(path, self.html)
        except OSError as error:
            raise InputError(f"{path}: the page cannot be written there ({error.strerror})") from None


@any_spelling
def explore(
    *,
    seed: int = 0,
    progress: Progress | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    **options: Unpack[Axes],
) -> Explorer:
    """One offline page whose sliders move the prediction.

    Parameters
    ----------
    seed : of the draws behind intervals.
    progress : called with the parts done and all parts.
    jobs, cluster : who works, as :func:`ssdsim.sweep` takes them; by default this process, and copies of it on idle
        cores.
    options : those of :func:`ssdsim.configure`; a list says which stops a slider has, or between which ends a rate is
        interpolated.

    Returns
    -------
    Explorer : the page, which :meth:`Explorer.save` writes, and the verdict with which it opens.

    Raises
    ------
    InputError : a mistake in the options, no strategy has room where the page opens, a grid of too many points, or a
        cluster that cannot be reached.
    """
    found = explorer_grid(seed, Workers(jobs, cluster, progress), checked=_RANDOM_PLACES, **options)
    bases = [configure(**_start(found, side)) for side in _sides(found)]
    assert found.stops is not None  # it is the whole grid
    sentence = found.stops.first(found.space)
    lines = dict.fromkeys(line for base in bases for line in _lines(base))
    titles = dict.fromkeys("Unit-free" if base.site is None else base.place for base in bases)
    page = html(found, " / ".join(titles), list(lines), _made_by(options, seed), found.off)
    return Explorer(page, sentence, found.points, found.off)


def _made_by(options: Mapping[str, Any], seed: int) -> str:
    """The command that makes the page again."""
    given = {name: plain_value(value) for name, value in options.items() if value is not None}
    lists = {name: value for name, value in given.items() if is_list_of(name, value)}
    single = {name: value for name, value in given.items() if name not in lists}
    return " ".join(["ssdsim explore", *grid_words(single, lists), *(["--seed", str(seed)] if seed else [])])


def _sides(found: ExplorerGrid) -> list[dict[str, Any]]:
    """The settings that stand side by side; one empty setting if nothing does."""
    name = side_axis(found.space)
    return [{}] if name is None else [{name: value} for value in found.space.axis(name).values]


def _start(found: ExplorerGrid, side: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options with which one side of the page opens."""
    return found.space.options({**found.space.start, **side}, found.space.unsaid)


def _lines(base: Configuration) -> list[str]:
    """Lines on timings, runtime, token inputs and warnings where the page opens."""
    lines = [f"Timings of {record['profile']}: {record['summary']}" for record in base.provenance]
    if base.runtime:
        lines.append(f"Runtime {base.runtime}")
    tokens = inputs_text(base.inputs)
    return [*lines, *([f"Tokens: {tokens}"] if tokens else []), *(f"Warning: {each}" for each in base.warnings)]
