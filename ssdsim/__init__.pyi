# Made by `python -m site_generator.typed_options`.
from calibration.timings.answer import Calibration as Calibration
from calibration.timings.answer import calibrate as calibrate
from calibration.validation.measured import validate_rows as validate_rows
from calibration.validation.replay import validate_paper as validate_paper
from calibration.validation.run import validate as validate
from calibration.validation.tokens.answer import validate_pair as validate_pair
from ssdsim import figures as figures
from ssdsim.advise.compare.compare import Comparison as Comparison
from ssdsim.advise.compare.compare import compare as compare
from ssdsim.advise.export.export import Exported as Exported
from ssdsim.advise.export.export import export as export
from ssdsim.advise.recommend.answer import Recommendation as Recommendation
from ssdsim.advise.recommend.answer import recommend as recommend
from ssdsim.advise.schedule.schedule import schedule as schedule
from ssdsim.answers.grid import evaluate as evaluate
from ssdsim.answers.predict import Prediction as Prediction
from ssdsim.answers.predict import predict as predict
from ssdsim.answers.roofline import roofline as roofline
from ssdsim.answers.simulation.simulate import simulate as simulate
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
from ssdsim.hardware.catalog import find_hardware as find_hardware
from ssdsim.hardware.catalog import find_transformer as find_transformer
from ssdsim.hardware.profile import HardwareProfile as HardwareProfile
from ssdsim.question.configuration import Configuration as Configuration
from ssdsim.question.configuration import configure as configure
from ssdsim.reports.build import Report as Report
from ssdsim.reports.build import report as report
from ssdsim.reports.explorer.build import Explorer as Explorer
from ssdsim.reports.explorer.build import explore as explore
from ssdsim.serving.schedule_file import Schedule as Schedule
from ssdsim.serving.serve import serve as serve
from ssdsim.transformer.card import Transformer as Transformer
from ssdsim.transformer.forward import ForwardPass as ForwardPass
from ssdsim.transformer.forward import forward_pass as forward_pass

__version__: str
__all__: list[str]
_HOME: dict[str, str]
_MODULES: tuple[str, ...]
