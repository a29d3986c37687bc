"""Folders of models that somebody else made: what cannot be loaded is one line, and no code in them runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from calibration.pairs.measure.models import load_model
from ssdsim.base.errors import InputError
from tests.calibration.bench.hostile import hostile
from tests.refusals import assert_refused

WEIGHTS = "model.safetensors"


def small_llama(made: Path) -> Path:
    """A llama of two layers."""
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    LlamaForCausalLM(LlamaConfig(vocab_size=11, **shape)).save_pretrained(made)
    words = Tokenizer(models.WordLevel({str(i): i for i in range(11)}, unk_token="0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="10").save_pretrained(made)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_llama(tmp_path / "model")


def with_config(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def with_generation(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "generation_config.json").write_text(json.dumps(changes))

    return change


def cut_short(folder: Path) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[: len(data) // 2])


def without_a_layer(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    kept = {name: weight for name, weight in load_file(folder / WEIGHTS).items() if "layers.1" not in name}
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (cut_short, "not a model that transformers can load"),
        (with_config(hidden_size=32), "not a model that transformers can load"),
        (with_config(num_attention_heads=0), "not a model that transformers can load"),
        (with_config(num_key_value_heads=3), "not a model that transformers can load"),
        (with_config(vocab_size="eleven"), "not a model that transformers can load"),
        (with_config(model_type="unheard-of"), "not a model that transformers can load"),
        (with_config(rms_norm_eps=[]), "not a model that transformers can load"),
        (without_a_layer, "lack the weights model.layers.1"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b""), "not a model that transformers can load"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "not a model that transformers can load"),
        (with_generation(eos_token_id={"x": 1}), "not a model that transformers can load"),
    ],
)
def test_a_broken_folder_is_one_line(folder: Path, broken: Callable[[Path], None], said: str) -> None:
    assert load_model(str(folder), "float32", "cpu").vocabulary == 11
    broken(folder)
    with pytest.raises(InputError) as error:
        load_model(str(folder), "float32", "cpu")
    assert said in str(error.value)


def test_code_in_a_folder_never_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``auto_map`` has transformers ask, and run what a y allows: nobody is asked here."""
    ran = folder / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    names = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    with_config(model_type="own", auto_map=names)(folder)
    read, write = os.pipe()
    os.write(write, b"y\n" * 9)
    os.close(write)
    with os.fdopen(read) as answers:
        monkeypatch.setattr("sys.stdin", answers)
        with pytest.raises(InputError, match="not a model that transformers can load"):
            load_model(str(folder), "float32", "cpu")
    assert not ran.exists()


@pytest.mark.long
def test_an_id_that_is_not_in_the_cache_is_not_asked_for(tmp_path: Path) -> None:
    """In a process of its own: huggingface_hub asks of its own accord where nobody tells it to be offline."""
    with hostile() as hub:
        environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
        environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path)}
        words = ("measure", "--target", "nobody-here/no-such-model", "--draft", "nobody-here/none", "-o", "pair.json")
        (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": "one"}) + "\n")
        words += ("--prompts", "prompts.jsonl")
        command = [sys.executable, "-m", "ssdsim", *words]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert_refused(done, "nobody-here/no-such-model")
    assert hub.asked == []
