"""The base of every record that comes from a file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from ssdsim.errors import nearest


class Card(BaseModel):
    """A frozen record; an unknown key is an error that names the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
