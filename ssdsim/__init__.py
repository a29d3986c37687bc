"""ssdsim: is speculative speculative decoding worth one more GPU?

``import ssdsim`` is light: every name below is loaded when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Configuration": "ssdsim.configuration",
    "Exported": "ssdsim.export",
    "ForwardPass": "ssdsim.transformer",
    "HardwareProfile": "ssdsim.hardware",
    "InputError": "ssdsim.errors",
    "PowerLawFit": "ssdsim.token_model",
    "Prediction": "ssdsim.predict",
    "Recommendation": "ssdsim.recommendation.answer",
    "Report": "ssdsim.report.build",
    "Schedule": "ssdsim.schedule",
    "TokenModel": "ssdsim.token_model",
    "TokenModelFit": "ssdsim.token_model",
    "TokenRates": "ssdsim.token_model",
    "TokenRounds": "ssdsim.token_model",
    "Transformer": "ssdsim.transformer",
    "configure": "ssdsim.configuration",
    "evaluate": "ssdsim.grid",
    "export": "ssdsim.export",
    "find_hardware": "ssdsim.catalog",
    "find_transformer": "ssdsim.catalog",
    "fit_power_law": "ssdsim.token_model",
    "fit_token_model": "ssdsim.token_model",
    "forward_pass": "ssdsim.transformer",
    "predict": "ssdsim.predict",
    "recommend": "ssdsim.recommendation.answer",
    "report": "ssdsim.report.build",
    "roofline": "ssdsim.roofline",
    "schedule": "ssdsim.schedule",
    "sweep": "ssdsim.sweep",
    "window": "ssdsim.window",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ssdsim' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Importing ``ssdsim.predict`` would put the module where the function of that name belongs: it may not."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
