"""ssdsim: is speculative speculative decoding worth one more GPU?

``import ssdsim`` is light: every name below is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.3.0"

_HOME = {
    "Comparison": "ssdsim.answers.compare.compare",
    "Calibration": "calibration.answer",
    "Configuration": "ssdsim.scenario.configuration",
    "Explorer": "ssdsim.reports.explorer.build",
    "Exported": "ssdsim.answers.export.export",
    "ForwardPass": "ssdsim.transformer.forward",
    "HardwareProfile": "ssdsim.hardware.profile",
    "InputError": "ssdsim.base.errors",
    "PowerLawFit": "ssdsim.answers.token_model",
    "Prediction": "ssdsim.answers.predict",
    "Recommendation": "ssdsim.answers.recommend.answer",
    "Report": "ssdsim.reports.build",
    "Schedule": "ssdsim.answers.schedule.file",
    "TokenModel": "ssdsim.answers.token_model",
    "TokenModelFit": "ssdsim.answers.token_model",
    "TokenRates": "ssdsim.answers.token_rates",
    "TokenRounds": "ssdsim.answers.token_model",
    "Transformer": "ssdsim.transformer.card",
    "calibrate": "calibration.answer",
    "compare": "ssdsim.answers.compare.compare",
    "configure": "ssdsim.scenario.configuration",
    "evaluate": "ssdsim.answers.grid",
    "explore": "ssdsim.reports.explorer.build",
    "export": "ssdsim.answers.export.export",
    "find_hardware": "ssdsim.hardware.catalog",
    "find_transformer": "ssdsim.hardware.catalog",
    "fit_power_law": "ssdsim.answers.token_model",
    "fit_token_model": "ssdsim.answers.token_model",
    "forward_pass": "ssdsim.transformer.forward",
    "predict": "ssdsim.answers.predict",
    "recommend": "ssdsim.answers.recommend.answer",
    "report": "ssdsim.reports.build",
    "roofline": "ssdsim.answers.roofline",
    "schedule": "ssdsim.answers.schedule.schedule",
    "serve": "ssdsim.answers.serving.serve",
    "simulate": "ssdsim.engine.simulate",
    "sweep": "ssdsim.answers.sweep.sweep",
    "validate": "ssdsim.validation.run",
    "validate_pair": "ssdsim.validation.tokens.answer",
    "validate_paper": "ssdsim.validation.replay",
    "validate_rows": "ssdsim.validation.measured",
    "window": "ssdsim.answers.window",
}
_MODULES = ("figures",)
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"ssdsim.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ssdsim' has no attribute '{name}'")
    try:
        return getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        from ssdsim.base.extras import told

        if (missing := told(error)) is None:
            raise
        raise ModuleNotFoundError(f"ssdsim.{name}: {missing}", name=error.name) from None


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
