"""A draft on a second card, on the host's CPU or on another machine: where it runs, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssdsim import predict
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.laws import DATASHEET_LOG_SD
from ssdsim.hardware.what_if import LINKS, NETWORKS
from ssdsim.question.configuration import Configuration, configure
from tests.refusals import refused

PAIR: dict[str, Any] = {"target": "llama-3.1-8b-q4_k_m", "draft": "llama-3.2-1b-q4_k_m", "tp": 1, "k": 3}
ON_ONE = PAIR | {"hardware": "rtx-4090", "engine": "llama-cpp"}


def seconds(answer: Configuration, step: str) -> float:
    return answer.scenarios["sd"].priced.expected[step].seconds


@pytest.mark.parametrize("other", ["rtx-3090", "cpu", "rtx-4090"])
def test_a_drafts_device_is_where_sd_drafts_if_nobody_else_does(other: str) -> None:
    given = configure(**ON_ONE, draft_hardware=other)
    said = configure(**ON_ONE, draft_hardware=other, sd_draft="separate")
    assert given.settings["sd_draft"] == "separate"
    assert given.settings.source("sd_draft").startswith("--draft-hardware")
    assert given.scenarios["sd"].estimate == said.scenarios["sd"].estimate


def test_sd_stays_with_its_target_beside_who_drafts_elsewhere_and_where_that_is_asked_for() -> None:
    for more in ({"strategies": ["ar", "sd", "ssd"], "engine": None}, {"sd_draft": "colocated"}):
        answer = configure(**ON_ONE | {"draft_hardware": "rtx-3090", **more})
        assert answer.scenarios["sd"].devices.draft == 0


def test_the_hosts_cpu_is_no_gpu() -> None:
    alone, on_cpu = configure(**ON_ONE), configure(**ON_ONE, draft_hardware="cpu")
    assert [each.gpus for each in on_cpu.scenarios.values()] == [1, 1]
    assert seconds(on_cpu, "draft") > 2.0 * seconds(alone, "draft")
    assert [each for each in on_cpu.warnings if "cpu is a placeholder" in each and "llama-bench" in each]
    assert not any("placeholder" in each for each in alone.warnings)


def test_the_placeholder_is_wide() -> None:
    """A round that is nearly all of it the draft's may take twice as long, or half: its products err together."""
    found = predict(**ON_ONE, draft_hardware="cpu", alpha=0.8)
    interval, estimate = found.intervals["sd"], found.estimates["sd"]
    assert interval is not None
    assert estimate.breakdown_s["draft"] > 0.85 * estimate.round_s
    assert interval.high > 4.0 * interval.low


def test_a_network_to_the_draft_costs_a_round_two_messages() -> None:
    network = {"draft_link_us": 200.0, "draft_link_gbs": 0.125}
    beside, remote = configure(**ON_ONE), configure(**ON_ONE, **network)
    assert remote.scenarios["sd"].devices.draft == 1
    told = seconds(remote, "speculation") + seconds(remote, "outcome")
    assert 400e-6 < told < 450e-6
    more = remote.scenarios["sd"].estimate.round_s - beside.scenarios["sd"].estimate.round_s
    assert float(more) == pytest.approx(told, rel=1e-6)


@pytest.mark.parametrize("name", [*LINKS, *NETWORKS])
def test_a_link_that_is_named_is_a_published_one_with_a_datasheets_error(name: str) -> None:
    answer = configure(**ON_ONE, draft_link=name.upper())
    assert answer.scenarios["sd"].devices.draft == 1
    assert answer.settings.source("sd_draft").startswith("--draft-link")
    sent = answer.scenarios["sd"].priced.expected["outcome"]
    assert sent.message is not None
    latency_s, bandwidth, *_ = {**LINKS, **NETWORKS}[name]
    assert sent.seconds == pytest.approx(latency_s + sent.message.sent_bytes / bandwidth)
    ((_, log_sd),) = (term for piece in sent.pieces for term in piece.cost.terms.timings.values())
    assert log_sd == DATASHEET_LOG_SD
    (told,) = (each["summary"] for each in answer.provenance if each["profile"] == name)
    assert told.startswith("datasheet from ")
    assert told.endswith(": link")


def test_a_link_may_be_that_of_a_profile_with_its_error_and_its_source(tmp_path: Path) -> None:
    measured = find_hardware("h100-sxm")
    assert measured.link is not None
    measured.changed(link=measured.link.changed(latency_s=1e-3)).save(tmp_path / "over_tcp.json")
    answer = configure(**ON_ONE, draft_link=str(tmp_path / "over_tcp.json"))
    sent = answer.scenarios["sd"].priced.expected["outcome"]
    assert sent.seconds == pytest.approx(1e-3, rel=1e-3)
    (piece,) = sent.pieces
    assert all(log_sd < DATASHEET_LOG_SD for _, log_sd in piece.cost.terms.timings.values())
    assert [each["summary"] for each in answer.provenance][-1] == "imported from microsoft/vidur 7d47513: link 1.4%"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"draft_link": "tcpp"}, ("--draft-link", "tcpp", "tcp", "nvlink4", "rdma")),
        ({"draft_link": "absent.json"}, ("absent.json",)),
        ({"draft_link": "h100-sxm-torch"}, ("h100-sxm-torch", "link")),
        ({"draft_link": "tcp", "draft_link_us": 5.0, "draft_link_gbs": 1.0}, ("--draft-link-us", "--draft-link")),
        ({"draft_link": "tcp", "strategies": "ssd", "draft_devices": "shared"}, ("--draft-link",)),
    ],
)
def test_a_link_that_is_none_is_refused(options: dict[str, Any], names: tuple[str, ...]) -> None:
    with refused(*names):
        configure(**{"target": "llama-3.1-8b", "tp": 1, "b": 1, **options})


def test_a_message_between_two_kinds_of_card_goes_at_the_slower_ones_rate() -> None:
    there, back = (
        configure(**PAIR, hardware=one, draft_hardware=other, engine="llama-cpp", temperature=1.0)
        for one, other in (("rtx-5090", "rtx-3090"), ("rtx-3090", "rtx-5090"))
    )
    assert seconds(there, "speculation") == seconds(back, "speculation")
    link = find_hardware("rtx-3090").link
    assert link is not None
    assert seconds(there, "speculation") > PAIR["k"] * 2 * 128256 / link.bandwidth


def test_a_degree_that_is_named_has_room() -> None:
    whole = {"target": "llama-3.1-70b", "strategies": ["ar"], "tp": 4}
    with refused("at most tp 2 is there", "rtx-4090", "there is room with --dtype int4"):  # no more than are there
        configure(**whole, hardware="rtx-4090")
    with pytest.raises(Exception, match="the nearest that fits is tp 2"):
        configure(**whole, hardware="rtx-4090", dtype="int4")
