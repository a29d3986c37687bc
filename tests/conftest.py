"""What all tests share: one thread each for their arithmetic, the cores, Ctrl-C, and which of them are quick.

``pytest -n 2`` runs all but the nightly proofs, ``pytest -n 2 -m quick`` what is over in two minutes (no ranks,
browser, notebook, cluster or wheel, no many draws), ``pytest -n 2 -m slow`` the proofs at full power. Without ``-n``
the same runs in one process.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from hypothesis import settings

from tests import examples
from tests.calibration.timings.process import SHORT_GRID, ctrl_c_interrupts, stop_and_resume
from tests.cores import Cores

if TYPE_CHECKING:
    from tests.ssdsim.reports.browser import Browser

# Before numpy comes: on a busy core OpenBLAS's threads spin for each other, and fits take five times the work.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# Thousands of tests and the libraries they need stay, and the collector would look at them again and again.
gc.set_threshold(50_000, 20, 100)

settings.register_profile("busy", deadline=None)  # on a busy machine an example takes as long as it takes
settings.load_profile("busy")

_PROCESSES = {"ranks", "browser", "notebooks", "cluster", "wheel"}
_LONGER = {*_PROCESSES, "long", "slow"}


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have what their run has
        _take_own_temporary_folder()
    config.pluginmanager.register(Cores(Path(__file__).parent), "cores")
    config.pluginmanager.register(examples, "examples")


def _take_own_temporary_folder() -> None:
    """A folder for what processes of this run call temporary: killed ones, and browsers, leave it behind.

    It goes after multiprocessing's own folder in it. What pytest keeps of its last runs stays where it was.
    """
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="ssdsim-tests-")
    tempfile.tempdir = None  # so that it is looked for again
    Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=-200)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _LONGER.isdisjoint(mark.name for mark in item.iter_markers()):
            item.add_marker("quick")
    if "PYTEST_XDIST_WORKER" in os.environ:  # the longest files first, so that none is left to one worker at the end
        longest = {item.path for item in items if not _PROCESSES.isdisjoint(mark.name for mark in item.iter_markers())}
        items.sort(key=lambda item: item.path not in longest)


@pytest.fixture(scope="session", autouse=True)
def _nobodys_profiles(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No profile of whoever runs the tests is found, and none is left with them."""
    os.environ["SSDSIM_DATA"] = str(tmp_path_factory.mktemp("data"))


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts this process and those it starts."""
    with ctrl_c_interrupts():
        yield


@pytest.fixture(scope="session")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``validation-profile.json`` and its log, whose making was stopped three times and resumed."""
    return _made_once(
        tmp_path_factory,
        "calibration",
        lambda folder: stop_and_resume(folder / "validation-profile.json", *SHORT_GRID),
    )


def _made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that ``make`` fills, for all workers of a run: the first that wants it makes it, the others wait."""
    run = factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else factory.getbasetemp()
    folder = run / name
    with FileLock(run / f"{name}.lock"):
        if not folder.exists():
            make(beginning := factory.mktemp(name))
            beginning.rename(folder)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser of the tests of one file."""
    from tests.ssdsim.reports.browser import Browser

    with Browser(tmp_path_factory.mktemp("profile")) as running:
        yield running
