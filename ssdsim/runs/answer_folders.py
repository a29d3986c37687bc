"""Run folders of one answer: a recommendation with its command, or a serving with what its runs measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.question.options import files
from ssdsim.runs.layout import COMMAND, CONFIG, PARTS, RECOMMENDATION, REQUESTS, SERVING, locked_run
from ssdsim.runs.named_files import keep, names_in_folder, renamed

if TYPE_CHECKING:
    import pyarrow as pa


def keep_recommendation(path: Path, options: Mapping[str, Any], answer: Mapping[str, Any], command: str) -> None:
    """Write the folder, over an older recommendation; without a ``command`` there is no file of it."""
    if (path / CONFIG).is_file() and not (path / RECOMMENDATION).is_file():
        raise InputError(f"{path}: holds another run; give another -o")
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = names_in_folder(path, [value for name, value in options.items() if name in files()])
        config = {"schema": 1, "verb": "recommend", "options": renamed(options, names)}
        keep(path, names)
        write_whole(path / RECOMMENDATION, json.dumps(answer, allow_nan=False))
        if command:
            write_whole(path / COMMAND, command)
        else:  # that of before is no longer what is recommended
            (path / COMMAND).unlink(missing_ok=True)
        write_whole(path / CONFIG, tomli_w.dumps(config))
    except OSError as error:
        raise InputError(f"{path}: cannot be used as a run folder ({error.strerror})") from None


class ServingFolder:
    """A serving's folder: ``parts/KEY.json`` is what one run measured, ``parts/KEY.requests`` its requests.

    The key stands for all that shapes the run; requests are Parquet, a line each.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def part(self, key: str) -> str | None:
        """Read what was kept under a key; None if nothing was."""
        path = self._path / PARTS / f"{key}.json"
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def keep(self, key: str, text: str, requests: pa.Table | None = None) -> None:
        """Write a run's part, whole or not at all."""
        if requests is not None:
            _write_requests(self._path / PARTS / f"{key}.requests", requests)
        write_whole(self._path / PARTS / f"{key}.json", text)

    def requests(self, key: str) -> pa.Table:
        """Read the requests that were kept under a key."""
        from ssdsim.base.parquet import read_table  # not where no folder is asked for: it takes long to load

        return read_table(self._path / PARTS / f"{key}.requests")

    def finish(self, answer: Mapping[str, Any], requests: pa.Table | None = None) -> None:
        """Write the answer, the requests of all runs and the config; parts stay, for a run with more rates."""
        config = {"schema": 1, "verb": "serve"}
        if requests is not None:
            _write_requests(self._path / REQUESTS, requests)
        write_whole(self._path / SERVING, json.dumps(answer, allow_nan=False))
        write_whole(self._path / CONFIG, tomli_w.dumps(config))


@contextmanager
def opened_for_serving(path: Path) -> Iterator[ServingFolder]:
    """Open the folder, for one process at a time."""
    with ExitStack() as stack:
        try:
            if (path / CONFIG).is_file() and not (path / SERVING).is_file():
                raise InputError(f"{path}: holds another run; give another -o")
            stack.enter_context(locked_run(path, "serve"))
        except OSError as error:
            raise InputError(f"{path}: cannot be used as a run folder ({error.strerror})") from None
        yield ServingFolder(path)


def _write_requests(path: Path, table: pa.Table) -> None:
    from ssdsim.base.parquet import write_table

    write_table(table, path)
