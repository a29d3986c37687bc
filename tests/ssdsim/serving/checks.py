"""What a run must keep, as functions: tests call them on what ssdsim makes, and on what is made wrong on purpose."""

import numpy as np

from ssdsim.serving.journal import Run
from ssdsim.serving.metrics import metrics_of_requests
from ssdsim.serving.policy import Ledger


def one_forced_miss_a_request(run: Run) -> None:
    """Every request that decodes looks in vain once, unless it was preempted and comes again."""
    decodes = run.workload.output_tokens > 1
    assert np.array_equal(run.requests.forced_misses[decodes], 1 + run.requests.preemptions[decodes])


def pace_is_the_time_over_the_tokens(run: Run, tpot_ms: np.ndarray) -> None:
    """What a user waits for an answer after its first token is its pace times its other tokens."""
    each = metrics_of_requests(run)
    after = run.workload.output_tokens - 1
    assert np.allclose(tpot_ms * after, each["e2el"] - each["ttft"])


def gaps_as_paces_ms(run: Run) -> np.ndarray:
    """Wrong on purpose: the mean gap between chunks, each of which may hold several tokens (vLLM issue 51454)."""
    return 1e3 * (run.requests.last_s - run.requests.first_s) / np.maximum(1, run.requests.rounds)


def reserves(ledger: Ledger, slots: int) -> None:
    """A sequence holds so many slots beside its context."""
    assert ledger.reserve == slots


def every_token_was_made(run: Run) -> None:
    """All that can be held is answered, in the order of its times, and nothing else is."""
    requests = run.requests
    assert np.array_equal(run.completed, ~requests.rejected)
    done = run.completed
    assert np.all(requests.scheduled_s[done] >= requests.arrival_s[done] - 1e-12)
    assert np.all(requests.last_s[done] >= requests.first_s[done] - 1e-12)


def time_adds_up(run: Run) -> None:
    """Little's law on a run that starts and ends empty: what is seen in the rounds is what the requests lived."""
    columns = run.columns
    decoding, held = (float((number * run.round_s).sum()) for number in (columns[2] + columns[7], columns[3]))
    lived = np.nansum(run.requests.last_s - run.requests.first_s)
    there = np.nansum(run.requests.last_s - run.requests.scheduled_s)
    assert np.isclose(decoding, lived, rtol=1e-9, atol=1e-9)
    assert np.isclose(held, there, rtol=1e-9, atol=1e-9)
