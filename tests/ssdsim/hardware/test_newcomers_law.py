"""An operation that ssdsim does not have is priced as soon as its law is among the others."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.laws import DATASHEET_LOG_SD
from ssdsim.hardware.profile import LAWS
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.timing import Law, Timing, untimed
from ssdsim.hardware.what_if import scale
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.operations import Collective, Operation
from ssdsim.transformer.shard import Block
from tests.refusals import refused

MESSAGE = 1 << 20


class ReduceScatter(Operation, Record):
    """Each of ``ranks`` devices is left with its part of a sum."""

    family: ClassVar[str] = "communication"
    name: str
    message_bytes: int
    ranks: int

    @property
    def shape(self) -> str:
        return f"{self.message_bytes} B"

    @property
    def bytes(self) -> float:
        return float(self.message_bytes)

    @property
    def memory_bytes(self) -> float:
        return 0.0

    @property
    def wire_bytes(self) -> float:
        return (self.ranks - 1) / self.ranks * self.message_bytes


class ReduceScatterLaw(Law[ReduceScatter]):
    """As long as an all-gather, never less than its floor."""

    def timing(self, op: ReduceScatter) -> Timing:
        gather = self.profile.seconds(Collective(op.name, "all_gather", op.message_bytes, op.ranks))
        seconds = max(gather.seconds, self.floor_s(op))
        return untimed(self.profile, f"reduce_scatter:{op.ranks}", seconds, "no reduce-scatter was timed", "all-gather")


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> type[ReduceScatterLaw]:
    monkeypatch.setitem(LAWS, ReduceScatter, ReduceScatterLaw)
    return ReduceScatterLaw


def test_without_a_law_it_is_refused() -> None:
    with refused("scatter", "ReduceScatter"):
        find_hardware("h100-sxm").changed().seconds(ReduceScatter("scatter", MESSAGE, 4))


def test_a_newcomer_is_priced_with_its_own_error(law: type[ReduceScatterLaw]) -> None:
    profile = find_hardware("h100-sxm").changed()
    op = ReduceScatter("scatter", MESSAGE, 4)
    gather = profile.seconds(Collective("gather", "all_gather", MESSAGE, 4))
    timing = profile.seconds(op)
    assert isinstance(profile.law(op), law)
    assert (timing.seconds, timing.log_sd) == (gather.seconds, DATASHEET_LOG_SD)
    assert timing.warning == "h100-sxm: no reduce-scatter was timed: all-gather"
    assert profile.link
    assert profile.law(op).floor_s(op) == 0.75 * MESSAGE / profile.link.bandwidth


def test_a_device_that_does_not_exist_prices_it_by_its_own_link(law: type[ReduceScatterLaw]) -> None:
    profile, op = find_hardware("h100-sxm").changed(), ReduceScatter("scatter", 1 << 28, 4)
    before = profile.seconds(op).seconds
    slower = scale(profile, "slower", link="pcie4")
    assert slower.seconds(op).seconds > 5 * before
    assert profile.changed().law(op) is not profile.law(op)


@pytest.mark.parametrize("runtime", ["kernels", "vllm"])
def test_a_pass_with_a_newcomer_costs_it_beside_the_rest(law: type[ReduceScatterLaw], runtime: str) -> None:
    profile, engine = find_hardware("h100-sxm").changed(), find_runtime(runtime)
    plain = forward_pass(find_transformer("llama-3.1-8b"), batch=4, context=1024, tp=4)
    op = ReduceScatter("scatter", MESSAGE, 4)
    block = Block((*plain.layer, op), plain.layers)
    cost = cost_of_pass(ForwardPass(plain.before, (block,), plain.layers, plain.after), profile, engine)
    more_s = plain.layers * engine.kernels.communication * profile.seconds(op).seconds
    assert cost.seconds - cost_of_pass(plain, profile, engine).seconds == pytest.approx(more_s)
    assert "h100-sxm: no reduce-scatter was timed: all-gather" in cost.warnings
