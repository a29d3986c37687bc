"""Import what nccl-tests and rccl-tests print or write: their text tables of every version, CSV and JSON."""

from calibration.importers.nccl_tests.profile import unlike, with_nccl_tests
from calibration.importers.nccl_tests.timings import OPERATIONS, Timings, read_nccl_tests

__all__ = ["OPERATIONS", "Timings", "read_nccl_tests", "unlike", "with_nccl_tests"]
