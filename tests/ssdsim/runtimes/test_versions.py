"""Versions of an engine: what a stated one adds to the card, and what is open where nobody says one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ssdsim import predict
from ssdsim.hardware.engine_versions import ByVersion, Deviation
from ssdsim.hardware.runtime_card import Fp4Overrides, Runtime
from ssdsim.hardware.runtime_catalog import find_runtime, full_runtime_name, older_than_all, save_runtime
from ssdsim.question.configuration import configure
from ssdsim.readers.priced_row import work_of
from tests.refusals import refused
from tests.ssdsim.readers.engines import served

LAYERS = 36  # of gpt-oss-120b, all with experts
SLOW, SPREAD = 5e-5, 2e-5
OF = ByVersion(
    spread={"per_expert_layer_s": SPREAD},
    known=tuple(
        Deviation(version=name, adds={"per_expert_layer_s": adds}, open={"per_expert_layer_s": 1e-6})
        for name, adds in (("0.17.0", SLOW), ("0.19.0", -1e-3), ("0.5.1", 0.0), ("0.5.10", 1e-5))
    ),
)
CARD = find_runtime("vllm-0.9").changed(by_version=OF, four_bits=None)
STEP = {"model": "gpt-oss-120b", "tp": 2, "batch": 8, "metric": "step_ms"}


def seconds(version: str, card: Runtime = CARD, hardware: str = "h100-sxm") -> float:
    return work_of(served(**STEP, hardware=hardware, engine_version=version), card).cost.seconds


def log_sd(version: str) -> float:
    return work_of(served(**STEP, engine_version=version), CARD).cost.log_sd


def test_a_stated_version_adds_what_it_does_to_every_layer() -> None:
    assert seconds("0.17.0") - seconds("") == pytest.approx(LAYERS * SLOW)


def test_no_version_is_faster_than_a_host_that_takes_no_time() -> None:
    none = CARD.changed(by_version=None).with_numbers({"per_expert_layer_s": 0.0, "per_layer_s": 0.0})
    assert seconds("0.19.0") == pytest.approx(seconds("", none))


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("0.17", "0.17.0"),
        ("v0.17.0", "0.17.0"),
        ("0.17.0.post2", "0.17.0"),
        ("0.5.1", "0.5.1"),
        ("0.5.10.post1", "0.5.10"),
        ("0.5", None),
        ("0.17.1", None),
        ("0.18.0", None),
        ("", None),
        ("nightly-5b8c30d6", None),
    ],
)
def test_a_version_is_known_by_its_release(said: str, known: str | None) -> None:
    found = OF.of(said)
    assert (found and found.version) == known


def test_who_says_no_known_version_is_told_less() -> None:
    known, unknown, unsaid = map(log_sd, ("0.17.0", "0.18.0", ""))
    assert unknown == unsaid
    assert known < unsaid
    wider = (LAYERS * SPREAD / seconds("")) ** 2
    settled = work_of(served(**STEP), CARD.changed(by_version=None)).cost.log_sd
    assert unsaid**2 - settled**2 == pytest.approx(wider, rel=1e-9)


def test_an_engine_on_devices_of_4_bits_has_its_own_versions() -> None:
    card = CARD.changed(four_bits=Fp4Overrides(by_version=OF.changed(known=())))
    assert seconds("0.17.0", card, "b200-sxm") == seconds("", card, "b200-sxm")
    assert seconds("0.17.0", card) > seconds("", card)


def told(path: Path, card: Runtime) -> str:
    save_runtime(card.changed(name=path.stem), path)
    asked = {"strategies": ("ar",), "target": "gpt-oss-120b", "tp": 2, "hardware": "h100-sxm"}
    return " ".join(each for each in configure(engine=str(path), **asked).warnings if "versions of" in each)


def test_an_answer_says_that_versions_differ_unless_one_was_said(tmp_path: Path) -> None:
    assert "none that is known was said: 0.17.0, 0.19.0, 0.5.1, 0.5.10" in told(tmp_path / "unsaid.toml", CARD)
    assert told(tmp_path / "stated.toml", CARD.of_version("0.17")) == ""
    assert told(tmp_path / "settled.toml", CARD.changed(by_version=None)) == ""


def test_a_version_before_every_card_is_the_oldest_cards_less_sure_and_says_so() -> None:
    """Rounds of OPT-30B on vLLM 0.4.2 were slower than none at all; a card of 0.5 said "yes, surely" without a word."""
    oldest, before = find_runtime("vllm-0.5"), find_runtime("vllm-0.4.2")
    assert before.changed(errors=oldest.errors) == oldest
    assert before.errors.round_log_sd > 1.0 > 10 * oldest.errors.round_log_sd
    assert full_runtime_name("vllm-0.4.2") == full_runtime_name("vllm==0.4.2") == "vllm==0.4.2"
    asked: dict[str, Any] = {"k": 4, "alpha": 0.8, "strategies": ["ar", "sd"]}
    sure, unsure = (predict(runtime=name, **asked) for name in ("vllm-0.5", "vllm-0.4.2"))
    said = "vLLM 0.4.2 is older than every card: priced as 0.5 and 0.6, with wider intervals"
    assert said in unsure.configuration.warnings
    assert said not in sure.configuration.warnings
    assert sure.estimates == unsure.estimates
    intervals = [each.intervals["sd"] for each in (sure, unsure)]
    narrow, wide = (math.log(each.high / each.low) for each in intervals if each is not None)
    assert wide > 2 * narrow


def test_a_version_after_the_last_of_a_closed_range_is_still_refused() -> None:
    assert older_than_all("vllm-0.5") is older_than_all("vllm") is older_than_all("kernels") is None
    with refused("no runtime covers vllm 0.7; the nearest is vllm-0.5"):
        find_runtime("vllm-0.7")


def test_bundled_cards_know_versions_apart_by_their_name() -> None:
    """Mixtures on vLLM 0.17 were slower than on 0.19, on the same devices."""
    asked = {"strategies": ("ar",), "target": "gpt-oss-120b", "tp": 2, "hardware": "b200-sxm", "b": 16}

    def sites(name: str) -> tuple[float, str]:
        found = configure(engine=name, **asked)
        (scenario,) = found.scenarios.values()
        return float(scenario.estimate.round_s), found.settings["engine"]

    (old, said), (new, _), (unsaid, card) = map(sites, ("vllm==0.17.0", "vllm-0.19", "vllm-0.9"))
    assert old > 1.05 * new
    assert (said, card) == ("vllm==0.17.0", "vllm-0.9")
    assert unsaid != old
