"""Exports use the engines' documented keys only (engine_keys.toml) and say what the schedule says."""

from __future__ import annotations

import argparse
import json
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ssdsim import InputError, export
from ssdsim.advise.candidates import candidates
from ssdsim.advise.export.dialect import ranges as ranges_of
from ssdsim.cli.main import cli
from ssdsim.serving.schedule_file import Schedule
from tests.refusals import refused

KEYS = tomllib.loads((Path(__file__).parent / "engine_keys.toml").read_text())
SMALL: dict[str, Any] = {"b": [1, 8, 64], "k": [2, 4, 6], "f": [3, 8]}


def lookahead(ranges: list[list[int]], batch: int) -> int:
    """As vLLM reads its table: inclusive ranges, later batch sizes inherit the last K."""
    return next((k for first, last, k in ranges if first <= batch <= last), ranges[-1][2])


def check_ranges(ranges: list[list[int]]) -> None:
    """``validate_and_normalize_dynamic_sd_schedule``, in its words."""
    assert ranges[0][0] == 1
    end = 0
    for first, last, k in ranges:
        assert first > end, "non-overlapping and sorted"
        assert first <= last
        assert k >= 0
        end = last


def check_vllm(config: dict[str, Any], tp: int) -> None:
    documented, values = KEYS["vllm"]["keys"], KEYS["vllm"]["values"]
    kinds = {"string": str, "integer": int, "ranges": list, "boolean": bool}
    for key, value in config.items():
        assert key in documented
        assert isinstance(value, kinds[documented[key]])
        assert key not in values or value in values[key]
    assert config["num_speculative_tokens"] > 0
    assert config.get("draft_tensor_parallel_size", tp) == tp
    ranges = config.get("num_speculative_tokens_per_batch_size")
    if ranges is not None:
        check_ranges(ranges)
        assert max(k for _, _, k in ranges) == config["num_speculative_tokens"]


def serve_parser() -> argparse.ArgumentParser:
    """An argument parser with the flags of ``vllm serve`` that are listed and no others; abbreviations are errors."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    parser.add_argument("model")
    for flag in KEYS["vllm"]["serve"]["switches"]:
        parser.add_argument(flag, action="store_true")
    for flag, allowed in KEYS["vllm"]["serve"]["values"].items():
        kind = {"integer": int, "json": json.loads}.get(allowed if isinstance(allowed, str) else "", str)
        parser.add_argument(flag, type=kind, choices=allowed if isinstance(allowed, list) else None)
    return parser


def served(text: str) -> argparse.Namespace:
    words = shlex.split(text)
    words = words[words[0] == "VLLM_USE_V2_MODEL_RUNNER=1" :]
    assert words[:2] == ["vllm", "serve"]
    return serve_parser().parse_args(words[2:])


def bench_parser() -> argparse.ArgumentParser:
    """An argument parser with the documented flags of bench.py and no others; abbreviations are errors."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for flag in KEYS["ssd"]["switches"]:
        parser.add_argument(flag, action="store_true")
    for flag in KEYS["ssd"]["lists"]:
        parser.add_argument(flag, type=int, nargs="+")
    for flag, allowed in KEYS["ssd"]["values"].items():
        kind = {"integer": int, "number": float}.get(allowed if isinstance(allowed, str) else "", str)
        parser.add_argument(flag, type=kind, choices=allowed if isinstance(allowed, list) else None)
    return parser


def bench_commands(text: str) -> list[argparse.Namespace]:
    arguments = []
    for line in text.splitlines():
        if not line.startswith("#"):
            words = shlex.split(line)
            assert words[:3] == ["python", "-O", "bench/bench.py"]
            arguments.append(bench_parser().parse_args(words[3:]))
    return arguments


def test_vllm_config_is_what_it_documents() -> None:
    exported = export("vllm", **SMALL, tp=2)
    config = json.loads(exported.text)
    check_vllm(config, tp=2)
    assert (config["method"], config["model"]) == ("draft_model", "meta-llama/Llama-3.2-1B-Instruct")
    best = candidates(**SMALL, tp=2).best(("ar", "sd"))
    ranges = config.get("num_speculative_tokens_per_batch_size", [[1, 64, config["num_speculative_tokens"]]])
    assert [lookahead(ranges, each.b) for each in best] == [each.lookahead for each in best]
    assert any("vLLM has no SSD" in note for note in exported.notes)


def test_vllm_turns_speculation_off_where_ar_is_best() -> None:
    options = {"b": [1, 256], "k": [1, 4], "f": 1, "alpha": 0.2, "target": "llama-3.1-8b", "tp": 1, "drafter": "eagle3"}
    config = json.loads(export("vllm", **options).text)
    check_vllm(config, tp=1)
    assert config["num_speculative_tokens_per_batch_size"][-1] == [16, 256, 0]
    hopeless = export("vllm", **{**options, "alpha": 0.01})
    assert json.loads(hopeless.text) is None
    assert any("start vLLM without --speculative-config" in note for note in hopeless.notes)


def test_vllm_has_one_table_for_all_contexts_and_the_note_says_what_it_costs() -> None:
    options = {**SMALL, "b": [16, 60], "f": 1, "context": [64, 8192]}
    config, notes = json.loads(export("vllm", **options).text), export("vllm", **options).notes
    check_vllm(config, tp=4)
    shared = candidates(**options, engine="vllm").best(("ar", "sd"), by=("b",))
    assert len({(each.b, each.lookahead) for each in shared}) == 2
    most = max(each.loss for each in shared)
    assert most > 0
    assert any(f"at most {most:.1%} of tokens/s lost" in note for note in notes)


@pytest.mark.parametrize(
    ("drafter", "expected"),
    [
        ("eagle", {"method": "eagle", "model": "yuhuili/EAGLE-LLaMA3.1-Instruct-8B"}),
        ("eagle3", {"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}),
        ("medusa", {"method": "medusa"}),
        ("pard", {"method": "draft_model", "model": "amd/PARD-Llama-3.2-1B", "parallel_drafting": True}),
        ("p-eagle", {"method": "eagle3", "parallel_drafting": True}),
        ("dflash", {"method": "dflash"}),
        ("dspark", {"method": "dspark"}),
        ("ngram", {"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}),
        ("suffix", {"method": "suffix"}),
    ],
)
def test_vllm_has_a_method_for_each_drafter(drafter: str, expected: dict[str, Any]) -> None:
    options = {"b": 1, "k": 4, "alpha": 0.8, "target": "llama-3.1-8b", "tp": 1, "strategies": ("ar", "sd")}
    config = json.loads(export("vllm", **options, drafter=drafter).text)
    check_vllm(config, tp=1)
    assert config["num_speculative_tokens"] == 4
    assert {key: config.get(key) for key in expected} == expected
    assert ("model" in config) == (drafter not in ("ngram", "suffix"))


@pytest.mark.parametrize(("names", "adaptive"), [(("ar", "adaptive"), True), (("ar", "sd"), None)])
def test_vllm_is_told_that_it_chooses_rows(names: tuple[str, ...], adaptive: bool | None) -> None:
    """It drafts one number of tokens then: no table is beside it."""
    options = {"b": [1, 64], "target": "qwen3-8b", "tp": 1, "drafter": "dspark", "strategies": names}
    exported = export("vllm", **options)
    config = json.loads(exported.text)
    check_vllm(config, tp=1)
    assert config["model"] == "deepseek-ai/dspark_qwen3_8b_block7"
    assert config.get("enable_adaptive_verification") is adaptive
    if adaptive:
        assert "num_speculative_tokens_per_batch_size" not in config


EIGHT: dict[str, Any] = {"b": [1, 64], "k": [2, 6], "alpha": 0.8, "target": "llama-3.1-8b", "tp": 1}


@pytest.mark.parametrize(
    "drafter", ["model", "eagle", "eagle3", "medusa", "pard", "p-eagle", "dflash", "dspark", "ngram", "suffix"]
)
def test_a_whole_vllm_command_parses_and_says_what_the_config_does(drafter: str) -> None:
    options = {**EIGHT, "strategies": ("ar", "sd"), "drafter": drafter}
    command = served(export("vllm-serve", **options).text)
    assert (command.model, command.tensor_parallel_size) == ("meta-llama/Llama-3.1-8B-Instruct", 1)
    check_vllm(command.speculative_config, tp=1)
    assert command.speculative_config == json.loads(export("vllm", **options).text)


def test_a_vllm_command_has_the_experts_the_cache_and_no_speculation_where_none_pays() -> None:
    mixture = {"b": 1, "k": 2, "target": "deepseek-r1", "tp": 8, "hardware": "b200-sxm", "dtype": "nvfp4"}
    mixture |= {"strategies": ("ar", "sd"), "drafter": "mtp"}
    assert served(export("vllm-serve", **mixture, ep=8).text).enable_expert_parallel
    apart = served(export("vllm-serve", **{**mixture, "b": [8, 64]}, attention="data-parallel").text)
    assert (apart.data_parallel_size, apart.tensor_parallel_size) == (8, None)
    assert "num_speculative_tokens_per_batch_size" not in apart.speculative_config  # which it switches off then
    assert served(export("vllm-serve", **mixture, kv_dtype="float8").text).kv_cache_dtype == "fp8"
    hopeless = {"b": 256, "k": 4, "alpha": 0.01, "target": "llama-3.1-8b", "tp": 1, "strategies": ("ar", "sd")}
    assert served(export("vllm-serve", **hopeless).text).speculative_config is None


def test_what_a_user_names_is_what_is_served(tmp_path: Path) -> None:
    hub = served(export("vllm-serve", **{**EIGHT, "target": "nvidia/Llama-3.1-8B-Instruct"}).text)
    assert hub.model == "nvidia/Llama-3.1-8B-Instruct"
    config = {
        "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 8, "intermediate_size": 4096, "vocab_size": 128256, "torch_dtype": "bfloat16",
        "architectures": ["LlamaForCausalLM"],
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    for named in (tmp_path, tmp_path / "config.json"):
        made = json.loads(export("vllm", **EIGHT, strategies=("ar", "sd"), draft=str(named)).text)
        assert made["model"] == str(tmp_path)


def test_a_head_without_a_checkpoint_is_said_and_not_invented() -> None:
    options = {"b": 1, "k": 4, "alpha": 0.8, "strategies": ("ar", "sd"), "drafter": "eagle3"}
    exported = export("vllm", **options)  # of Llama-3.1-70B no EAGLE-3 head is in a card
    assert json.loads(exported.text)["model"] == "PATH-OF-eagle3-llama-3.1-70b"
    assert any("no checkpoint of eagle3-llama-3.1-70b is known here" in note for note in exported.notes)
    known = export("vllm", **options, target="qwen3-32b", tp=2, hardware="h200-sxm")
    assert json.loads(known.text)["model"] == "AngelSlim/Qwen3-32B_eagle3"
    assert not any("no checkpoint" in note for note in known.notes)


def test_a_table_says_what_it_is_worth_beside_the_best_fixed_k() -> None:
    options = {"b": [1, 16, 256], "k": [2, 4, 6], "alpha": 0.8, "strategies": ("ar", "sd"), "engine": "vllm"}
    options |= {"target": "llama-3.1-8b", "tp": 1, "drafter": "eagle3"}
    possible = candidates(**options)
    each, one = ([chosen.rate.median for chosen in possible.best(by=by)] for by in (("b",), ()))
    gains = np.log(each) - np.log(one)
    (note,) = (n for n in export("vllm", **options).notes if n.startswith("the table over"))
    assert f"is worth {np.expm1(gains.mean()):.1%} over K " in note
    assert f"(at most {np.expm1(gains.max()):.1%}, at batch " in note
    assert ("little, so that" in note) == (np.expm1(gains.mean()) < 0.02)
    before = json.loads(export("vllm", **{**options, "engine": "vllm-0.16"}).text)
    assert "num_speculative_tokens_per_batch_size" not in before  # that version has no table


@pytest.mark.parametrize(
    ("drafter", "kind"),
    [("model", "DraftTarget"), ("eagle3", "Eagle"), ("pard", "PARD"), ("dflash", "DFlash"), ("ngram", "NGram")],
)
def test_tensorrt_llm_has_a_file_and_a_command(drafter: str, kind: str) -> None:
    documented = KEYS["trtllm"]
    lines = export("trtllm", **EIGHT, strategies=("ar", "sd"), drafter=drafter).text.splitlines()
    assert lines[0] == "cat > speculative.yaml <<'END'"
    end = lines.index("END")
    said = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in lines[1:end])
    inner = {key.strip(): value for key, value in said.items() if key.startswith("  ")}
    assert {key for key in said if not key.startswith("  ")} <= set(documented["file_keys"])
    assert set(inner) <= set(documented["keys"])
    assert inner["decoding_type"] == kind
    assert kind in documented["types"]
    words = shlex.split(lines[end + 1])
    assert words[:2] == ["trtllm-serve", "meta-llama/Llama-3.1-8B-Instruct"]
    assert set(words[2::2]) <= set(documented["flags"])
    if "draft_len_schedule" in inner:
        table = dict(entry.split(": ") for entry in inner["draft_len_schedule"].strip("{}").split(", "))
        assert list(map(int, table)) == sorted(map(int, table))
        assert max(map(int, table.values())) == int(inner["max_draft_len"])


def test_tensorrt_llms_table_begins_with_its_largest_number() -> None:
    """Its check: the number of the smallest batch size is ``max_draft_len`` (tensorrt_llm/llmapi/llm_args.py)."""
    exported = export("trtllm", b=[8, 32, 256], alpha=0.8, tp=8, strategies=("ar", "sd"))
    lines = dict(line.strip().split(": ", 1) for line in exported.text.splitlines() if ": " in line)
    table = dict(entry.split(": ") for entry in lines["draft_len_schedule"].strip("{}").split(", "))
    assert lines["max_draft_len"] == next(iter(table.values())) == max(table.values(), key=int)
    assert any("begins with its largest number" in note for note in exported.notes)


@pytest.mark.parametrize(
    ("drafter", "algorithm"),
    [("eagle", "EAGLE"), ("eagle3", "EAGLE3"), ("dflash", "DFLASH"), ("dspark", "DSPARK"), ("ngram", "NGRAM")],
)
def test_sglang_has_an_algorithm_for_its_drafters(drafter: str, algorithm: str) -> None:
    options = {"b": 1, "k": 4, "alpha": 0.8, "target": "llama-3.1-8b", "tp": 1, "strategies": ("ar", "sd")}
    words = shlex.split(export("sglang", **options, drafter=drafter).text)
    assert words[words.index("--speculative-algorithm") + 1] == algorithm
    documented = KEYS["sglang"]
    assert algorithm in documented["algorithms"] + documented["newer_algorithms"]
    flags = [word for word in words if word.startswith("--speculative")]
    assert set(flags) <= {*documented["speculative_flags"], *documented["newer_flags"]}
    assert ("--speculative-draft-model-path" in flags) == (drafter != "ngram")


def test_built_in_mtp_needs_no_other_checkpoint() -> None:
    options = {"b": 1, "k": 2, "target": "deepseek-r1", "tp": 8, "hardware": "b200-sxm", "dtype": "nvfp4"}
    options |= {"strategies": ("ar", "sd"), "drafter": "mtp"}
    config = json.loads(export("vllm", **options).text)
    check_vllm(config, tp=8)
    assert config == {"method": "mtp", "num_speculative_tokens": 2}
    words = shlex.split(export("sglang", **options).text)
    assert "--speculative-draft-model-path" not in words
    assert words[words.index("--speculative-num-draft-tokens") + 1] == "3"


@pytest.mark.parametrize(("ep", "as_priced"), [(8, True), (2, False)])
def test_experts_that_lie_apart_are_a_switch_of_vllm_and_a_number_of_sglang(ep: int, as_priced: bool) -> None:
    options = {"b": 1, "k": 2, "target": "deepseek-r1", "tp": 8, "ep": ep, "hardware": "b200-sxm", "dtype": "nvfp4"}
    options |= {"strategies": ("ar", "sd"), "drafter": "mtp"}
    notes = " ".join(export("vllm", **options).notes)
    assert "start vLLM with --enable-expert-parallel" in notes
    assert ("priced in 2 groups of 4" not in notes) == as_priced
    words = shlex.split(export("sglang", **options).text)
    assert words[words.index("--ep-size") + 1] == str(ep)
    assert "expert" not in " ".join(export("vllm", **{**options, "ep": 1}).notes)


LONG: dict[str, Any] = {
    "b": 8, "k": 2, "target": "deepseek-r1", "drafter": "mtp", "tp": 8, "hardware": "h200-sxm", "context": 65_536,
    "strategies": ("ar", "sd"), "dcp": 8,
}  # fmt: skip


def test_devices_that_share_a_cache_exchange_as_priced() -> None:
    command = served(export("vllm-serve", **LONG).text)
    assert (command.tensor_parallel_size, command.decode_context_parallel_size) == (8, 8)
    assert command.dcp_comm_backend == "a2a"
    notes = " ".join(export("vllm", **LONG).notes)
    assert "start vLLM with --decode-context-parallel-size 8 --dcp-comm-backend a2a" in notes
    assert "some attention backends, with MTP" in notes
    words = shlex.split(export("sglang", **LONG).text)
    assert words[words.index("--dcp-size") + 1] == "8"
    assert words[words.index("--dcp-comm-backend") + 1] in KEYS["sglang"]["sharing"]["--dcp-comm-backend"]
    assert "decode-context" not in export("vllm-serve", **{**LONG, "dcp": 1}).text
    for format, names in (("trtllm", ("trtllm", "AR and SD", "Helix")), ("ssd", ("ssd",))):
        with refused(*names):
            export(format, **(LONG if format == "trtllm" else {"b": 1, "k": 2, "tp": 16, "dcp": 2}))


def test_a_drafter_that_an_engine_lacks_is_refused() -> None:
    for format, drafter in (("vllm", "self"), ("sglang", "medusa"), ("ssd", "eagle3")):
        with refused(drafter):
            export(format, b=1, k=4, drafter=drafter, target="llama-3.1-8b", tp=1)


def test_sampling_says_so_to_vllm_and_the_bench() -> None:
    options = {"b": 1, "k": 4, "f": 2, "temperature": 0.7}
    config = json.loads(export("vllm", **options).text)
    check_vllm(config, tp=4)
    assert config["draft_sample_method"] == "probabilistic"
    assert bench_commands(export("ssd", **options).text)[0].temp == 0.7


@given(st.dictionaries(st.integers(1, 512), st.integers(0, 12), min_size=1, max_size=9))
def test_ranges_are_valid_and_keep_every_batch_size(lookaheads: dict[int, int]) -> None:
    ranges = ranges_of(lookaheads)
    check_ranges(ranges)
    assert {batch: lookahead(ranges, batch) for batch in lookaheads} == lookaheads
    assert ranges[-1][1] == max(lookaheads)
    assert all(left[2] != right[2] for left, right in pairwise(ranges))
    assert all(left[1] + 1 == right[0] for left, right in pairwise(ranges))


def test_sglang_command_is_what_it_documents() -> None:
    options = {**SMALL, "b": [1, 8, 128]}  # whose best K differ
    exported = export("sglang", **options)
    words = shlex.split(exported.text)
    assert words[:3] == ["python", "-m", "sglang.launch_server"]
    flags = dict(zip(words[3::2], words[4::2], strict=True))
    assert set(flags) <= {*KEYS["sglang"]["speculative_flags"], *KEYS["sglang"]["server_flags"]}
    assert flags["--speculative-algorithm"] in KEYS["sglang"]["algorithms"]
    assert flags["--speculative-eagle-topk"] == "1"
    k = int(flags["--speculative-num-steps"])
    assert int(flags["--speculative-num-draft-tokens"]) == k + 1  # the documentation: with topk 1, num_steps + 1
    assert {each.lookahead for each in candidates(**options, engine="sglang").best(("ar", "sd"), by=())} == {k}
    assert any("SGLang takes one K over batch sizes and contexts" in note for note in exported.notes)


def test_sglang_takes_trees_and_vllm_has_none() -> None:
    options: dict[str, Any] = {"b": 1, "alpha": 0.8, "target": "llama-3.1-8b", "tp": 1}
    options |= {"strategies": ("ar", "sd", "tree"), "drafter": "eagle3"}
    exported = export("sglang", **options, tree_beam=4)
    words = shlex.split(exported.text)
    flags = dict(zip(words[3::2], words[4::2], strict=True))
    assert flags["--speculative-num-steps"] == "6"  # EAGLE-2's
    assert flags["--speculative-eagle-topk"] == "4"
    assert flags["--speculative-num-draft-tokens"] == "61"  # the root is one of them
    assert not any("makes a tree for each round" in note for note in exported.notes)
    assert any(
        "makes a tree for each round" in note
        for note in export("sglang", **{**options, "strategies": ("ar", "tree")}, tree_children=[4, 2]).notes
    )
    assert any("vLLM has no Tree SD" in note for note in export("vllm", **options, tree_beam=4).notes)


def test_sglang_without_speculation_where_ar_is_best() -> None:
    exported = export("sglang", b=[256], k=[1, 4], f=1, alpha=0.01, target="llama-3.1-8b", tp=1)
    assert "--speculative" not in exported.text
    assert any("AR is best on the whole" in note for note in exported.notes)


@pytest.mark.long
def test_the_bench_takes_every_command_of_the_ssd_engine() -> None:
    few = {**SMALL, "b": [1, 4, 16]}
    cells = Schedule.parse(export("json", **few).text).cells
    commands = bench_commands(export("ssd", **few).text)
    assert [(c.b, c.k, c.gpus) for c in commands] == [(cell.b, cell.settings["k"], cell.gpus) for cell in cells]
    for command, cell in zip(commands, cells, strict=True):
        assert (command.llama, command.size, command.draft) == (True, "70", "1")
        assert command.spec
        assert getattr(command, "async")
        assert command.backup == cell.settings["backup"]
        assert command.flh == list(cell.settings["fan_outs"])
        assert len(command.flh) == command.k + 1
        if command.flm is not None:  # ssd/config.py asserts it
            assert sum(command.flm) == sum(command.flh)


def test_the_bench_does_sd_and_ar_too() -> None:
    options = {"k": [1, 4], "target": "llama-3.1-8b", "draft": "llama-3.2-1b", "tp": 1}
    (sd,) = bench_commands(export("ssd", **options, b=4, alpha=0.7, p_hit=0.1).text)
    assert (sd.spec, getattr(sd, "async"), sd.draft, sd.gpus) == (True, False, "1", 1)
    (ar,) = bench_commands(export("ssd", **options, b=256, alpha=0.01, f=1).text)
    assert (ar.spec, ar.k, ar.draft, ar.gpus) == (False, None, None, 1)


def test_the_bench_takes_a_common_fan_out_as_one_number() -> None:
    options = {"b": 1, "k": 4, "f": 2, "target": "qwen3-32b", "draft": "qwen3-0.6b"}
    (command,) = bench_commands(export("ssd", **options, fan_out_policy="uniform").text)
    assert (command.qwen, command.size, command.draft, command.f, command.flh) == (True, "32", "0.6", 2, None)
    (given_hits,) = bench_commands(export("ssd", b=1, k=4, p_hit=0.9).text)
    assert (given_hits.f, given_hits.flh) == (3, None)


def test_a_draft_that_is_faster_on_one_device_is_noted_for_vllm() -> None:
    """It shards the draft as it does the target; a tiny one then waits for all-reduces more than it computes."""
    shaped = {"target": "transformer-shaped-8192x40", "hardware": "v100-sxm2-32gb", "b": 1, "k": 4, "f": 1}
    shaped["engine"] = "kernels"  # which has the draft where it is faster; vLLM's own has it on all of them
    tiny = export("vllm", **shaped, draft="transformer-shaped-256x2")
    assert any("vLLM runs the draft on all 4 devices" in note for note in tiny.notes)
    assert any("no checkpoint of transformer-shaped-256x2 is known here" in note for note in tiny.notes)
    assert json.loads(tiny.text)["model"] == "PATH-OF-transformer-shaped-256x2"
    assert not any("vLLM runs the draft on all" in note for note in export("vllm", b=1, k=4, f=1).notes)


@pytest.mark.long
def test_a_placeholder_is_called_one() -> None:
    hits = "hits follow 1 - 0.4 F^-0.7"
    best = "this is best: measure it and give --pair"
    exported = export("csv", b=1, k=2, f=2)
    assert f"if acceptance is near 0.79 and {hits}, {best}" in exported.notes
    assert {each.name: each.standing for each in exported.inputs} == dict.fromkeys(
        ("alpha", "hit_c", "hit_r"), "placeholder"
    )
    assert f"if {hits}, {best}" in export("csv", b=1, k=2, f=2, alpha=0.8).notes
    assert f"if acceptance is near 0.79, {best}" in export("csv", b=1, k=2, strategies="ar,sd").notes
    assert f"if acceptance is near 0.79, {best}" in export("vllm", b=1, k=2, f=2).notes  # it has nothing that caches
    for sure in ({"strategies": "ar"}, {"k": 2, "alpha": 0.8, "p_hit": 0.9}):
        assert not any(" is best" in note for note in export("csv", b=1, **sure).notes)


def test_a_cell_in_which_the_choice_is_not_clear_is_noted() -> None:
    notes = export("csv", b=[1, 16], k=6, alpha=0.8, p_hit="0.1:0.9").notes
    (said,) = [note for note in notes if "another choice may be better" in note]
    assert said.startswith("at 1 of 2 cells another choice may be better: at batch 16, context 1024 this loses ")
    sure = export("csv", b=1, k=4, f=3, alpha=0.8, hit_c=0.4, hit_r=0.7).notes
    assert not any("may be better" in note for note in sure)


def test_a_drafter_cards_published_rates_are_no_placeholder() -> None:
    card = {"target": "llama-3.1-8b", "drafter": "eagle3", "strategies": "ar,sd", "b": 1, "k": 2}
    published = export("csv", **card)
    assert any("is published, not measured here" in warning for warning in published.warnings)
    assert not any(" is best" in note for note in published.notes)
    assert [each.standing for each in published.inputs] == ["published"]


def test_what_an_engine_fixes_is_noted() -> None:
    one = export("ssd", b=4, k=4, f=3)
    two = export("ssd", b=4, k=4, f=3, draft_gpus=2)
    assert two.text == one.text
    assert "the SSD engine has one draft GPU: SSD is priced with one" in two.notes
    beside = export("vllm", b=4, k=4, f=3, sd_draft="separate")
    assert any("vLLM drafts on the target's devices" in note for note in beside.notes)


@pytest.mark.parametrize(
    ("format_", "options", "names"),
    [
        ("vlm", {}, "vlm, vllm"),
        ("json", {"backup": "jit"}, "a schedule has no option 'backup'"),
        ("json", {"b": []}, "--b"),
        ("json", {"b": 0}, "--b, got 0"),
        ("json", {"alpha": 2.0}, "--alpha"),
        ("json", {"target": "lama"}, "lama"),
        ("json", {"draft_hardware": "x100"}, "x100"),
        ("ssd", {"target": "llama-2-70b", "dtype": "bfloat16"}, "the SSD engine does not know llama-2-70b"),
        ("ssd", {"draft": "qwen3-0.6b"}, "the SSD engine, llama, qwen"),
    ],
)
def test_mistakes_are_errors(format_: str, options: dict[str, Any], names: str) -> None:
    with refused(*names.split(", ")):
        export(format_, **{"b": 1, "k": 2, "f": 2, **options})


def test_cached_outcomes_beside_a_hit_rate_are_what_is_drafted() -> None:
    (cell,) = json.loads(export("json", b=1, k=2, f=3, p_hit=0.8, strategies="ssd").text)["cells"]
    assert cell["settings"]["budget"] == 3 * (2 + 1)


@pytest.mark.parametrize("format_", ["json", "csv", "vllm", "vllm-serve", "sglang", "trtllm", "ssd"])
def test_nothing_that_fits_is_a_no_and_not_a_mistake(format_: str, tmp_path: Path) -> None:
    """Alike in every format; a schedule is written all the same, since it holds the reasons."""
    path = tmp_path / "out"
    arguments = ["export", "--format", format_, *"--tp 1 --b 1,8 --k 2 --f 2 --quiet -o".split(), str(path)]
    done = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert done.return_value == 1
    assert done.stderr.startswith("nothing fits: llama-3.1-70b at tp 1 needs")
    assert done.stderr.count("\n") == 1
    assert path.exists() == (format_ in ("json", "csv"))
    if path.exists():
        assert {cell.strategy for cell in Schedule.load(path).cells} == {None}


def test_models_that_the_ssd_engine_lacks_are_refused_whatever_is_best() -> None:
    with pytest.raises(InputError, match="the SSD engine pairs models of one family"):
        export("ssd", b=64, k=2, f=2, alpha=0.01, draft="qwen3-0.6b")


def test_the_command_writes_a_file_and_speaks_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "speculative.json"
    arguments = ["export", "--format", "vllm", "--b", "1,64", "--k", "2,6", "--f", "3", "-o", str(path)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0
    check_vllm(json.loads(path.read_text()), tp=4)
    assert done.stdout == ""
    assert "note: vLLM has no SSD" in done.stderr
    assert list(tmp_path.iterdir()) == [path]
    quiet = CliRunner().invoke(cli, [*arguments, "--quiet", "--json"])
    answer = json.loads(quiet.stdout)
    assert (answer["schema"], answer["format"]) == (1, "vllm")
    assert answer["text"] == path.read_text()
    assert quiet.stderr == ""


def test_heads_of_the_target_have_no_ssd_to_search() -> None:
    """By default SSD is among the strategies, and its outcomes fill a window that such heads cannot draft in."""
    exported = export("vllm", drafter="medusa", b=[1, 4])
    assert json.loads(exported.text)["method"] == "medusa"


def test_the_ssd_engine_is_told_the_c_that_was_chosen() -> None:
    """As --x, where the best round scales the draft's tokens; and none where plain sampling was asked for."""
    options: dict[str, Any] = {"pair": "smollm2-135m-28-layers", "temperature": 1.0, "b": 1, "k": 5, "f": 3}
    options |= {"strategies": "ar,ssd"}
    (scaled,) = bench_commands(export("ssd", **options, saguaro_c=0.3).text)
    (plain,) = bench_commands(export("ssd", **options, saguaro_c=1.0).text)
    assert (scaled.x, plain.x) == (0.3, None)
    (searched,) = bench_commands(export("ssd", **options).text)
    assert searched.x is None or 0.0 < searched.x < 1.0


ONE: dict[str, Any] = {"b": 1, "k": 3, "alpha": 0.8, "strategies": ("ar", "sd"), "tp": 1}


@pytest.mark.parametrize("rule", ["block", "fly"])
def test_vllm_is_told_the_acceptance_rule(rule: str) -> None:
    head = {"target": "llama-3.1-8b", "drafter": "eagle3", "temperature": 1.0, "acceptance_rule": rule}
    config = json.loads(export("vllm", **ONE, **head).text)
    check_vllm(config, 1)
    assert config["rejection_sample_method"] == rule


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"acceptance_rule": "relaxed", "target": "deepseek-r1", "drafter": "mtp", "tp": 8, "hardware": "h200-sxm"},
            {"use_relaxed_acceptance_for_thinking": "true", "relaxed_topk": "10"},
        ),
        ({"acceptance_floor": 0.4}, {"acceptance_rate_threshold": "0.4"}),
    ],
)
def test_tensorrt_llm_is_told_how_drafts_are_tested(asked: dict[str, Any], said: dict[str, str]) -> None:
    made = export("trtllm", **{**ONE, "target": "llama-3.1-8b", "drafter": "eagle3", **asked}).text
    lines = dict(line.strip().split(": ", 1) for line in made.splitlines() if line.startswith("  "))
    assert said.items() <= lines.items()
    assert set(lines) <= {*KEYS["trtllm"]["keys"], *KEYS["trtllm"]["testing_keys"]}


@pytest.mark.parametrize(
    ("format", "asked"),
    [
        ("vllm", {"acceptance_rule": "relaxed"}),
        ("vllm-serve", {"acceptance_floor": 0.4}),
        ("trtllm", {"acceptance_rule": "fly"}),
        ("trtllm", {"acceptance_rule": "relaxed"}),
        ("sglang", {"acceptance_rule": "block", "temperature": 1.0}),
    ],
)
def test_an_engine_without_the_switch_refuses(format: str, asked: dict[str, Any]) -> None:
    with refused("--acceptance-floor" if "acceptance_floor" in asked else "--acceptance-rule", format):
        export(format, **ONE, target="llama-3.1-8b", drafter="eagle3", **asked)


@pytest.mark.parametrize(
    ("drafter", "kind"),
    [
        ("model", "draft-simple"),
        ("mtp", "draft-mtp"),
        ("eagle3", "draft-eagle3"),
        ("dflash", "draft-dflash"),
        ("ngram", "ngram-simple"),
    ],
)
def test_llama_cpp_has_a_type_for_its_drafters(drafter: str, kind: str) -> None:
    asked = {} if drafter == "ngram" else {"draft_p_min": 0.3}
    target = "qwen3.5-27b" if drafter == "mtp" else "llama-3.1-8b"
    made = export("llama-cpp", **ONE, target=target, drafter=drafter, **asked)
    words = shlex.split(made.text)
    said = dict(zip(words[1::2], words[2::2], strict=True))
    assert words[0] == "llama-server"
    assert set(said) <= set(KEYS["llama-cpp"]["flags"])
    assert said["--spec-type"] == kind
    assert kind in KEYS["llama-cpp"]["types"]
    assert ("--spec-draft-model" in said) == (drafter not in ("mtp", "ngram"))
    assert said.get("--spec-draft-p-min") == (None if drafter == "ngram" else "0.3")
    assert any("GGUF" in note for note in made.notes)


def test_llama_cpp_is_told_to_draft_all_k_where_nothing_ends_a_draft() -> None:
    words = shlex.split(export("llama-cpp", **ONE, target="llama-3.1-8b").text)
    assert words[words.index("--spec-draft-p-min") + 1] == "0"
    with refused("--draft-p-min", "vllm"):
        export("vllm", **ONE, target="llama-3.1-8b", draft_p_min=0.3)
