"""Checks of what callers pass: cheap, and one clear line when they fail."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from math import prod
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.errors import InputError, short_repr

# A float where every input is a scalar, else an array of the broadcast shape (as numpy's ufuncs).
FloatOrArray = Any
Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
"""Arrays of floats of any width: what models say comes in single precision."""


def float_or_array(value: Any) -> FloatOrArray:
    """A Python float for a scalar, the array itself otherwise."""
    return float(value) if np.ndim(value) == 0 else value


def within(name: str, value: ArrayLike, low: float, high: float = np.inf) -> Array:
    """``value`` as a float array, every element of it finite and in ``[low, high]``; InputError otherwise."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):  # text, None, a complex number, lists of different lengths
        raise InputError(f"{name} must be a number or an array of numbers, got {short_repr(value)}") from None
    if array.size == 0:
        raise InputError(f"{name} is empty: at least one value is needed")
    least, most = array.min(), array.max()
    if not (least >= low and most <= high and most < np.inf):  # NaN fails every comparison
        allowed = f"lie in [{low:g}, {high:g}]" if high < np.inf else f"be finite and at least {low:g}"
        raise InputError(f"{name} must {allowed}, got {_said(most if least >= low else least, low, high)}")
    return array


def _said(outside: float, low: float, high: float) -> str:
    """A number that is out of a range: with all its digits where a few would put it inside."""
    short = f"{outside:g}"
    return repr(float(outside)) if low <= float(short) <= high and np.isfinite(outside) else short


def whole(name: str, value: int, low: int, high: int | None = None) -> int:
    """``value`` as an int of at least ``low``, and at most ``high`` if given; InputError otherwise."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {short_repr(value)}") from None
    if number < low:
        raise InputError(f"{name} must be at least {low}, got {short_repr(number)}")
    if high is not None and number > high:
        raise InputError(f"{name} must be at most {high:,}, got {short_repr(number)}")
    return number


def few_enough(what: str, axes: Iterable[Collection[Any]], most: int) -> None:
    """Raise :class:`InputError` where the lists have more than ``most`` combinations."""
    count = prod(map(len, axes))
    if count > most:
        raise InputError(f"{count:,} {what} are too many: at most {most:,}")


def text(name: str, value: Any) -> str:
    """``value``, text or a path, as text that is not empty; InputError otherwise."""
    given = str(value) if isinstance(value, str | PurePath) else ""
    if not given or "\0" in given or not is_text(given):
        raise InputError(f"{name} must be a name or a path, got {short_repr(value)}")
    return given


def is_text(given: str) -> bool:
    """Whether text is valid Unicode: a path may hold bytes that are no characters."""
    return given == given.encode(errors="ignore").decode()


def listed(name: str, value: Any) -> list[Any]:
    """The distinct values of what may be one value or several (list, tuple, range, array), in their order."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    try:
        values = list(dict.fromkeys(value)) if isinstance(value, list | tuple | range) else list({value: None})
    except TypeError:
        raise InputError(f"{name} must be one value or a list of values, got {short_repr(value)}") from None
    if not values or None in values:
        what = "has None in its list" if values else "is an empty list"
        raise InputError(f"{name} {what}: at least one value is needed")
    return values


def distribution(name: str, value: ArrayLike) -> Array:
    """``value`` as probabilities along the last axis that sum to 1; InputError otherwise."""
    array = within(name, value, 0, 1 + 1e-9)
    if array.ndim == 0:
        raise InputError(f"{name} must be an array of probabilities, got one number")
    total = array.sum(axis=-1)
    if np.max(np.abs(total - 1)) > 1e-6:
        raise InputError(f"{name} must sum to 1, got {total.flat[np.argmax(np.abs(total - 1))]:g}")
    return array
