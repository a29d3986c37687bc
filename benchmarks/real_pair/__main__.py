"""Write ``target/``, ``draft-L/`` for each number of layers L, and prompts: ``asked/``, ``other/`` by sets."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.real_pair.drafts import answers_of, first_layers, ridge_head
from benchmarks.real_pair.prompts import SETS, write_prompts
from benchmarks.real_pair.target import load_target, save


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_pair", description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--drafts", default="20,28", help="layers of each draft")
    parser.add_argument("--taught", type=int, default=40, help="prompts a set whose answers teach the drafts' heads")
    parser.add_argument("--new-tokens", type=int, default=256, help="of these answers")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    asked = parser.parse_args()
    target, tokenizer = load_target(asked.gguf, asked.device)
    save(target, tokenizer, asked.folder / "target")
    taught = write_prompts(asked.folder, asked.taught)
    texts = answers_of(target, tokenizer, taught, asked.new_tokens)
    print(f"target {target.num_parameters() / 1e6:.0f}M; drafts learn from {len(texts)} answers in {len(SETS)} sets")
    for layers in map(int, asked.drafts.split(",")):
        head, error = ridge_head(target, texts, layers)
        save(first_layers(target, layers, head), tokenizer, asked.folder / f"draft-{layers}")
        print(f"draft of {layers} layers: its head leaves {error:.1%} of the last state's variance")


if __name__ == "__main__":
    main()
