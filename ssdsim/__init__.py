"""ssdsim: is speculative speculative decoding worth one more GPU?

``import ssdsim`` is light: every name below is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "InputError": "ssdsim.errors",
    "configure": "ssdsim.configuration",
    "find_hardware": "ssdsim.catalog",
    "find_transformer": "ssdsim.catalog",
    "forward_pass": "ssdsim.transformer",
    "predict": "ssdsim.predict",
    "recommend": "ssdsim.recommendation.answer",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ssdsim' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
