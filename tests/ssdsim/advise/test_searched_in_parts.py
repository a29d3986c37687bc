"""A search that copies of the process share: they begin in a process of its own, which has one thread at first."""

from __future__ import annotations

import json
import subprocess
import sys
from threading import Event, Thread

import pytest

from ssdsim.advise.recommend.launch_plan import as_json
from ssdsim.advise.recommend.recommendation import make_request, recommend
from ssdsim.advise.recommend.search import Search
from ssdsim.answers.grid import Repriced
from ssdsim.answers.idle_cores import IdleCores

# the larger batch has no room in some placements
ASKED = {"gpus": 8, "b": [1, 512], "k": [2, 7], "strategies": "ar,ssd", "draft_gpus": [1, 4]}


def _found(idle: int) -> tuple[str, int]:
    """Every case in order, and the answer; how many cases another process has priced."""
    IdleCores.free = lambda cores: idle  # type: ignore[method-assign]
    search = Search(make_request(rank="user", gpu_hour=None, at_least=None, seed=0, **ASKED))  # type: ignore[arg-type]
    search.run()
    for one in search.priced.values():
        assert one.scenario.estimate.tokens_per_second == one.tokens_per_second
    rates = [(case, one.tokens_per_second) for case, one in search.priced.items()]
    rest = search.errors, search.refused, sorted(search.warnings)
    answer = json.dumps(as_json(recommend(**ASKED)))  # type: ignore[arg-type]
    return f"{rates}\n{rest}\n{answer}", sum(isinstance(one.scenarios, Repriced) for one in search.priced.values())


def _is_the_same_whoever_helps() -> None:
    """Whoever works alone does so last, so that no copy knows what it has found."""
    helped, elsewhere = _found(1)
    assert elsewhere > 0
    done = Event()
    Thread(target=done.wait).start()  # beside which nothing is forked: one part after the other is searched here
    try:
        in_turn, elsewhere = _found(1)
    finally:
        done.set()
    assert elsewhere == 0
    assert _found(0) == (helped, 0) == (in_turn, 0)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux alone")
def test_the_answer_is_the_same_whoever_helps() -> None:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    _is_the_same_whoever_helps()
