"""Every verb as its own module has it, and commands of each that are answered within a second or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module

import click

from ssdsim.cli.main import FORMER, VERBS

_SERVED = "--target llama-3.1-8b --tp 1 --engine kernels --strategies ar,sd --k 2"
_GRID = "--t-sd 0.2 --p-hit 0.8 --strategies ar,sd,ssd"
COMMANDS: Mapping[str, Sequence[str]] = {
    "predict": (
        "--b 4 --target llama-3.1-8b --tp 1 --k 3",
        "--t-sd 0.2 --alpha 0.9 --k 5 --p-hit 0.85",
        "--t-sd 0.2 --alpha-concentration 4 --k 3 --output-tokens 32",
        "--t-sd 0.2 --acceptance trace.csv --k 3 --output-tokens 32",
        "--fl 4,3,2,1 --k 3 --target llama-3.1-8b --tp 1",
        "--target card.toml --hardware profile.json --tp 1 --k 3 --b 2",
        "--pair pair.json --engine runtime.toml --target llama-3.1-8b --tp 1 --k 2",
    ),
    "simulate": (
        "--t-sd 0.2 --rounds 64 --b 2 --k 3",
        "--solver mc --rounds 128 --p-hit 0.7 --k 3 --t-sd 0.2",
        "--t-sd 0.2 --tokens 9 --strategies ssd --backup fast --k 2",
        "--rounds 20 --trace made.json --target llama-3.1-8b --tp 1 --k 2",
    ),
    "sweep": (
        f"{_GRID} --k 2,3",
        "--k 2,4 --b 1,8 --f 2 --target llama-3.1-8b --tp 1 --strategies ar,sd,ssd",
        f"{_GRID} --solver mc --precision 0.1 --k 2,3",
        f"{_GRID} --k 2,3 -o made",
    ),
    "explore": ("--t-sd 0.2 --strategies ar,sd --b 1 --k 2 --alpha 0.8 -o made.html",),
    "report": ("run -o made.html", "run --figure speedup-k -o made.svg", "run"),
    "why": ("--tp 1 --target llama-3.1-8b --b 2 --k 2", "--tp 1 --target llama-3.1-8b --k 2,3"),
    "window": ("--tp 1 --target llama-3.1-8b --b 2 --k 2",),
    "roofline": ("--tp 1 --target llama-3.1-8b --b 2 --k 2 --strategies sd",),
    "export": (
        "--b 1 --k 2 --f 2 --target llama-3.1-8b --tp 1",
        "--format vllm --b 1,8 --k 2 --f 2 --target llama-3.1-8b --tp 1",
    ),
    "recommend": (
        "--gpus 3 --k 3 --target llama-3.1-8b --tp 1 --strategies ar,sd",
        "--gpus 2 --k 2,3 --target llama-3.1-8b --tp 1 --budget 9 --rank cost --gpu-hour 2 --strategies ar,sd,ssd",
    ),
    "compare": ("--gpus 2 --b 2 --k 2 --target llama-3.1-8b --tp 1 --strategies ar,sd",),
    "plan": (
        f"--rate 2 --requests 40 --output-len 9 {_SERVED}",
        f"--rate 2,3 --solver closed {_SERVED}",
        f"--workload requests.csv {_SERVED}",
        f"--rate 2 --requests 40 --output-len 9 --slo tpot:20 {_SERVED} -o made",
    ),
    "serve": (f"--rate 2 --requests 40 --output-len 9 {_SERVED}",),
    "bench": (
        "http://127.0.0.1:9 --hardware h100-sxm --model llama-3.1-8b -o made.csv",
        "--plan vllm --hardware h100-sxm --model llama-3.1-8b --draft llama-3.2-1b -o made.csv",
        "--plan sglang --hardware h100-sxm --model llama-3.1-8b -o made.csv",
    ),
    "measure": (
        "--target model --draft draft --prompts prompts.jsonl --requests 2 --max-new-tokens 4 --k 1:2 --f 1:2 "
        "--device cpu -o made.json",
        "--resume pair --k 1:3 --f 1:4",
    ),
    "calibrate": ("--device cpu -o made.json", "--gpus 0-1 -o made.json"),
    "validate run": ("", "--hardware v100-sxm2-32gb"),
    "validate rows": ("rows.csv", "rows.csv --hardware h100-sxm"),
    "validate paper": ("kumar2026", "medusa2024", "eagle2024"),
    "validate pair": ("pair.json --target absent --draft absent --prompts prompts.jsonl",),
    "fit runtime": ("rows.csv -o made.toml --fields gemm", "rows.csv -o made.toml --hardware h100-sxm"),
    "import acceptance": ("vllm log.txt --since-start --sampled -o made.json",),
    "import v100": ("v100/gemm.csv v100 -o made.json",),
    "import llama-bench": ("llama.json --memory 24 -o made.json",),
    "import aiconfigurator": ("data -o made.json",),
    "import deepbench": ("deepbench.csv -o made.json",),
    "import vidur": ("--mlp mlp.csv -o made.json",),
    "import nccl-tests": ("nccl.txt --base h100-sxm -o made.json",),
    "import csv": ("plain.csv -o made.json",),
    "hardware list": ("",),
    "hardware show": ("h100-sxm", "profile.json"),
    "hardware new": ("--like h100-sxm --memory 80 -o made.json",),
    "hardware scale": ("h100-sxm --clock 2 -o made.json", "profile.json --link pcie4 -o made.json"),
    "hardware check": ("h100-sxm --vidur-mlp mlp.csv",),
    "models list": ("",),
    "models show": ("llama-3.1-8b", "card.toml"),
    "models drafters": ("",),
    "runtimes list": ("",),
    "runtimes show": ("ssd-engine", "runtime.toml"),
    "doctor": ("",),
}
"""By the verb; a word that :mod:`tests.mutations.real` knows is a file that comes with the command."""

ON_DEVICES = ("calibrate", "validate run")
"""Time or run a device: a card that does not exist ends them after the checks of the other options."""
ENDED_BY = ("--draft", "no-such-card")


@lru_cache
def every_verb() -> Mapping[str, click.Command]:
    """Each verb, and each of a group's."""
    made: dict[str, click.Command] = {}
    for verb, (module, _) in {**VERBS, **FORMER}.items():
        command: click.Command = import_module(module).command
        inside = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        made |= {f"{verb} {name}".strip(): each for name, each in inside}
    return made


@lru_cache
def options_of(verb: str) -> Mapping[str, click.Option]:
    """All options of a verb by their names, those of strategies and drafters too, but for those that show help."""
    command = every_verb()[verb]
    params = command.get_params(click.Context(command))
    return {
        str(each.name): each
        for each in params
        if isinstance(each, click.Option) and not {"--help", "--help-all"} & {*each.opts}
    }


@lru_cache
def every_option() -> Sequence[tuple[str, str]]:
    """Each verb with each of its options."""
    return [(verb, name) for verb in every_verb() for name in options_of(verb)]


def verb_of(arguments: Sequence[str]) -> str | None:
    """The verb that the first words name."""
    for words in (arguments[:2], arguments[:1]):
        if (verb := " ".join(words)) in every_verb():
            return verb
    return None
