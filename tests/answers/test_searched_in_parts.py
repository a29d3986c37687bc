"""A search that copies of the process share: they begin in a process of its own, which has one thread."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ssdsim.answers.grid import Again
from ssdsim.answers.idle_cores import IdleCores
from ssdsim.answers.recommend.answer import make_request, recommend
from ssdsim.answers.recommend.as_json import as_json
from ssdsim.answers.recommend.search import Search

BATCHES = [1, 6, 512]  # the largest has no room in some placements


def _answered(idle: int) -> None:
    """Write what is found with the help of so many copies: every case in order, and the answer.

    On stderr: how many cases another process has priced.
    """
    IdleCores.free = lambda cores: idle  # type: ignore[method-assign]
    asked = {"rank": "user", "gpu_hour": None, "at_least": None, "seed": 0}
    search = Search(make_request(gpus=8, b=BATCHES, k=[2, 4, 7], **asked))  # type: ignore[arg-type]
    search.run()
    for case, one in search.found.items():
        assert one.scenario.estimate.tokens_per_second == one.tokens_per_second
        print(case, one.tokens_per_second)
    print(search.errors, search.refused, sorted(search.warnings))
    print(json.dumps(as_json(recommend(gpus=8, b=BATCHES, k=[2, 4, 7], draft_gpus=[1, 4]))))
    print(sum(isinstance(one.scenarios, Again) for one in search.found.values()), file=sys.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux alone")
def test_the_answer_is_the_same_whoever_helps() -> None:
    def told(idle: int) -> tuple[str, int]:
        command = [sys.executable, __file__, str(idle)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout, int(done.stderr)

    alone, elsewhere = told(0)
    assert elsewhere == 0
    for copies in (1, 3):
        helped, elsewhere = told(copies)
        assert elsewhere > 0
        assert helped == alone


if __name__ == "__main__":
    _answered(int(sys.argv[1]))
