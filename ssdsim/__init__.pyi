# Made by `python -m site_generator.typed_options`.
from calibration.answer import Calibration as Calibration
from calibration.answer import calibrate as calibrate
from ssdsim import figures as figures
from ssdsim.answers.compare.compare import Comparison as Comparison
from ssdsim.answers.compare.compare import compare as compare
from ssdsim.answers.export.export import Exported as Exported
from ssdsim.answers.export.export import export as export
from ssdsim.answers.grid import evaluate as evaluate
from ssdsim.answers.predict import Prediction as Prediction
from ssdsim.answers.predict import predict as predict
from ssdsim.answers.recommend.answer import Recommendation as Recommendation
from ssdsim.answers.recommend.answer import recommend as recommend
from ssdsim.answers.roofline import roofline as roofline
from ssdsim.answers.schedule.file import Schedule as Schedule
from ssdsim.answers.schedule.schedule import schedule as schedule
from ssdsim.answers.serving.serve import serve as serve
from ssdsim.answers.sweep.sweep import sweep as sweep
from ssdsim.answers.token_model import PowerLawFit as PowerLawFit
from ssdsim.answers.token_model import TokenModel as TokenModel
from ssdsim.answers.token_model import TokenModelFit as TokenModelFit
from ssdsim.answers.token_model import TokenRounds as TokenRounds
from ssdsim.answers.token_model import fit_power_law as fit_power_law
from ssdsim.answers.token_model import fit_token_model as fit_token_model
from ssdsim.answers.token_rates import TokenRates as TokenRates
from ssdsim.answers.window import window as window
from ssdsim.base.errors import InputError as InputError
from ssdsim.engine.simulate import simulate as simulate
from ssdsim.hardware.catalog import find_hardware as find_hardware
from ssdsim.hardware.catalog import find_transformer as find_transformer
from ssdsim.hardware.profile import HardwareProfile as HardwareProfile
from ssdsim.reports.build import Report as Report
from ssdsim.reports.build import report as report
from ssdsim.reports.explorer.build import Explorer as Explorer
from ssdsim.reports.explorer.build import explore as explore
from ssdsim.scenario.configuration import Configuration as Configuration
from ssdsim.scenario.configuration import configure as configure
from ssdsim.transformer.card import Transformer as Transformer
from ssdsim.transformer.forward import ForwardPass as ForwardPass
from ssdsim.transformer.forward import forward_pass as forward_pass
from ssdsim.validation.measured import validate_rows as validate_rows
from ssdsim.validation.replay import validate_paper as validate_paper
from ssdsim.validation.run import validate as validate
from ssdsim.validation.tokens.answer import validate_pair as validate_pair

__version__: str
__all__: list[str]
_HOME: dict[str, str]
_MODULES: tuple[str, ...]
