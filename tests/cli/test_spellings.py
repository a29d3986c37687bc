"""Engineers' own spellings: flags of engines, short names, units."""

from __future__ import annotations

import json

import pytest

from ssdsim.answers.serving.slo import Slo
from ssdsim.base.errors import InputError
from ssdsim.base.kinds import SHARE, Whole
from ssdsim.base.kinds_of_lists import Several
from ssdsim.hardware.catalog import full_hardware_name, full_transformer_name, hardware_names, transformer_names
from tests.cli.in_process import asked


@pytest.mark.parametrize(
    ("spelling", "same_as"),
    [
        ("--tensor-parallel-size 2", "--tp 2"),
        ("--batch-size 16", "--b 16"),
        ("-b 16", "--b 16"),
        ("--fallback jit", "--backup jit"),
        ("--hardware h200", "--hardware h200-sxm"),
        ("--model llama3.1-8b", "--target llama-3.1-8b"),
        ("--context 8k", "--context 8192"),
        ("--alpha 80% --p-hit 85%", "--alpha 0.8 --p-hit 0.85"),
        ("--alpha 75%:85%", "--alpha 0.75:0.85"),
        ("--alpha 90%,85%,80% --k 3", "--alpha 0.9,0.85,0.8 --k 3"),
    ],
)
def test_an_engineers_spelling_means_the_same(spelling: str, same_as: str) -> None:
    one, other = (asked("predict", "--json", *words.split()) for words in (spelling, same_as))
    assert one.returncode == 0, one.stderr
    assert json.loads(one.stdout) == json.loads(other.stdout)


def test_a_list_and_a_range_take_the_same_spellings() -> None:
    kind = Several(Whole())
    assert kind.parse("512,1k:3k:1k") == [512, 1024, 2048, 3072]
    assert Several(SHARE).parse("50%,0.7") == [0.5, 0.7]


@pytest.mark.parametrize("words", ["--temperature 80%", "--context 8kk", "--context 1.5k", "--b k", "--alpha %"])
def test_what_is_no_number_is_refused(words: str) -> None:
    done = asked("predict", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_what_a_short_name_is_taken_for_is_said_unless_quiet() -> None:
    done = asked("predict", "--hardware", "h200", "--json")
    assert done.stderr == "note: --hardware h200 is taken for h200-sxm\n"
    assert asked("predict", "--hardware", "h200", "--json", "--quiet").stderr == ""


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("h200", "h200-sxm"),
        ("A100", "a100-sxm"),
        ("v100-32gb", "v100-sxm2-32gb"),
        ("dgx1", "v100-sxm2-32gb"),
        ("DGX-1-16GB", "v100-sxm2-16gb"),
        ("v100", "v100"),  # there are two
        ("absent.json", "absent.json"),
    ],
)
def test_a_short_name_of_hardware_means_the_one_profile_that_it_may(short: str, full: str) -> None:
    assert full_hardware_name(short) == full


def test_a_name_that_may_mean_several_is_refused_and_they_are_named() -> None:
    done = asked("predict", "--hardware", "v100")
    assert "it may mean v100-sxm2-16gb or v100-sxm2-32gb" in done.stderr
    assert "it may mean llama-2-70b or llama-3.1-70b" in asked("predict", "--model", "llama-70b").stderr


def test_a_full_name_means_itself() -> None:
    assert all(full_hardware_name(name) == name for name in hardware_names())
    assert all(full_transformer_name(name) == name for name in transformer_names())
    assert full_transformer_name("meta-llama/Llama-3.1-8B-Instruct") == "meta-llama/Llama-3.1-8B-Instruct"
    assert full_transformer_name("transformer-shaped-1024x2") == "transformer-shaped-1024x2"


def test_bounds_take_units_of_time() -> None:
    slo = Slo.parse("ttft:1s,tpot:20ms,queue:100")
    assert slo is not None
    assert slo.bounds_ms == {"ttft": 1000.0, "tpot": 20.0, "queue": 100.0}


@pytest.mark.parametrize("text", ["ttft:1m", "ttft:s", "ttft:-1s", "ttft:inf"])
def test_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"wants milliseconds above 0, such as ttft:500 or ttft:0.5s"):
        Slo.parse(text)
