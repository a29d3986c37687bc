"""Profiles: what a file may hold, what a mistake in one gets, and what a profile says of an operation."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdsim.base.bundled import models_folder
from ssdsim.base.errors import InputError
from ssdsim.hardware.attention import MASKED
from ssdsim.hardware.catalog import find_hardware, find_transformer, hardware_names
from ssdsim.hardware.device import Device
from ssdsim.hardware.laws import DATASHEET_LOG_SD, Correction
from ssdsim.hardware.profile import HardwareProfile, load_profile
from ssdsim.hardware.timing import EXTRAPOLATION_LOG_SD
from ssdsim.question.configuration import configure
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Attention, Collective, Elementwise, Gemm
from tests.refusals import refused

REPORT = {
    "rows_fitted": 70,
    "rows_held_out": 30,
    "median_error": 0.02,
    "p95_error": 0.08,
    "log_sd": 0.04,
    "coefficients": 4,
}
ROOFLINE = {"launch_s": 3e-6, "bandwidth": 3e12, "peak_flops": 8e14}
REGIME = {"latency_s": 5e-6, "bandwidth": 2e11, "from_bytes": 0, "to_bytes": 1e9}


def card(**changes: Any) -> dict[str, Any]:
    """A small valid profile as its file holds it."""
    return {
        "schema": 1,
        "name": "toy",
        "device": {
            "name": "Toy",
            "kind": "cuda",
            "memory_bytes": 80_000_000_000,
            "memory_bandwidth": 3e12,
            "peak_flops": {"bfloat16": 9e14},
            "count": 8,
            "topology": "all to all",
        },
        "gemm": {
            "bfloat16": {
                "source": "bench",
                "domain": {"m": [1, 64], "n": [64, 65536], "k": [64, 65536], "nk": [4096, 1e9]},
                "report": REPORT,
                "element_bytes": 2,
                "segments": [{"roofline": ROOFLINE, "report": REPORT}],
            }
        },
        "attention": {"bfloat16": {"source": "sheet", "roofline": ROOFLINE}},
        "collectives": {"all_reduce": {"4": {"source": "bench", "regimes": [REGIME], "report": REPORT}}},
        "link": {"source": "bench", "latency_s": 8e-6, "bandwidth": 3e11},
        "elementwise": {"source": "sheet", "launch_s": 3e-6, "bandwidth": 2e12},
        "sources": {
            "bench": {"kind": "measured", "source": "a test"},
            "sheet": {"kind": "datasheet", "source": "a leaflet"},
        },
    } | changes


def profile(**changes: Any) -> HardwareProfile:
    return HardwareProfile(**card(**changes))


def attention(**changes: Any) -> Attention:
    shape = {"batch": 4, "queries": 1, "context": 2048, "heads": 8, "kv_heads": 2, "head_dim": 128}
    return Attention(**({"name": "attention", "dtype": "bfloat16"} | shape | changes))


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    before = profile()
    before.seconds(Gemm("qkv", 4, 4096, 4096, "bfloat16"))
    before.save(tmp_path / "toy.json")
    after = load_profile(tmp_path / "toy.json")
    assert after == before
    assert [path.name for path in tmp_path.iterdir()] == ["toy.json"]


@pytest.mark.parametrize(
    ("where", "value", "names"),
    [
        (("sorces",), {}, "sorces, sources"),
        (("device", "memory_byte"), 1, "device, memory_byte, memory_bytes"),
        (("gemm", "bfloat16", "segments", 0, "rooflines"), {}, "gemm.bfloat16.segments.0, rooflines"),
        (("device", "memory_bytes"), -1, "device.memory_bytes, 0, got -1"),
        (("schema",), 2, "schema, 1, got 2"),
        (("link", "source"), "bensh", "link, bensh, bench"),
        (("sources", "bench", "kind"), "guessed", "sources.bench.kind, measured, guessed"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_file_and_key(
    tmp_path: Path, where: tuple[str | int, ...], value: Any, names: str
) -> None:
    data: Any = json.loads(json.dumps(card()))
    place = data
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    path = tmp_path / "toy.json"
    path.write_text(json.dumps(data))
    with refused(*names.split(", ")) as raised:
        load_profile(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_a_missing_truncated_or_binary_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    with pytest.raises(InputError, match="no such hardware profile"):
        load_profile(path)
    text = json.dumps(card(), indent=1)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(InputError, match=r"line \d+, column \d+: not JSON, or cut short"):
        load_profile(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a readable hardware profile"):
        load_profile(path)
    path.write_text("[]")
    with pytest.raises(InputError, match="profile: "):
        load_profile(path)


def test_a_gemm_carries_its_error_key_and_provenance() -> None:
    timing = profile().seconds(Gemm("qkv", 4, 4096, 8192, "bfloat16"))
    assert timing.seconds == pytest.approx(2 * 4096 * 8192 / 3e12, rel=0.01)
    assert (timing.log_sd, timing.provenance_kind, timing.warning) == (0.04, "measured", None)
    assert timing.key == profile().seconds(Gemm("qkv", 9, 4096, 8192, "bfloat16")).key


def test_a_datasheet_never_looks_like_a_measurement() -> None:
    timing = profile().seconds(Elementwise("norm", 1_000_000))
    assert (timing.provenance_kind, timing.log_sd) == ("datasheet", DATASHEET_LOG_SD)


def test_extrapolation_warns_and_widens_the_error() -> None:
    timing = profile().seconds(Gemm("head", 4, 128_256, 4096, "bfloat16"))
    assert timing.warning == "toy: gemm:128256x4096:bfloat16 is extrapolated: n above the largest timed, 65536"
    assert timing.log_sd == pytest.approx(np.hypot(0.04, EXTRAPOLATION_LOG_SD))


def test_attention_with_a_window_has_timings_of_its_own_where_they_were_taken() -> None:
    slower = {**ROOFLINE, "launch_s": 9e-6}
    timed = profile(attention_windowed={"bfloat16": {"source": "bench", "roofline": slower, "report": REPORT}})
    plain = profile().seconds(attention(windowed=True))
    assert plain == profile().seconds(attention())
    assert timed.seconds(attention()) == plain
    windowed = timed.seconds(attention(windowed=True))
    assert 3e-6 < windowed.seconds - plain.seconds <= 6e-6  # the launch waits for a part of the bytes
    assert windowed.provenance_kind == "measured"


def test_masked_attention_without_timings_of_its_own_takes_longer_and_warns() -> None:
    """By what masks took on an H100: 1.1 to 1.6 times as long."""
    plain, masked = profile().seconds(attention()), profile().seconds(attention(masked=True))
    assert masked.seconds == pytest.approx(MASKED * plain.seconds)
    spread = math.exp(1.96 * math.sqrt(masked.log_sd**2 - plain.log_sd**2))
    assert MASKED / spread < 1.1
    assert MASKED * spread > 1.6
    assert plain.warnings == ()
    assert masked.warnings == ("toy: branch masks were not timed: attention without one, times 1.3",)
    timed = profile(attention_masked={"bfloat16": {"source": "bench", "roofline": ROOFLINE, "report": REPORT}})
    assert timed.seconds(attention(masked=True)).warning is None


def test_masks_are_told_of_shapes_that_were_not_timed_either() -> None:
    """As every branch step's is on the default profile, whose attention has one query a sequence."""
    branches = forward_pass(find_transformer("llama-3.2-1b"), batch=1, queries=21, context=1024, masked=True)
    timings = [find_hardware("h100-sxm").seconds(op) for op, _ in branches.those(Attention)]
    assert timings
    for timing in timings:
        shape, mask = timing.warnings
        assert "group above the largest timed" in shape
        assert "branch masks were not timed" in mask


def test_what_a_profile_lacks_is_named_with_the_remedy() -> None:
    with pytest.raises(InputError) as raised:
        profile().seconds(Gemm("qkv", 4, 4096, 4096, "float16"))
    assert str(raised.value) == (
        "profile toy has no float16 gemm timings (it has bfloat16); "
        "calibrate with --dtype float16 or choose another profile"
    )
    with refused("2-rank all_reduce", "4"):
        profile().seconds(Collective("reduce", "all_reduce", 1024, 2))
    with refused("4-rank all_gather"):
        profile().seconds(Collective("gather", "all_gather", 1024, 4))
    with refused("float16 attention"):
        profile().seconds(attention(dtype="float16"))
    with refused("link"):
        profile(link=None).message_seconds(64)
    with refused("elementwise"):
        profile(elementwise=None).seconds(Elementwise("norm", 64))


def test_one_rank_reduces_for_nothing() -> None:
    assert profile(collectives={}).seconds(Collective("reduce", "all_reduce", 1024, 1)).seconds == 0.0


def test_a_correction_is_hinges_of_logarithms_and_constant_outside_its_domain() -> None:
    correction = Correction(
        intercept=0.1, terms={"n<4096": 0.5, "n>1024 * k>512": -0.25}, domain={"n": (64, 8192), "k": (64, 8192)}
    )
    log2 = np.log(2)
    at = correction.log_factor({"n": np.array([2048.0, 8192.0]), "k": 1024.0})
    assert at == pytest.approx([0.1 + 0.5 * log2 - 0.25 * log2 * log2, 0.1 - 0.25 * 3 * log2 * log2])
    far = correction.log_factor({"n": 1e9, "k": 1024.0})
    assert far == pytest.approx(at[1])


@pytest.mark.parametrize("term", ["n=4096", "q<4096", "n<4096 * k>512 * n>1", "n<many"])
def test_a_term_that_is_no_hinge_is_refused(term: str) -> None:
    with pytest.raises(ValueError, match="a term is 'variable>knot'"):
        Correction(terms={term: 1.0}, domain={"n": (1, 2), "k": (1, 2)})


def test_regimes_and_segments_must_fit_together() -> None:
    overlapping = {"source": "bench", "regimes": [REGIME, REGIME]}
    with pytest.raises(ValueError, match="must grow from regime to regime"):
        profile(collectives={"all_reduce": {"4": overlapping}})
    gemm = card()["gemm"]["bfloat16"] | {"blends": [[64, 96]]}
    with pytest.raises(ValueError, match="1 segments need 0 blends"):
        profile(gemm={"bfloat16": gemm})


@pytest.mark.parametrize("name", hardware_names())
def test_bundled_profiles_price_a_decode_pass(name: str) -> None:
    profile = find_hardware(name)
    for dtype in profile.gemm:
        timing = profile.seconds(Gemm("qkv", 1, 4096, 4096, dtype))
        slowest, fastest = 2e-3, profile.gemm[dtype].element_bytes * 4096**2 / (1.3 * profile.device.memory_bandwidth)
        assert fastest < timing.seconds < slowest
    for ranks in (ranks for ranks in (2, 4, 8) if ranks <= profile.device.count):
        assert 3e-6 < profile.seconds(Collective("reduce", "all_reduce", 65536, ranks)).seconds < 1e-4


def test_importing_hardware_is_light() -> None:
    code = "import sys, ssdsim.hardware.profile; print([m for m in ('scipy', 'pandas', 'torch') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["h100-sxm", "h200-sxm", "b200-sxm", "gb200", "rtx-pro-6000"])
def test_bundled_profiles_hold_what_a_served_model_needs(name: str) -> None:
    """GEMMs in 8 bits beside bfloat16, both caches, up to 8192 tokens, of a size that is read at once."""
    profile = find_hardware(name)
    assert {"bfloat16", "float8"} <= set(profile.gemm)
    assert set(profile.attention) == {"bfloat16", "float8"}
    # the H200's table of prefill is no full attention
    assert set(profile.prefill_attention) == (set() if name == "h200-sxm" else {"bfloat16", "float8"})
    assert profile.device.peak_flops.keys() >= profile.gemm.keys()
    for dtype in profile.gemm:
        few, many = (profile.seconds(Gemm("down", m, 8192, 7168, dtype)) for m in (16, 8192))
        assert (few.warning, many.warning) == (None, None)
        assert few.seconds < many.seconds
    wide, narrow = (profile.seconds(attention(batch=64, context=8192, dtype=dtype)) for dtype in ("bfloat16", "float8"))
    assert 0.3 < narrow.seconds / wide.seconds < 1.0
    assert (models_folder() / "hardware" / f"{name}.json").stat().st_size < 150_000


@pytest.mark.parametrize("name", ["h100-sxm", "h200-sxm"])
def test_products_with_block_scales_are_padded_to_fast_numbers_of_tokens(name: str) -> None:
    """Their kernels take up to 30 % longer where four does not divide the tokens; an engine's graphs have none such."""
    profile = find_hardware(name)
    odd, even = (profile.seconds(Gemm("up", m, 8192, 8192, "float8-block")).seconds for m in (63, 64))
    assert 0.99 * even < odd <= even


def test_links_are_by_the_nvlinks_of_a_pair(tmp_path: Path) -> None:
    found, size = find_hardware("v100-sxm2-32gb"), 1 << 24
    matrix = found.device.nvlinks
    assert matrix
    assert [sum(row) for row in matrix] == [6] * 8  # all that a V100 has
    pairs = [next((0, other) for other in range(1, 8) if matrix[0][other] == links) for links in (2, 1, 0)]
    two, one, host = (found.message_seconds(size, pair).seconds for pair in pairs)
    assert 1.9 * two < one < host / 2
    assert found.message_seconds(size).seconds == one  # of a pair that nobody names
    found.save(tmp_path / "again.json")
    assert load_profile(tmp_path / "again.json") == found


def test_a_matrix_of_links_is_of_the_devices() -> None:
    device = find_hardware("v100-sxm2-32gb").device
    with pytest.raises(ValueError, match="must have 8 rows of 8 numbers"):
        Device(**device.as_dict() | {"nvlinks": [[0, 1], [1, 0]]})
    lopsided = [[0] * 8 for _ in range(8)]
    lopsided[0][1] = 2
    with pytest.raises(ValueError, match="as many links one way as the other"):
        Device(**device.as_dict() | {"nvlinks": lopsided})


def test_a_draft_of_v100s_hears_through_the_links_of_its_pair() -> None:
    """At tp 4 the draft is device 4, two NVLinks from device 0; at tp 1 device 1, one link away."""
    options: dict[str, Any] = {"target": "llama-2-7b", "draft": "llama-2-7b", "dtype": "float16"}
    told = []
    for tp in (4, 1):
        site = configure(**options, hardware="v100-sxm2-32gb", tp=tp).scenarios["ssd"].site
        assert site
        told.append(site.outcome_message().seconds)
    assert told[0] < told[1]


def test_a_profile_travels_and_is_copied_without_what_it_has_priced() -> None:
    """``serve --jobs 2`` sent the prices of all that its process had ever priced, once a strategy."""
    profile = find_hardware("h100-sxm")
    configure(strategies="ssd", target="llama-3.1-8b", tp=1)
    assert profile.memory.costs
    assert profile.memory.timings
    for copied in (pickle.loads(pickle.dumps(profile)), profile.changed()):
        assert copied == profile
        assert not copied.memory.costs
        assert not copied.memory.timings
