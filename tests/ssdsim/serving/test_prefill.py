"""How prompts are processed: as the option says, else as the card of the engine that serves."""

from typing import Any

import pytest

from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.hardware.runtime_catalog import RUNTIMES, find_runtime
from ssdsim.serving.answer import Serving, as_json
from ssdsim.serving.batching import Batching
from ssdsim.serving.serve import serve
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.serving.sample_runs import SMALL, requests


def _closed(**options: Any) -> Serving:
    load = requests(40, 4.0, inputs="2048", outputs="64")
    return serve(workload=load, solver="closed", strategies="ar", **{**SMALL, **options})


@pytest.mark.parametrize("runtime", [*RUNTIMES.cards(), KERNELS], ids=lambda runtime: runtime.name)
def test_an_engine_takes_prompts_as_its_card_says_and_who_says_otherwise_wins(runtime: Runtime) -> None:
    own, source = Batching().as_engine(runtime)
    assert own.prefill == ("chunked" if runtime.mixes_prompts else "priority")
    assert source == f"as {runtime.title} does"
    for said in ("chunked", "priority", "none"):
        given = Batching(prefill=said)  # type: ignore[arg-type]
        assert given.as_engine(runtime) == (given, "given")


@pytest.mark.parametrize(("engine", "prefill"), [("sglang", "priority"), ("vllm", "chunked"), ("vllm-0.5", "priority")])
def test_a_load_is_served_as_its_engine_takes_prompts(engine: str, prefill: str) -> None:
    """All engines were said to mix them."""
    own, given = _closed(engine=engine), _closed(engine=engine, prefill=prefill)
    assert own.how.batching.prefill == prefill
    assert own.prefill_source == f"as {find_runtime(engine).title} does"
    assert given.prefill_source == "given"
    assert own.points[0].closed == given.points[0].closed
    other = _closed(engine=engine, prefill="chunked" if prefill == "priority" else "priority")
    assert own.points[0].closed != other.points[0].closed
    told = as_json(own)
    assert (told["batching"]["prefill"], told["prefill_source"]) == (prefill, own.prefill_source)


def test_the_engine_of_a_plan_that_names_none_is_that_of_its_hardware() -> None:
    """It is the SSD engine, which mixes none."""
    serving = _closed(engine=None)
    assert serving.how.batching.prefill == "priority"
    assert serving.policies.configuration.site is not None
    assert serving.prefill_source == f"as {serving.policies.configuration.site.runtime.title} does"


def test_the_screen_says_how_prompts_are_processed_and_why() -> None:
    load = "plan --rate 4 --requests 40 --solver closed --model llama-3.1-8b --tp 1 --strategies ar --quiet".split()
    apart = asked(*load, "--engine", "sglang", "--explain").stdout
    assert "; prompts apart\n" in apart
    assert "Prompts  in passes of their own, for which decoding waits: as SGLang" in apart
    mixed = asked(*load, "--engine", "vllm").stdout
    assert "; prompts mixed in\n" in mixed
    given = asked(*load, "--engine", "vllm", "--prefill", "priority").stdout
    assert "; prompts apart (--prefill)\n" in given
