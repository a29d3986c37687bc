"""Answers on a cluster: the same bytes as on one machine, whatever dies; what is wrong is one line."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ssdsim
from ssdsim.answers.worker_processes import Shared
from ssdsim.base.errors import InputError
from ssdsim.base.plain import plain
from ssdsim.serving.answer import as_json
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),  # a killed worker makes Dask warn of what it lost
]


def _swept(**who: Any) -> str:
    """Of 32 points of Monte Carlo, in 8 parts."""
    grid: dict[str, Any] = {"alpha": [0.6, 0.8], "k": [3, 5], "p_hit": [0.6, 0.7, 0.8, 0.9], "b": [1, 4]}
    table = ssdsim.sweep(t_sd=0.2, strategies="sd,ssd", solver="mc", precision=0.01, **grid, **who)
    return str(table.to_json(double_precision=15))


def _explored(**who: Any) -> str:
    """The page, in a part for each K."""
    return ssdsim.explore(t_sd=0.2, alpha=[0.6, 0.9], p_hit=[0.5, 0.9], b=4, k=[3, 4, 5, 6], **who).html


def _served(**who: Any) -> str:
    """In 6 runs."""
    found = ssdsim.serve(rate=[1.0, 2.0, 4.0], strategies="sd,ssd", requests=200, output_len=64, **who)
    return json.dumps(plain(as_json(found, None)))


ANSWERS = [_swept, _explored, _served]
Answer = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of two workers, processes as on two machines."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as started:
        yield started.scheduler_address


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_killed_worker_costs_its_share_and_changes_no_byte(cluster: str, answer: Answer) -> None:
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=30)  # where one was killed before, another comes in its place
        pids = sorted(client.run(os.getpid).values())
    assert len(set(pids)) == 2
    seen: list[tuple[int, int]] = []

    def kill_one(done: int, size: int) -> None:
        seen.append((done, size))
        if len(seen) == 2:
            os.kill(pids[0], signal.SIGKILL)

    there = answer(cluster=cluster, progress=kill_one)
    done, size = zip(*seen, strict=True)
    assert len(seen) > 3
    assert list(done) == sorted(set(done)), "a part came twice"
    assert done[-1] == size[-1]
    assert there == answer()


class _Busy:
    """What a piece is at work on: it cannot be pickled while it changes."""

    at_work = False

    def __reduce__(self) -> tuple[type[_Busy], tuple[()]]:
        if self.at_work:
            raise RuntimeError("dictionary changed size during iteration")
        return _Busy, ()


def test_a_worker_at_work_sends_what_it_received() -> None:
    """A worker that came late asked another for the shared part, in vain, and its piece waited for ever."""
    copy = pickle.loads(pickle.dumps(Shared(_Busy())))
    copy.value.at_work = True
    assert isinstance(pickle.loads(pickle.dumps(copy)).value, _Busy)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a worker with an older ssdsim."""
    from distributed import Client, LocalCluster

    folder = tmp_path_factory.mktemp("older")
    package = Path(ssdsim.__file__).parent
    shutil.copytree(package, folder / "ssdsim", ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "ssdsim" / "__init__.py").read_text()
    (folder / "ssdsim" / "__init__.py").write_text(text.replace(f'"{ssdsim.__version__}"', '"0.0.1"'))
    with LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as scheduler:
        address: str = scheduler.scheduler_address
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard", "--nworkers", "1"]
        worker = subprocess.Popen(
            [*command, "--nthreads", "1", "--local-directory", str(folder)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with Client(address, set_as_default=False) as client:
                client.wait_for_workers(1, timeout=120)
            yield address
        finally:
            worker.terminate()
            worker.wait(timeout=60)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_worker_of_another_version_is_refused_in_one_line(older: str, answer: Answer) -> None:
    message = f"a worker has ssdsim 0.0.1, here is {ssdsim.__version__}: install one version on both sides"
    with pytest.raises(InputError, match=message):
        answer(cluster=older)


COMMANDS = ["sweep --t-sd 0.2 --b 1,2", "explore --t-sd 0.2 --b 1,2 --k 3,4", "plan --rate 1,2 --requests 20 --quiet"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_that_is_not_there_is_one_line_in_bounded_time(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ssdsim.answers.cluster.CONNECT_S", 1.0)
    monkeypatch.chdir(tmp_path)
    done = asked(*command.split(), "--cluster", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "--cluster tcp://127.0.0.1:9: no Dask scheduler answers within 1 s" in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_address_that_is_none_is_refused_before_any_work(command: str) -> None:
    assert_refused(asked(*command.split(), "--cluster", "nonsense"), "--cluster", "nonsense")
