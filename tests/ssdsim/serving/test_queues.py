"""Runs against queues whose answers are known: M/G/1, processor sharing, full batches, light traffic."""

import ciw
import numpy as np
import pytest

from ssdsim import configure
from ssdsim.base.intervals import student_quantile
from ssdsim.serving.batching import Batching
from ssdsim.serving.closed_form import Sharing
from ssdsim.serving.journal import Run
from ssdsim.serving.metrics import is_saturated, mean
from ssdsim.serving.replica import simulate
from ssdsim.transformer.prefill import Chunk
from tests.ssdsim.serving.checks import one_forced_miss_a_request
from tests.ssdsim.serving.sample_runs import ELSEWHERE, SMALL, policy, requests, shared

pytestmark = pytest.mark.long


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("prompts", ["512", "lognormal:512,400"])
def test_prompts_one_at_a_time_wait_as_pollaczek_and_khinchine_say(prompts: str, load: float) -> None:
    alone = Batching(prefill="priority", max_batch=1)
    workload = requests(20_000, inputs=prompts, outputs="1", seed=3)
    ar = policy("ar", workload, alone, **SMALL)
    lengths = np.arange(1, int(workload.input_tokens.max()) + 1)
    known = np.array(
        [ar.variants[0].table.prompts_s((Chunk(int(n)),), 0) for n in lengths[:: max(1, lengths.size // 400)]]
    )
    service_s = np.interp(workload.input_tokens, lengths[:: max(1, lengths.size // 400)], known)
    workload = workload.at_rate(load / float(service_s.mean()))
    run = simulate(ar, workload, alone)
    waits = run.requests.scheduled_s - run.requests.arrival_s
    cv2 = float(service_s.var() / service_s.mean() ** 2)
    expected = load * float(service_s.mean()) * (1.0 + cv2) / (2.0 * (1.0 - load))
    parts = np.array([part.mean() for part in np.array_split(waits, 20)])
    half = student_quantile(0.99, 19) * float(parts.std(ddof=1)) / np.sqrt(20)
    assert abs(float(waits.mean()) - expected) <= half + 0.01 * expected  # prompts' times are read off a curve here


@pytest.mark.parametrize("outputs", ["200", "geometric:200", "lognormal:200,150"])
@pytest.mark.parametrize("name", ["ar", "sd", "ssd"])
def test_a_run_without_prompts_is_the_closed_forms_queue(name: str, outputs: str) -> None:
    base = requests(6000, outputs=outputs)
    strategy = policy(name, base)
    for load in (0.3, 0.6):
        workload = base.at_rate(load * float(shared(strategy, base).capacity))
        run = simulate(strategy, workload, ELSEWHERE)
        closed = shared(strategy, workload).served(workload.rate)
        order = np.argsort(run.requests.arrival_s)
        average = mean((run.requests.last_s - run.requests.first_s)[order])
        assert average.value == pytest.approx(float(closed.decode_s), rel=0.01)
        running = float((run.decoding * run.round_s).sum()) / run.end_s
        # of a run as long, the arrivals of the busiest stretches move the mean number more than the mean time
        assert running == pytest.approx(
            float(closed.running), rel=0.01 + (average.high - average.low) / 2 / average.value
        )


def test_where_prompts_are_processed_elsewhere_both_count_the_wait_for_a_place_after_the_first_token() -> None:
    """The closed form had it before: tables (the loop) and crossings (the closed form) spoke of other times."""
    few = Batching(prefill="none", prefill_ms=100.0, max_batch=4)
    base = requests(6000, outputs="geometric:200")
    strategy = policy("ar", base, few)
    workload = base.at_rate(0.8 * float(shared(strategy, base, few).capacity))
    run = simulate(strategy, workload, few)
    closed = shared(strategy, workload, few).served(workload.rate)
    assert float(closed.queue_s) > 0.2 * float(closed.decode_s)
    assert float(closed.ttft_s) == pytest.approx(0.1)
    assert np.allclose(run.requests.first_s - run.requests.arrival_s, 0.1)
    average = mean((run.requests.last_s - run.requests.first_s)[np.argsort(run.requests.arrival_s)])
    assert abs(float(closed.decode_s) - average.value) <= 1.5 * (average.high - average.low)
    assert float(shared(strategy, workload, few).tpot_s(workload.rate)) == float(closed.tpot_s)


@pytest.mark.parametrize(("outputs", "share"), [("geometric:200", 1.0), ("200", 0.5)])
def test_the_closed_forms_waiting_is_that_of_geometric_lengths(outputs: str, share: float) -> None:
    """As docs/how-to/serve.md says: constant ones wait half as long for the one place (Pollaczek and Khinchine)."""
    one = Batching(prefill="none", max_batch=1)
    base = requests(3000, outputs=outputs)
    strategy = policy("ar", base, one)
    workload = base.at_rate(0.6 * float(shared(strategy, base, one).capacity))
    run = simulate(strategy, workload, one)
    average = mean(run.requests.scheduled_s - run.requests.arrival_s)
    closed = float(shared(strategy, workload, one).served(workload.rate).queue_s)
    assert abs(average.value - share * closed) <= 1.5 * (average.high - average.low)


def test_made_up_arrivals_have_the_asked_rate_exactly_and_vary_within_the_run_as_a_poisson_process_does() -> None:
    """As docs/how-to/serve.md says; over windows of a tenth of the run counts have nine tenths of the variance."""
    counts = []
    for seed in range(400):
        workload = requests(201, seed=seed).at_rate(7.0)
        assert workload.rate == pytest.approx(7.0)
        counts.append(np.histogram(workload.arrival_s, 10)[0])
    by_window = np.array(counts, dtype=float)
    assert by_window.var() / by_window.mean() == pytest.approx(0.9, abs=0.1)


def test_with_a_constant_rate_the_closed_form_is_processor_sharing_as_ciw_simulates_it() -> None:
    rate, tokens, pace = 0.6, 100.0, 100.0  # each request takes a second alone: the load is 0.6
    ones = np.ones(400)
    sharing = Sharing(pace * ones, 0.0 * ones, np.asarray(tokens), ones, ones, tokens + 1.0)
    closed = float(sharing.served(rate).decode_s)
    assert closed == pytest.approx(1.0 / (1.0 - 0.6), rel=1e-6)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate)],
        service_distributions=[ciw.dists.Deterministic(tokens / pace)],
        number_of_servers=[float("inf")],  # places; they share one unit of work a second
        ps_thresholds=[1],
    )
    ciw.seed(2)
    simulation = ciw.Simulation(network, node_class=ciw.PSNode)
    simulation.simulate_until_max_time(8000)
    times = np.array([r.exit_date - r.arrival_date for r in simulation.get_all_records() if r.arrival_date > 500])
    average = mean(times)
    assert abs(closed - average.value) <= 2.0 * (average.high - average.low) / 2.0


def test_requests_that_only_go_on_when_more_are_there_are_as_many() -> None:
    """With 10 to 20 that decode, prompts take all of a second; with more, each token is cheaper again."""
    ones, at = np.ones(400), np.arange(1, 401)
    lost_s = np.where((at >= 10) & (at <= 20), 2.0, 0.1)
    state = Sharing(5.0 * at, lost_s, np.asarray(10.0), ones, ones, 10.0).served(1.0)
    assert 20.0 < float(state.running) < 400.0
    assert np.isfinite(float(state.e2e_s))


@pytest.mark.parametrize("name", ["ar", "sd", "ssd", "pearl"])
def test_a_closed_loop_of_decoding_is_the_prediction_at_that_batch(name: str) -> None:
    batching = Batching(prefill="none", first_speculation="prefill", max_batch=16)
    workload = requests(64, outputs="2000", concurrency=16)
    run = simulate(policy(name, workload, batching), workload, batching)
    predicted = configure(b=16, context=round(workload.context), strategies=name).scenarios[name].estimate
    steady = run.decoding == 16
    seconds = float(run.round_s[steady].mean())
    # contexts grow from prompt to answer, and a round grows with them in a straight line: up to 2512 tokens, no round
    # waits for SSD's draft
    assert seconds == pytest.approx(float(predicted.round_s), rel=0.015)
    tokens = 64 * 1999 / float((run.decoding * run.round_s).sum()) * 16
    assert tokens == pytest.approx(float(predicted.tokens_per_second), rel=0.015)
    if predicted.p_hit is not None:
        assert 1.0 - run.misses / run.lookups == pytest.approx(predicted.p_hit, abs=0.01)
        assert run.clean_share == pytest.approx(predicted.p_all_hit, abs=0.02)


@pytest.mark.parametrize("options", [{}, {"alpha_concentration": 10.0}])
def test_hits_of_a_batch_go_together_as_predicted(options: dict[str, float]) -> None:
    batching = Batching(prefill="none", first_speculation="prefill", max_batch=6)
    workload = requests(72, outputs="2000", concurrency=6)
    given = {"hit_concentration": 3.0, "p_hit": 0.8, "backup": "jit", **options}
    run = simulate(policy("ssd", workload, batching, **given), workload, batching)
    length = {"output_tokens": 2000} if options else {}
    asked = configure(b=6, context=round(workload.context), strategies="ssd", **length, **given)
    estimate = asked.scenarios["ssd"].estimate
    assert run.clean_share == pytest.approx(estimate.p_all_hit, abs=0.02)
    assert float(estimate.p_all_hit) > 1.5 * 0.8**6
    assert 1.0 - run.misses / run.lookups == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("name", ["ar", "sd", "ssd"])
def test_a_queue_without_end_decodes_at_the_prediction_of_a_full_batch(name: str) -> None:
    batching = Batching(prefill="none", first_speculation="prefill", max_batch=32)
    workload = requests(32 * 30, outputs="400").at_rate(np.inf)
    strategy = policy(name, workload, batching)
    run = simulate(strategy, workload, batching)
    full_until = float(run.requests.scheduled_s.max())
    full = run.columns[1] <= full_until
    assert np.all(run.decoding[full] == 32)
    predicted = configure(b=32, context=round(workload.context), strategies=name).scenarios[name].estimate
    done = run.requests.last_s <= full_until
    tokens = 399 * done.sum() + 0.5 * 399 * (run.requests.scheduled_s <= full_until)[~done].sum()
    sharing = shared(strategy, workload, batching)
    expected = float(predicted.tokens_per_second) * 399 / float(sharing.tokens)
    assert tokens / full_until == pytest.approx(expected, rel=0.02)


def _alone(run: Run) -> None:
    assert run.columns[3].max() == 1


def test_in_light_traffic_a_request_takes_its_prompt_and_its_rounds() -> None:
    workload = requests(40, rate=0.0005, inputs="700", outputs="100")
    ar = policy("ar", workload, Batching())
    run = simulate(ar, workload, Batching())
    _alone(run)
    table = ar.variants[0].table
    rounds_s = sum(table.round_s(1, 701.0 + i, 0) for i in range(99))
    expected = table.prompts_s((Chunk(700),), 0) + rounds_s
    assert np.allclose(run.requests.last_s - run.requests.arrival_s, expected, rtol=1e-9)


def test_in_light_traffic_each_request_of_ssd_has_exactly_one_forced_miss() -> None:
    workload = requests(40, rate=0.0005, inputs="700", outputs="100")
    run = simulate(policy("ssd", workload, Batching()), workload, Batching())
    _alone(run)
    one_forced_miss_a_request(run)


def test_rounds_that_are_alike_may_be_taken_together() -> None:
    """The same run with a schedule's single steps: AR's rounds one by one."""
    workload = requests(200, rate=4.0, inputs="256", outputs="uniform:20,200")
    ar = policy("ar", workload, Batching())
    together = simulate(ar, workload, Batching())
    twice = type(ar)(ar.name, ar.title, [*ar.variants, *ar.variants], ar.batches, ar.contexts, ar.cells)
    one_by_one = simulate(twice, workload, Batching())
    assert np.allclose(together.requests.last_s, one_by_one.requests.last_s, rtol=1e-9)
    assert together.columns.shape == one_by_one.columns.shape


@pytest.mark.parametrize("name", ["ar", "sd", "ssd", "pearl"])
@pytest.mark.parametrize(("inputs", "outputs"), [("1024", "256"), ("300", "400")])
def test_a_queue_that_only_grows_is_served_at_the_closed_forms_capacity(name: str, inputs: str, outputs: str) -> None:
    """With prompts: what decodes is bounded by the room that passes have for the prompts of those who follow."""
    workload, batching = requests(900, 1.0, inputs, outputs), Batching()
    strategy = policy(name, workload, batching)
    sharing = shared(strategy, workload, batching)
    run = simulate(strategy, workload.at_rate(1.6 * float(sharing.capacity)), batching)
    gone = np.sort(run.requests.last_s)
    first, last = 300, 600
    served = (last - first) / (gone[last] - gone[first])
    assert float(sharing.capacity) == pytest.approx(served, rel=0.08)


@pytest.mark.parametrize(("load", "saturated"), [(0.5, False), (0.85, False), (1.3, True)])
@pytest.mark.parametrize("prefill", ["none", "chunked"])
def test_a_queue_is_called_saturated_where_it_grows(prefill: str, load: float, saturated: bool) -> None:
    batching = Batching(prefill=prefill, max_batch=32)  # type: ignore[arg-type]
    workload = requests(1500, 1.0, "512", "100")
    strategy = policy("ssd", workload, batching, **SMALL)
    rate = load * float(shared(strategy, workload, batching).capacity)
    assert is_saturated(simulate(strategy, workload.at_rate(rate), batching)) is saturated
