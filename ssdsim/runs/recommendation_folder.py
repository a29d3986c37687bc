"""A run folder of a recommendation: its answer, the command to paste, and the options of what it recommends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.question.options import files
from ssdsim.runs.layout import COMMAND, CONFIG, RECOMMENDATION
from ssdsim.runs.named_files import keep, names_in_folder, renamed


def keep_recommendation(path: Path, options: Mapping[str, Any], answer: Mapping[str, Any], command: str) -> None:
    """Write the folder; a recommendation that is there is replaced. No ``command``, no file."""
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
