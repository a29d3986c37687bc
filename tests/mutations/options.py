"""Commands with wrong, missing, absurd and contradictory options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from random import Random

import click

from ssdsim.cli.main import VERBS
from ssdsim.question.options import DEFAULTS
from tests.mutations.input import Input, command
from tests.mutations.values import TEXTS

# quick ones, so that what a mutation leaves possible is worked out within a second
_COMMANDS: tuple[str, ...] = (
    "predict --b 4",
    "predict --target llama-3.1-8b --tp 1 --p-hit 0.8",
    "predict --t-sd 0.2 --alpha 0.9 --k 5 --p-hit 0.85",
    "predict --t-sd 0.2 --alpha-concentration 4 --k 3 --output-tokens 32",
    "predict --t-sd 0.2 --acceptance kumar2026-llama --k 3 --output-tokens 32",
    "predict --fl 4,3,2,1 --k 3",
    "simulate --t-sd 0.2 --rounds 64 --b 2 --k 3",
    "simulate --solver mc --rounds 128 --p-hit 0.7",
    "simulate --t-sd 0.2 --tokens 9 --strategy ssd --backup fast",
    "simulate --rounds 20 --trace trace.json",
    "sweep --t-sd 0.2 --k 2:3 --p-hit 0.5,0.9",
    "sweep --k 2,4 --b 1,8 --f 1,2",
    "sweep --t-sd 0.2 --solver mc --precision 0.1 --k 2,3",
    "sweep --t-sd 0.2 --k 2,3 -o run",
    "why --tp 4 --k 4,5",
    "why --b 2 --k 2",
    "export --b 1 --k 2 --f 2",
    "export --format vllm --b 1,8 --k 2 --f 2",
    "recommend --gpus 3 --k 4 --target llama-3.1-8b --tp 1",
    "recommend --gpus 2 --k 2,3 --target llama-3.1-8b --budget 9 --rank cost --gpu-hour 2",
    "report .",
    "compare --gpus 2 --b 2 --k 2 --target llama-3.1-8b --tp 1",
    "plan --rate 2 --requests 40 --output-len 9 --target llama-3.1-8b --tp 1 --strategies ar,sd --k 2",
    "plan --rate 2,3 --solver closed --target llama-3.1-8b --tp 1 --strategies ar,sd --k 2",
    "bench --plan vllm --hardware h100-sxm --model llama-3.1-8b --draft llama-3.2-1b -o rows.csv",
    "bench http://127.0.0.1:9 --hardware absent -o rows.csv",
    "measure --target absent --draft absent --prompts absent.jsonl -o pair.json",
    "import acceptance vllm absent.txt -o pair.json",
    "import v100 absent.csv . -o made.json",
    "import llama-bench absent.json -o made.json",
    "hardware new --like h100-sxm --memory 80 -o made.json",
    "models drafters",
    "validate paper absent.toml",
    "validate pair absent.json --target absent --draft absent",
    "explore --t-sd 0.2 --strategies ar,sd --b 1 --k 2 --alpha 0.8 -o made.html",
    "models list",
    "models show llama-3.1-8b",
    "hardware list",
    "hardware show h100-sxm",
    "hardware scale h100-sxm --clock 2 -o scaled.json",
    "hardware check h100-sxm --vidur-mlp absent.csv",
    "runtimes list",
    "runtimes show ssd-engine",
    "fit runtime absent.csv -o made.toml",
    "import aiconfigurator . -o made.json",
    "import deepbench absent.csv -o made.json",
    "import vidur --mlp absent.csv -o made.json",
    "import nccl-tests absent.txt -o made.json",
    "import csv absent.csv -o made.json",
    "doctor",
)
# these would time or run a device: a card that does not exist ends them after the checks of the other options
_ON_DEVICES = (
    "calibrate --device cpu -o profile.json",
    "calibrate --gpus 0-1 -o profile.json",
    "validate run",
    "validate run --hardware v100-sxm2-32gb",
    "validate rows absent.csv",
)
_ENDED_BY = ("--draft", "no-such-card")

_PLAUSIBLE: Mapping[str, Sequence[str]] = {
    "alpha": ("0.5", "0.9", "0", "1"),
    "p_hit": ("0", "0.5", "1"),
    "k": ("1", "2", "4"),
    "b": ("1", "2", "8"),
    "f": ("1", "3", "window"),
    "tp": ("1", "2", "4", "8", "16"),
    "t_sd": ("0", "0.1", "1"),
    "t_p": ("0.1", "2"),
    "t_b": ("0.1", "0"),
    "context": ("128", "1024"),
    "backup": ("jit", "fast"),
    "spread": ("0", "0.1"),
    "solver": ("closed", "mc", "des"),
    "rounds": ("10", "100"),
    "budget": ("1", "12"),
    "output_tokens": ("16", "100"),
    "hit_curve": ("1:0.5,2:0.7",),
    "fan_out_policy": ("uniform", "optimal"),
}


def options(rng: Random) -> Input:
    """A command with one to three changes of its options."""
    arguments = rng.choice(_COMMANDS).split()
    return command("options", changed_arguments(arguments, rng))


def options_on_devices(rng: Random) -> Input:
    """The checks of ``calibrate`` and ``validate``; ranks never start."""
    arguments = changed_arguments(rng.choice(_ON_DEVICES).split(), rng)
    return command("options on devices", [*arguments, *_ENDED_BY])


def changed_arguments(arguments: Sequence[str], rng: Random) -> list[str]:
    arguments = list(arguments)
    verb = _found(arguments)
    known = [param for param in verb.get_params(click.Context(verb)) if isinstance(param, click.Option)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        match rng.randrange(20):
            case 0 if len(arguments) > 1:
                del arguments[rng.randrange(len(arguments))]
            case 1:
                at = rng.randrange(len(arguments))
                arguments[at] += rng.choice("xs-=,:0")
            case 2:
                arguments.insert(rng.randrange(len(arguments) + 1), _text(rng))
            case 3:
                at = rng.randrange(len(arguments))
                arguments[at] = arguments[at] if arguments[at].startswith("-o") else _text(rng)
            case _ if known:
                arguments += _option(rng.choice(known), rng)
    return arguments


def _found(arguments: Sequence[str]) -> click.Command:
    """The command that the first words name."""
    command: click.Command = import_module(VERBS[arguments[0]][0]).command
    if isinstance(command, click.Group):
        command = command.commands[arguments[1]]
    return command


def _option(param: click.Option, rng: Random) -> list[str]:
    name = rng.choice(param.opts)
    if param.is_flag:
        return [name]
    plausible = _plausible(param)
    given = [name, rng.choice(plausible) if plausible and rng.random() < 0.7 else _text(rng)]
    # requests that differ take their time by the token
    return [*given, "--output-tokens", "16"] if param.name in ("alpha_concentration", "acceptance") else given


def _plausible(param: click.Option) -> Sequence[str]:
    """Values that a person gives: its words, or what it is where nobody gives it."""
    name = str(param.name)
    if name in _PLAUSIBLE or isinstance(param.type, click.Choice):
        return _PLAUSIBLE.get(name) or [*map(str, getattr(param.type, "choices", ()))]
    default = DEFAULTS.get(name, param.default)
    if isinstance(default, list | tuple):
        return [",".join(map(str, default))] if default else []
    return [str(default)] if isinstance(default, int | float | str) else []


def _text(rng: Random) -> str:
    return rng.choice(TEXTS)
