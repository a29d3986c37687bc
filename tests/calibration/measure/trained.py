"""A pair of models trained on the spot, from text that ships with Python: two ordinary Hugging Face folders.

Prose is what ``help`` says of topics, code the standard library's modules. The draft is small and hardly trained, the
target larger and trained for longer, so that the draft is the worse model. Nothing is downloaded.
"""

from __future__ import annotations

import json
import pydoc_data.topics
import sysconfig
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 512
_MODULES = 60
_BATCH, _LENGTH = 8, 96
_HELD_OUT = 0.1


def prose() -> list[str]:
    return [text for _, text in sorted(pydoc_data.topics.topics.items())]


def code() -> list[str]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    return [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.py"))[:_MODULES]]


def _split(texts: list[str]) -> tuple[list[str], list[str]]:
    """For training, and to ask about."""
    held_out = max(2, int(_HELD_OUT * len(texts)))
    return texts[held_out:], texts[:held_out]


def train(folder: Path, target_steps: int = 300, draft_steps: int = 120) -> None:
    """``draft/`` and ``target/`` with their tokenizer, ``prose.jsonl`` and ``code.jsonl`` with prompts."""
    (prose_text, asked_prose), (code_text, asked_code) = _split(prose()), _split(code())
    tokenizer = _tokenizer([*prose_text, *code_text])
    rng = np.random.default_rng(0)
    order = rng.permutation(len(prose_text) + len(code_text))
    texts = [[*prose_text, *code_text][i] for i in order]
    stream = np.concatenate([tokenizer.encode(text).ids for text in texts])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name, hidden, layers, steps in (("draft", 64, 1, draft_steps), ("target", 128, 2, target_steps)):
            _save(_trained(stream, hidden, layers, steps), tokenizer, folder / name)
    finally:
        torch.set_num_threads(threads)
    for name, held_out in (("prose", asked_prose), ("code", asked_code)):
        (folder / f"{name}.jsonl").write_text("".join(_prompts(tokenizer, held_out, rng)), encoding="utf-8")


def _tokenizer(texts: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text[:20_000] for text in texts], trainer)
    return tokenizer


def _trained(stream: np.ndarray, hidden: int, layers: int, steps: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    rng = np.random.default_rng(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=4e-3, total_steps=steps)
    for _ in range(steps):
        starts = rng.integers(0, len(stream) - _LENGTH, _BATCH)
        ids = torch.tensor(np.stack([stream[at : at + _LENGTH] for at in starts]), dtype=torch.long)
        loss = model(input_ids=ids, labels=ids).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model.eval()


def _save(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)


def _prompts(tokenizer: Tokenizer, texts: list[str], rng: np.random.Generator, count: int = 40) -> list[str]:
    """Lines of JSON: the beginning of a passage, some dozens of tokens long."""
    prompts = []
    for number in range(count):
        ids = tokenizer.encode(texts[number % len(texts)]).ids
        length = int(rng.integers(24, 64))
        at = int(rng.integers(0, max(1, len(ids) - length)))
        prompts.append(json.dumps({"question_id": number, "text": tokenizer.decode(ids[at : at + length])}) + "\n")
    return prompts
