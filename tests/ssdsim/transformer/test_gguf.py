"""GGUF files as models: the card and the format that a header says, what is refused, and what is read of it."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.advise.recommend.request import make_request
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer, transformer_meant, unlike_its_format
from ssdsim.question.configuration import configure
from ssdsim.transformer.gguf import BITS, header_bytes, read_header
from tests.refusals import assert_refused, refused
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.transformer.gguf_files import (
    BF16,
    F16,
    LLAMA_1B,
    LLAMA_8B,
    MXFP4,
    Q4_K,
    Q6_K,
    Q8_0,
    gguf,
    written,
)

MINE = "mine.gguf"


@pytest.mark.parametrize(("kind", "kept"), [(Q4_K, "int4"), (Q8_0, "int8"), (BF16, "bfloat16"), (F16, "float16")])
def test_a_file_is_its_models_card_in_its_format(kind: int, kept: str, tmp_path: Path) -> None:
    path = gguf(tmp_path / "Meta-Llama-3.1-8B-Instruct-anything.gguf", kind=kind, name="Meta Llama 3.1 8B Instruct")
    card, known = find_transformer(path), find_transformer("llama-3.1-8b")
    assert card.name == known.name
    assert card.family == known.family
    assert card.parameters_by_part == known.parameters_by_part
    assert card.precision().formats_of_blocks == (kept,)
    assert card.precision().lm_head == ("int8" if kept.startswith("int") else kept)
    assert transformer_meant(str(path)) == f"llama-3.1-8b with weights in {kept}"
    assert unlike_its_format(str(path)) is None


def test_a_file_of_no_bundled_card_is_what_its_header_says(tmp_path: Path) -> None:
    card, like = find_transformer(gguf(tmp_path / MINE)), find_transformer("llama-3.1-8b")
    assert card.name == "mine"
    assert card.parameters_by_part == like.parameters_by_part
    assert card.weight_bytes() == find_transformer("llama-3.1-8b-q4_k_m").weight_bytes()
    small = find_transformer(gguf(tmp_path / "small.gguf", LLAMA_1B, tied=True))
    assert small.parameters == find_transformer("llama-3.2-1b").parameters


def test_a_name_alone_makes_no_other_model_of_a_file(tmp_path: Path) -> None:
    other = LLAMA_8B | {"block_count": 30}
    path = gguf(tmp_path / "Llama-3.1-8B-Instruct-Q4_K_M.gguf", other)
    assert (find_transformer(path).name, find_transformer(path).layers) == ("Llama-3.1-8B-Instruct-Q4_K_M", 30)


def test_a_mixture_says_its_experts(tmp_path: Path) -> None:
    of = LLAMA_8B | {"expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768}
    experts = find_transformer(gguf(tmp_path / MINE, of, architecture="qwen3moe")).experts
    assert experts is not None
    assert (experts.count, experts.per_token, experts.width) == (128, 8, 768)


def test_a_checkpoint_that_is_mxfp4_already_is_its_card(tmp_path: Path) -> None:
    known = find_transformer("gpt-oss-20b")
    of = LLAMA_8B | {"block_count": known.layers, "embedding_length": known.hidden_size}
    path = gguf(tmp_path / "gpt-oss-20b-mxfp4.gguf", of, MXFP4, architecture="gpt-oss", vocabulary=known.vocab_size)
    assert find_transformer(path) == known


def test_another_format_is_the_nearest_one_and_says_so(tmp_path: Path) -> None:
    path = str(gguf(tmp_path / MINE, kind=Q6_K))
    asked_for: dict[str, Any] = {"target": path, "draft": "llama-3.2-1b", "tp": 1, "strategies": ["ar", "sd"]}
    answer = configure(hardware="rtx-4090", **asked_for)
    assert find_transformer(path).precision().weights == "int8"
    assert [each for each in answer.warnings if "Q6_K, 6.6 bits" in each and "int8" in each and path in each]
    as_card = configure(hardware="rtx-4090", **asked_for | {"target": "llama-3.1-8b", "dtype": "int8"})
    assert not any("bits a weight" in each for each in as_card.warnings)


@pytest.mark.parametrize("kept", BITS)
def test_a_pair_of_files_is_priced_as_the_pair_of_cards(kept: str, tmp_path: Path) -> None:
    kind = {"int4": Q4_K, "int8": Q8_0, "bfloat16": BF16}[kept]
    files = gguf(tmp_path / "Llama-3.1-8B.gguf", kind=kind), gguf(tmp_path / "Llama-3.2-1B.gguf", LLAMA_1B, kind)
    ending = {"int4": "-q4-k-m", "int8": "-q8-0", "bfloat16": ""}[kept]
    by_file, by_name = (
        configure(target=str(target), draft=str(draft), hardware="rtx-4090", engine="llama-cpp", tp=1)
        for target, draft in (files, (f"llama-3.1-8b{ending}", f"llama-3.2-1b{ending}"))
    )
    for name, scenario in by_name.scenarios.items():
        assert by_file.scenarios[name].estimate.tokens_per_second == scenario.estimate.tokens_per_second


def test_a_file_is_run_by_llama_cpp_where_nobody_names_an_engine(tmp_path: Path) -> None:
    path = str(gguf(tmp_path / "Llama-3.1-8B.gguf"))
    answer = configure(target=path, hardware="rtx-4090")
    assert (answer.settings["engine"], [*answer.scenarios]) == ("llama-cpp", ["ar", "sd"])
    assert answer.setup_text().endswith("with llama.cpp")
    assert configure(target=path, hardware="rtx-4090", engine="vllm").settings["engine"] == "vllm"
    request = make_request(gpus="1xrtx-4090", b=1, rank="user", gpu_hour=None, at_least=None, seed=0, target=path)
    assert request.engine.called == "llama.cpp"


def test_a_sweep_and_a_plan_compare_what_runs_the_file(tmp_path: Path) -> None:
    path = str(gguf(tmp_path / "Llama-3.1-8B.gguf"))
    swept = asked("sweep", "--model", path, "--hardware", "rtx-4090", "--draft-hardware", "rtx-3090,cpu", "--quiet")
    assert swept.returncode == 0, swept.stderr
    assert "SSD" not in swept.stdout
    planned = asked("plan", "--model", path, "--hardware", "rtx-4090", "--rate", "0.5", "--quiet").stdout
    assert "SD, K" in planned
    assert "\nSSD" not in planned


def test_a_draft_that_nobody_named_is_a_file_of_the_targets_format(tmp_path: Path) -> None:
    path = str(gguf(tmp_path / "Llama-3.1-8B.gguf"))
    kept = {
        name: configure(target=path, hardware="rtx-4090", **given).site.precision_of("draft").weights
        for name, given in {"assumed": {}, "named": {"draft": "llama-3.2-1b"}, "said": {"draft_dtype": "int8"}}.items()
    }
    assert kept == {"assumed": "int4", "named": "bfloat16", "said": "int8"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "GGUF"),
        (b"GGUF", "cut short"),
        (b"PK\x03\x04" * 9, "GGUF"),
        (written({}, {}, version=1), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "entries"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40), "entries"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62), "cut short"),
        (b"GGUF" + struct.pack("<IQQQI", 3, 0, 1, 0, 99), "type 99"),
        (b"GGUF" + struct.pack("<IQQQIIQ", 3, 0, 1, 0, 9, 8, 2**62), "cut short"),
        (b"GGUF" + struct.pack("<IQQQIIQ", 3, 0, 1, 0, 9, 12, 2**62), "cut short"),
        (b"GGUF" + struct.pack("<IQQQIIQ", 3, 0, 1, 0, 9, 9, 1), "type 9"),
        (b"GGUF" + struct.pack("<IQQQI", 3, 1, 0, 0, 2**31), "dimensions"),
        (written({}, {}), "not said"),
        (written({"general.architecture": "gemma3"}, {"token_embd.weight": ((8, 8), 0)}), "gemma3"),
        (written({"general.architecture": "llama"}, {"token_embd.weight": ((8, 8), 0)}), "num_hidden_layers"),
    ],
)
def test_a_wrong_file_is_one_line(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / MINE
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        find_transformer(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)
    assert_refused(asked("predict", "--model", str(path), "--tp", "1"), str(path))


@given(at=st.integers(0, 40_000), changed=st.binary(max_size=9), shorter=st.integers(0, 40_000))
def test_a_damaged_file_is_a_card_or_one_line(
    at: int, changed: bytes, shorter: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    whole = gguf(folder / MINE, LLAMA_1B).read_bytes()
    at, end = at % len(whole), len(whole) - shorter % len(whole)
    (folder / MINE).write_bytes((whole[:at] + changed + whole[at + len(changed) :])[:end])
    with suppress(InputError):
        find_transformer(folder / MINE)


def test_weights_are_neither_read_nor_kept(tmp_path: Path) -> None:
    path = gguf(tmp_path / MINE)
    with path.open("ab") as file:
        file.truncate(2**32)  # which takes no room on the disk
    assert len(header_bytes(path)) < 2**16
    path.with_name("header.gguf").write_bytes(header_bytes(path))
    assert read_header(path.with_name("header.gguf")).values == read_header(path).values


def test_a_run_folder_keeps_the_header_alone(tmp_path: Path) -> None:
    path = gguf(tmp_path / MINE)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.truncate(2**30)
    found = asked("sweep", "--model", str(path), "--strategies", "ar", "--tp", "1", "-o", str(tmp_path / "run"))
    assert found.returncode == 0, found.stderr
    (kept,) = (tmp_path / "run").rglob("*.gguf")
    assert kept.stat().st_size == size
    path.unlink()
    shown = asked("report", str(tmp_path / "run"))
    assert shown.returncode == 0, shown.stderr


def test_what_is_no_regular_file_is_none(tmp_path: Path) -> None:
    with refused("no such file"):
        find_transformer(tmp_path / "none.gguf")
    (tmp_path / "folder.gguf").mkdir()
    with refused("no transformer card"):
        find_transformer(tmp_path / "folder.gguf")
