"""Options that several verbs share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from ssdsim.cli.values import Lists, Values
from ssdsim.scenario.options import CHOICES, DEFAULTS, option


class _Parsed(click.ParamType[Any]):
    """What :meth:`parse` makes of a text; a word of ``words`` is itself. ``unless`` completes the complaint."""

    words: tuple[str, ...] = ()
    unless: str

    def parse(self, text: str) -> Any:
        """The value; ValueError where the text is none."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in self.words:
            return value
        try:
            return self.parse(value)
        except ValueError:
            self.fail(f"'{value}' is {self.unless}", param, ctx)


class Rates(_Parsed):
    """A rate, or K rates by position: ``0.8`` or ``0.9,0.85,0.8``."""

    name = "rate[,rate...]"
    unless = "not a rate or a list of rates such as 0.9,0.85,0.8"

    def parse(self, text: str) -> float | list[float]:
        rates = [float(part) for part in text.split(",")]
        return rates[0] if len(rates) == 1 else rates


class WholeNumbers(_Parsed):
    """Whole numbers separated by commas: ``4,3,2,1``."""

    name = "n[,n...]"
    unless = "not a list of whole numbers such as 4,3,2,1"

    def parse(self, text: str) -> list[int]:
        return [int(part) for part in text.split(",")]


class Share(_Parsed):
    """A share: ``0.1`` or ``10%``."""

    name = "share"
    unless = "not a share of at least 0 such as 0.1 or 10%"

    def parse(self, text: str) -> float:
        share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        if share < 0.0:
            raise ValueError
        return share


class FanOut(_Parsed):
    """A whole number or ``window``."""

    name = "f|window"
    words = ("window",)
    unless = "neither a whole number nor 'window'"

    def parse(self, text: str) -> int:
        return int(text)


class Spread(_Parsed):
    """A relative spread, or ``profile``."""

    name = "spread|profile"
    words = ("profile",)
    unless = "neither a number nor 'profile'"

    def parse(self, text: str) -> float:
        return float(text)


class HitCurve(_Parsed):
    """Measured hit rates at some fan-outs: ``1:0.6,2:0.7,4:0.8``."""

    name = "f:h[,f:h...]"
    unless = "not a list of fan-outs and hit rates such as 1:0.6,2:0.7,4:0.8"

    def parse(self, text: str) -> list[tuple[float, float]]:
        pairs = [part.split(":") for part in text.split(",")]
        return [(float(fan_out), float(rate)) for fan_out, rate in pairs]


# name -> (type, further spellings, help); in the order of --help
_SCENARIO: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "b": (int, ("--batch", "--bs"), "sequences decoded together"),
    "k": (int, ("--num-speculative-tokens",), "speculative lookahead: draft tokens verified in a round"),
    "sd_k": (int, (), "SD's own lookahead [default: the same as --k]"),
    "alpha": (Rates(), (), "acceptance rate, or K rates by position (0.9,0.8,...)"),
    "alpha_concentration": (float, (), "requests differ: their rates are Beta with mean --alpha and this a + b"),
    "acceptance": (str, (), "a card of rates (.toml), or a trace of accepted lengths (.csv, .jsonl)"),
    "output_tokens": (int, ("--osl",), "tokens of a request, where requests differ"),
    "alpha_backup": (float, (), "acceptance rate of the fast backup's tokens (0: random tokens)"),
    "p_hit": (float, (), "cache hit rate after a speculation by the primary [default: from --f]"),
    "p_hit_backup": (float, (), "cache hit rate after a speculation by the backup [default: --p-hit]"),
    "f": (FanOut(), ("--fan-out",), "bonus-token guesses a position: F (K+1) outcomes are cached; or window"),
    "fl": (WholeNumbers(), ("--flh",), "the K+1 fan-outs themselves (after a hit)"),
    "flm": (WholeNumbers(), (), "the K+1 fan-outs after a miss [default: --fl]"),
    "fan_out_policy": (str, (), "how the outcomes are spread over accepted lengths"),
    "hit_c": (float, (), "miss rate of a single guess, c of h(F) = 1 - c F^-r"),
    "hit_r": (float, (), "exponent of the miss rate, r of h(F) = 1 - c F^-r"),
    "hit_c_all": (float, (), "c where all K tokens were accepted [default: --hit-c]"),
    "hit_r_all": (float, (), "r where all K tokens were accepted [default: --hit-r]"),
    "hit_curve": (HitCurve(), (), "measured hit rates in place of c and r"),
    "backup": (str, (), "on a miss: draft just in time, a fast speculator, or the better of the two"),
    "backup_ms": (float, (), "latency of the fast backup"),
    "target": (str, ("--model",), "transformer card, config.json, or transformer-shaped-HxL"),
    "draft": (str, (), "the draft's card"),
    "hardware": (str, ("--system",), "hardware profile"),
    "draft_hardware": (str, (), "profile of SSD's draft device [default: --hardware]"),
    "tp": (int, (), "tensor-parallel degree of the target"),
    "draft_gpus": (int, (), "draft devices of SSD, which share the branches"),
    "sd_draft": (str, (), "SD's draft on the target's devices, or on its own as in SSD"),
    "context": (int, (), "cached tokens of a sequence"),
    "temperature": (float, ("--temp",), "above 0 the draft's logits travel to the target"),
    "dtype": (str, (), "of weights and cache [default: the card's]"),
    "budget": (int, (), "cached outcomes a sequence, in place of --f"),
    "spread": (Spread(), (), "relative spread of every duration (lognormal); or profile: as it was measured"),
    "t_sd": (float, (), "unit-free mode: SD's drafting time in units of T_v; no hardware is read"),
    "t_p": (float, (), "unit-free mode: pre-speculation time [default: --t-sd]"),
    "t_b": (float, (), "unit-free mode: the backup's time [default: --t-sd with jit, 0 with fast]"),
}


def chosen_options(
    *names: str, several: bool = False, defaults: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add these scenario options, with ``several`` as lists or ranges; one that is not given arrives as None.

    ``defaults`` shows the scenario's in --help: not for a verb that has its own.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            kind, others, about = _SCENARIO[name]
            if name in CHOICES:
                kind = click.Choice(CHOICES[name])
            default = DEFAULTS[name]
            shown = f"{about} [default: {default}]" if defaults and default is not None else about
            kind = _several(kind) if several else kind
            command = click.option(option(name), *others, name, type=kind, default=None, help=shown)(command)
        return command

    return add


def _several(kind: Any) -> click.ParamType[Any]:
    """The type of several values of ``kind``; where lists are values, rates by position are not."""
    match kind:
        case click.Choice():
            return Values(str, kind.choices)
        case Rates():
            return Values(float)
        case FanOut():
            return Values(int, ("window",))
        case Spread():
            return Values(float, ("profile",))
        case WholeNumbers() | HitCurve():
            return Lists(kind)
    return Values(kind)


def grid_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every scenario option as a list or range; one that is not given arrives as None."""
    return chosen_options(*_SCENARIO, several=True)(command)


def scenario_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every scenario option."""
    return chosen_options(*_SCENARIO)(command)


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--json``, ``--seed`` and ``--quiet``."""
    command = quiet_option(command)
    command = click.option("--seed", type=int, default=0, show_default=True, help="of every random draw")(command)
    return json_option(command)


def quiet_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--quiet", is_flag=True, help="no notes on stderr")(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")(command)


def echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, allow_nan=False))
