"""The cards that come with ssdsim: where they are, and how one of a kind is found by its name, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from os.path import exists, expanduser  # they take any text for a path, pathlib's raise at some
from pathlib import Path
from typing import Generic, TypeVar

from ssdsim.base.errors import InputError, closest
from ssdsim.base.record import Record, field

T = TypeVar("T")


@cache
def models_folder() -> Path:
    """``models/``: beside the package in a checkout, inside it in an installed wheel."""
    inside = Path(__file__).parents[1] / "models"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "models"


class Shelf(Record, Generic[T]):
    """The cards of one kind: files ``models/FOLDER/NAME.SUFFIX``, and those that are ``built_in`` here.

    ``load`` reads a card from a file. A complaint of an unknown name calls the kind ``what``, and says what is allowed
    ``besides`` the names and the user's ``own``; of a name that may mean several cards it says what ``differs``. It
    suggests the nearest name of those that a slip is ``like``, or else the ``road`` to a card that is not there.
    """

    what: str
    folder: str
    suffix: str
    load: Callable[[Path], T]
    besides: tuple[str, ...] = ()
    built_in: Mapping[str, T] = field(default_factory=dict)
    differs: Callable[[T], str] | None = None
    own: Callable[[], Iterable[str]] = tuple
    like: Callable[[str, str], bool] = lambda called, name: True
    road: Callable[[str], str] = lambda called: ""

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """The files of bundled cards by their names; they do not come and go."""
        files = (models_folder() / self.folder).glob(f"*{self.suffix}")
        return dict(sorted((path.stem, path) for path in files))

    def names(self) -> list[str]:
        """The names of the bundled cards."""
        return [*self.built_in, *self.files]

    def cards(self) -> list[T]:
        """The bundled cards, by name."""
        return [self.find(name) for name in self.names()]

    def bundled(self, name: str) -> T | None:
        """The bundled card of exactly that name; None where there is none."""
        return self.load(self.files[name]) if name in self.files else self.built_in.get(name)

    def find(self, name: str) -> T:
        """The bundled card of that name, matched without case, ``_`` and blanks as ``-``, or the card in a file."""
        called = name.lower().replace("_", "-").replace(" ", "-")
        card, path = self.bundled(called), Path(expanduser(name))
        if card is not None:
            return card
        if exists(path) or path.suffix == self.suffix:
            return self.load(path)
        raise self.unknown(name, called)

    def unknown(self, name: object, called: str) -> InputError:
        """The error about a name that no card has, with the nearest card's."""
        names = self.names()
        if len(several := may_mean(called, names)) > 1:
            return InputError(f"{self.what} '{name}' may mean {' or '.join(map(self._told_apart, several))}: name one")
        allowed = ", ".join((*names, *self.own(), *self.besides))
        close = closest(called, (each for each in names if self.like(called, each)))
        road = "" if close else self.road(str(name))
        hint = f"; did you mean '{close}'?" if close else "."
        return InputError(f"unknown {self.what} '{name}'{hint} Allowed: {allowed}{road and f'. {road}'}")

    def _told_apart(self, name: str) -> str:
        return name if self.differs is None else f"{name} ({self.differs(self.find(name))})"


def may_mean(name: str, names: Iterable[str]) -> list[str]:
    """The ``names`` that a short or loose spelling may mean.

    ``h200`` means ``h200-sxm``, whatever variants that has; ``llama3.1-8b`` means ``llama-3.1-8b``.
    """
    parts, every = name.lower().replace("_", "-").split("-"), list(names)
    alike = [each for each in every if each.replace("-", "") == "".join(parts)]
    longer = alike or [each for each in every if _are_among(parts, each.split("-"))]
    return [each for each in longer if not any(each.startswith(f"{other}-") for other in longer)]


def _are_among(parts: Iterable[str], of: Iterable[str]) -> bool:
    """Whether ``parts`` occur in this order, perhaps with others between them."""
    left = iter(of)
    return all(part in left for part in parts)
