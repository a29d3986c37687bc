"""Lengths of prompts and answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.kinds import Kind, Whole
from ssdsim.base.record import Record

MOST_TOKENS = 1_000_000
_SHAPES = {"lognormal": 2, "geometric": 1, "uniform": 2}


class Lengths(Record):
    """``shape`` with its numbers: ``constant`` (tokens), ``lognormal`` (mean, standard deviation), ``geometric``
    (mean), ``uniform`` (first, last). Every length is at least one token.
    """

    shape: str
    numbers: tuple[float, ...]

    @staticmethod
    def parse(text: str | int, option: str) -> Lengths:
        """``256``, ``4k``, ``lognormal:256,100``, ``geometric:256``, ``uniform:100,400``."""
        text = str(text)
        shape, colon, rest = text.partition(":")
        if not colon:
            shape, rest = "constant", text
        elif shape not in _SHAPES:
            raise InputError(
                f"{option} {text}: no such shape{nearest(shape, _SHAPES)} Allowed: N, {', '.join(_SHAPES)}"
            )
        try:
            numbers = tuple(map(_tokens, rest.split(",")))
        except ValueError:
            numbers = ()
        if len(numbers) != _SHAPES.get(shape, 1) or not all(0.0 <= number <= MOST_TOKENS for number in numbers):
            wanted = "two numbers of tokens" if _SHAPES.get(shape, 1) > 1 else "a number of tokens such as 1024 or 4k"
            raise InputError(f"{option} {text}: {wanted} wanted, at most {MOST_TOKENS:,}")
        if (
            numbers[0] < 1
            or (shape == "constant" and numbers[0] % 1)
            or (shape == "uniform" and numbers[1] < numbers[0])
        ):
            raise InputError(f"{option} {text}: at least one token is needed, whole and from low to high")
        return Lengths(shape, numbers)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """``count`` lengths; as many random numbers are taken whatever the shape."""
        uniform = rng.random(count)
        return np.clip(np.rint(self._quantile(uniform)), 1, MOST_TOKENS).astype(np.int64)

    def _quantile(self, uniform: Array) -> Array:
        match self.shape, self.numbers:
            case "lognormal", (mean, sd):
                from scipy.special import ndtri

                variance = np.log1p((sd / mean) ** 2)
                return np.asarray(mean * np.exp(np.sqrt(variance) * ndtri(uniform) - variance / 2.0))
            case "geometric", (mean,) if mean > 1.0:
                return np.asarray(np.ceil(np.log1p(-uniform) / np.log1p(-1.0 / mean)))
            case "uniform", (first, last):
                return np.asarray(np.floor(first + uniform * (last - first + 1.0)))
        return np.full(uniform.shape, self.numbers[0])

    def __str__(self) -> str:
        numbers = ",".join(f"{number:g}" for number in self.numbers)
        return numbers if self.shape == "constant" else f"{self.shape}:{numbers}"


def _tokens(text: str) -> float:
    """``4k`` is 4096, as of contexts; a mean need not be whole."""
    return float(Whole().parse(text)) if text[-1:] in ("k", "K") else float(text)


def constant(tokens: int) -> Lengths:
    """Give each request as many tokens."""
    return Lengths("constant", (float(tokens),))


class OfLengths(Kind, Record):
    """:class:`Lengths`, a number of tokens, or the text of one."""

    metavar = "n|shape:n[,n]"
    requirement = f"be a number of tokens, or one of {', '.join(_SHAPES)} with its numbers"

    def checked(self, said: str, value: Any) -> Lengths:
        return value if isinstance(value, Lengths) else Lengths.parse(value, said)
