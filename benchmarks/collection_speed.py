"""How fast ``ssdsim measure`` collects: answers written by the target, then one pass of both models and the records.

    python -m benchmarks.collection_speed FOLDER [--batch 16]

``FOLDER`` holds ``target/``, ``draft/`` and prompts (``*.jsonl``), as the tests train them. Told are positions per
second of the clock and of the processor: with the answers written, and of answers that were given.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from calibration.pairs.measure.collect import CollectionPlan, TokenizedPrompt, collect, tokenized
from calibration.pairs.measure.models import CausalModel, load_pair_of_models
from calibration.pairs.measure.prompts import read_prompts
from calibration.pairs.records import RecordedAnswer, RecordFolder
from ssdsim.base.record import replace


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.collection_speed", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=160)
    parser.add_argument("--temperatures", default="0,0.7,1")
    given = parser.parse_args()
    models = load_pair_of_models(str(given.folder / "target"), str(given.folder / "draft"), "float32", "cpu", None)
    prompts = [prompt for file in sorted(given.folder.glob("*.jsonl")) for prompt in read_prompts(file, None)]
    asked = tokenized(prompts, models[0], "auto", given.new_tokens)
    temperatures = tuple(map(float, given.temperatures.split(",")))
    work = CollectionPlan(temperatures=temperatures, new_tokens=given.new_tokens, top=64, seed=0, batch=given.batch)
    print(f"{len(asked)} prompts, {torch.get_num_threads()} threads, batches of {given.batch}")
    written = _collected("with answers written", models, asked, work)
    for temperature in temperatures:
        answers = {each.id: tuple(each.positions.token.tolist()) for each in written if each.temperature == temperature}
        again = [replace(each, prompt=replace(each.prompt, answer_ids=answers[each.id])) for each in asked]
        one = replace(work, temperatures=(temperature,))
        _collected(f"answers given, temperature {temperature:g}", models, again, one)


def _collected(
    what: str, models: tuple[CausalModel, CausalModel], asked: Sequence[TokenizedPrompt], work: CollectionPlan
) -> list[RecordedAnswer]:
    with TemporaryDirectory() as name:
        folder = RecordFolder(Path(name))
        folder.open({})
        clock, processor = time.perf_counter(), time.process_time()
        collect(*models, asked, work, folder, lambda done, total: None)
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
        requests = list(folder.requests())
    positions = sum(map(len, requests))
    print(
        f"{what}: {positions} positions in {clock:.1f} s, {positions / clock:.0f} a second, "
        f"{positions / processor:.0f} a second of the processor"
    )
    return requests


if __name__ == "__main__":
    main()
