"""ssdsim: is speculative speculative decoding worth one more GPU?

``import ssdsim`` is light: every name below is loaded when it is first used.
"""

from importlib import import_module

TYPE_CHECKING = False  # checkers take it for True; what loads typing and __future__ takes time before Ctrl-C is heard
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.3.0"

_HOME = {
    "Calibration": "calibration.timings.answer",
    "Configuration": "ssdsim.question.configuration",
    "Explorer": "ssdsim.reports.explorer.build",
    "Exported": "ssdsim.advise.export.export",
    "ForwardPass": "ssdsim.transformer.forward",
    "HardwareProfile": "ssdsim.hardware.profile",
    "InputError": "ssdsim.base.errors",
    "PowerLawFit": "ssdsim.answers.token_model",
    "Prediction": "ssdsim.answers.predict",
    "Recommendation": "ssdsim.advise.recommend.recommendation",
    "Report": "ssdsim.reports.build",
    "Schedule": "ssdsim.serving.schedule_file",
    "TokenModel": "ssdsim.answers.token_model",
    "TokenModelFit": "ssdsim.answers.token_model",
    "TokenRates": "ssdsim.answers.token_rates",
    "TokenRounds": "ssdsim.answers.token_model",
    "Transformer": "ssdsim.transformer.card",
    "calibrate": "calibration.timings.answer",
    "compare": "ssdsim.advise.recommend.recommendation",
    "configure": "ssdsim.question.configuration",
    "evaluate": "ssdsim.answers.grid",
    "explore": "ssdsim.reports.explorer.build",
    "export": "ssdsim.advise.export.export",
    "find_hardware": "ssdsim.hardware.catalog",
    "find_transformer": "ssdsim.hardware.catalog",
    "fit_power_law": "ssdsim.answers.token_model",
    "fit_token_model": "ssdsim.answers.token_model",
    "forward_pass": "ssdsim.transformer.forward",
    "plan": "ssdsim.serving.serve",
    "predict": "ssdsim.answers.predict",
    "recommend": "ssdsim.advise.recommend.recommendation",
    "report": "ssdsim.reports.build",
    "roofline": "ssdsim.answers.roofline",
    "schedule": "ssdsim.advise.schedule",
    "serve": "ssdsim.serving.serve",
    "simulate": "ssdsim.answers.simulation.simulate",
    "sweep": "ssdsim.answers.sweep",
    "validate": "calibration.validation.run",
    "validate_pair": "calibration.validation.tokens.answer",
    "validate_paper": "calibration.validation.replay",
    "validate_rows": "calibration.validation.measured",
    "window": "ssdsim.answers.window",
}
_MODULES = ("figures",)
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> "Any":
    if name in _MODULES:
        return import_module(f"ssdsim.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ssdsim' has no attribute '{name}'")
    try:
        return getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        from ssdsim.base.extras import install_hint

        if (missing := install_hint(error)) is None:
            raise
        raise ModuleNotFoundError(f"ssdsim.{name}: {missing}", name=error.name) from None


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
