"""Where the cards that come with ssdsim are."""

from __future__ import annotations

from functools import cache, lru_cache
from os.path import isfile  # it takes any text for a path, pathlib's raises at some
from pathlib import Path


@cache
def models_folder() -> Path:
    """``models/``: beside the package in a checkout, inside it in an installed wheel."""
    inside = Path(__file__).parent / "models"
    return inside if inside.is_dir() else Path(__file__).parents[1] / "models"


@lru_cache(maxsize=1024)  # looked up thousands of times in a sweep; bundled cards do not come and go
def bundled_card(folder: str, name: str, suffix: str) -> Path | None:
    """The card of that name among those that come with ssdsim."""
    path = models_folder() / folder / f"{name}{suffix}"
    return path if Path(name).name == name and isfile(path) else None


def state_of(path: Path) -> tuple[Path, int, int, int]:
    """What tells a changed file from an unchanged one."""
    status = path.stat()
    return path, status.st_mtime_ns, status.st_size, status.st_ino
