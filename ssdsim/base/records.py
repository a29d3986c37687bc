"""The base of every record that comes from a file, and the numbers that its fields hold."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from ssdsim.base.errors import nearest

# Wide enough for anything that exists, narrow enough that no product of a few leaves the floats.
Count = Annotated[int, Field(gt=0, le=10**15)]
Positive = Annotated[float, Field(ge=1e-40, le=1e40)]
NotNegative = Annotated[float, Field(ge=0.0, le=1e40)]
Coefficient = Annotated[float, Field(ge=-1e40, le=1e40)]
Seconds = Annotated[float, Field(ge=0.0, le=1e3)]
"""The seconds of one launch, message or gap."""
MOST_LOG_SD = 10.0
LogSd = Annotated[float, Field(ge=0.0, le=MOST_LOG_SD)]
"""Standard deviation of a logarithm: 10 is wrong by a factor of 20,000 or its inverse, one time in three."""

FROM_LIST = Strict(False)
"""Marks a tuple, which JSON and TOML write as a list, and a number that is a key, which JSON writes as text."""


def of_one_length(*names: str) -> Any:
    """A check of a card: these lists of its have one length."""
    said = f"{', '.join(names[:-1])} and {names[-1]} must be lists of one length"

    def check(card: Any) -> Any:
        if len({len(getattr(card, name)) for name in names}) > 1:
            raise ValueError(said)
        return card

    return model_validator(mode="after")(check)


class Card(BaseModel):
    """A frozen record; an unknown key is an error that names the nearest known one.

    A number is a finite number: neither text nor a boolean is taken for one. Files of cards do without
    ``from __future__ import annotations``: it makes texts of annotations, and reading these slows every start.
    """

    # built when first used: a verb reads a few of the forty records that it imports
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in known:
                    hint = nearest(str(key), known)
                    raise ValueError(f"unknown key '{key}'{hint} Allowed: {', '.join(known)}")
        return data
