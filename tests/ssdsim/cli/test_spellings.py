"""Engineers' own spellings: flags of engines, short names, units."""

from __future__ import annotations

import json

import pytest

from ssdsim.base.kinds import SHARE, Whole
from ssdsim.base.kinds_of_lists import Several
from ssdsim.hardware.catalog import full_hardware_name, full_transformer_name, hardware_names, transformer_names
from ssdsim.serving.options import Slo
from ssdsim.serving.workload import Lengths
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked


@pytest.mark.parametrize(
    ("spelling", "same_as"),
    [
        ("--tensor-parallel-size 2", "--tp 2"),
        ("--batch-size 16", "--b 16"),
        ("-b 16", "--b 16"),
        ("--fallback jit", "--backup jit"),
        ("--runtime vllm", "--engine vllm"),
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


@pytest.mark.parametrize("words", ["--engine closed", "--engine=closed"])
@pytest.mark.parametrize("verb", ["predict", "sweep", "plan --rate 1"])
def test_the_solver_by_its_former_name_says_the_new_one(verb: str, words: str) -> None:
    done = asked(*f"{verb} {words} --json --quiet --strategies ar,sd".split())
    assert (done.returncode, done.stderr) == (0, "note: --engine closed is --solver closed now\n")
    assert json.loads(done.stdout)["solver"] == "closed"


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
        ("A100-80GB", "a100-sxm"),
        ("A100-40GB", "A100-40GB"),  # its own name
        ("A100", "A100"),  # there are two
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
    both = "v100-sxm2-16gb (16 GiB) or v100-sxm2-32gb (32 GiB)"
    assert done.stderr == f"error: hardware 'v100' may mean {both}: name one\n"
    said = asked("predict", "--model", "llama-70b").stderr
    assert said == "error: transformer 'llama-70b' may mean llama-2-70b or llama-3.1-70b or llama-3.3-70b: name one\n"


def test_a_full_name_means_itself() -> None:
    assert all(full_hardware_name(name) == name for name in hardware_names())
    assert all(full_transformer_name(name) == name for name in transformer_names())
    assert full_transformer_name("meta-llama/Llama-3.1-8B-Instruct") == "meta-llama/Llama-3.1-8B-Instruct"
    assert full_transformer_name("transformer-shaped-1024x2") == "transformer-shaped-1024x2"


def test_bounds_take_units_of_time() -> None:
    slo = Slo.parse("ttft:1s,tpot:20ms,queue:100")
    assert slo is not None
    assert slo.bounds_ms == {"ttft": 1000.0, "tpot": 20.0, "queue": 100.0}


def test_an_slo_is_told_with_its_units_and_what_was_taken_for_granted() -> None:
    assert Slo.parse("ttft:1s,tpot:20ms").sentence == "TTFT up to 1000 ms, TPOT up to 20 ms"
    bare = Slo.parse("ttft:1").sentence
    assert bare == "TTFT up to 1 ms (a number without a unit is in ms: ttft:1s is a second)"
    with refused("--slo", "ttft:1s"):
        Slo.parse("ttft=1s")


def test_lengths_take_a_k() -> None:
    assert Lengths.parse("4k", "--input-len").numbers == (4096.0,)
    assert Lengths.parse("uniform:1k,2k", "--input-len").numbers == (1024.0, 2048.0)


@pytest.mark.long
def test_serve_says_the_slo_that_it_judged() -> None:
    done = asked(*"plan --rate 1 --requests 20 --solver closed --slo ttft:1 --quiet --explain".split())
    assert "A good request  keeps TTFT up to 1 ms (a number without a unit is in ms" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "predict --gpus 8",
            "No such option '--gpus'; here --tp (target GPUs) and --draft-gpus (draft GPUs); recommend, ",
        ),
        ("plan -b 4", "error: plan has no batch: --rate or --concurrency"),
        ("plan --batch-size 4", "error: plan has no batch: --rate or --concurrency"),
        ("validate run --dcp 2", "error: validate run has no --dcp: real ranks do not share a cache"),
        ("predict --alhpa 0.8", "No such option '--alhpa'; did you mean --alpha?"),
        ("predict --rate 4", "; recommend, plan have --rate"),
        ("predict --b 1,4", "error: --b 1,4: one value is taken here; ssdsim sweep takes several"),
        ("sweep --b 1-16", "'1-16' is not a number; a range is 1:16"),
        ("plan --rate 4rps", "'4rps' is not a number"),
        ("sweep --b 1,x", "'x' is not a whole number"),
        ("plan --rate 1 --k-table 1-4:x", "'x' is not a whole number"),
        ("plan --rate 1 --k-table [[1,", "the list is not closed, or not one of numbers"),
        ("plan --rate 1 --input-len 4kb", "--input-len 4kb: a number of tokens such as 1024 or 4k wanted"),
        ("recommend --gpus 2 --gpu-hour $2", "'$2' is not a number such as 0.5"),
        ("calibrate --gpus 0..4 -o x.json", "error: --gpus 0..4: one GPU or a range of them, such as 0 or 0-4"),
        ("predict --alpha 80", "error: --alpha must lie in [0, 1], got 80.0; 80 % is 0.8"),
        ("predict --p-hit 0.9:0.2", "error: --p-hit 0.9:0.2 must not fall: 0.2:0.9"),
    ],
)
def test_a_mistake_is_told_in_the_words_of_what_was_typed(words: str, said: str) -> None:
    done = asked(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not any(of_python in done.stderr for of_python in ("invalid literal", "could not convert", "Expecting"))


@pytest.mark.long
@pytest.mark.parametrize("verb", ["predict --b 4", "plan --rate 1 --solver closed --requests 20"])
def test_all_stands_for_every_strategy(verb: str) -> None:
    done = asked(*verb.split(), "--strategies", "all", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "Tree SSD" in done.stdout


def test_a_verb_without_strategies_names_those_that_have_them() -> None:
    assert "recommend, predict, compare, " in asked("runtimes", "list", "--strategies", "all").stderr


@pytest.mark.parametrize("text", ["ttft:1m", "ttft:s", "ttft:-1s", "ttft:inf"])
def test_no_time_is_refused(text: str) -> None:
    with refused("ttft:500"):
        Slo.parse(text)
