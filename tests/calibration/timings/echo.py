"""What ranks do for the tests of ranks; imports little, for each of them imports it."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch

from calibration.machine.devices import group_of


def make_echo(rank: int, device: torch.device, options: dict[str, Any]) -> Any:
    """A handler for the tests of ranks: answers, waits, raises or reduces as it is asked."""
    target = group_of(range(2), device, options["collective_s"]) if "collective_s" in options else None

    def handle(request: dict[str, Any]) -> Any:
        if request.get("sleep_on") == rank:
            time.sleep(request["seconds"])
        if request.get("raise_on") == rank:
            raise ValueError("no luck")
        if request.get("die_on") == rank:
            time.sleep(0.2)  # the others are in the collective by then
            os.kill(os.getpid(), signal.SIGKILL)
        if request.get("reduce"):
            total = torch.tensor([float(rank + 1)])
            torch.distributed.all_reduce(total)
            return float(total)
        if request.get("reduce_target") and rank < 2:
            torch.distributed.all_reduce(torch.zeros(1), group=target)
        if "silence_s" in request:
            return _word_after(request["silence_s"], rank)
        return rank, os.getpid(), sorted(os.sched_getaffinity(0))

    return handle


def _word_after(silence_s: float, rank: int) -> int:
    """A word of rank 0, for which rank 1 waits."""
    from calibration.machine.executor.messages import Post

    post, word = Post({"other": 1 - rank}, {"word": 1}), 7
    if rank == 1:
        word = post.wait("word")
    else:
        time.sleep(silence_s)
        post.send("other", "word", word)
    post.close()
    return word
