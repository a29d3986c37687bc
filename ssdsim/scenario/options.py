"""Every option of a scenario: its default, its range, and with which others it means nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ssdsim.checks import text
from ssdsim.errors import InputError, nearest, told
from ssdsim.scenario.limits import check_limits

DEFAULTS: dict[str, Any] = {
    "strategy": None,  # all three must fit, or only the one that is named
    "b": 1,
    "k": 6,
    "sd_k": None,  # the same as k
    "alpha": 0.8,
    "alpha_concentration": None,  # requests are alike
    "acceptance": None,
    "output_tokens": 512,
    "alpha_backup": 0.0,  # random tokens are never accepted
    "p_hit": None,
    "p_hit_backup": None,  # the same as p_hit
    "f": 3,
    "fl": None,
    "flm": None,  # the same as fl
    "fan_out_policy": "geometric",
    "hit_c": 0.4,
    "hit_r": 0.7,
    "hit_c_all": None,  # the same as hit_c
    "hit_r_all": None,  # the same as hit_r
    "hit_curve": None,
    "backup": "auto",
    "target": "llama-3.1-70b",
    "draft": "llama-3.2-1b",
    "hardware": "h100-sxm",
    "draft_hardware": None,  # the same as hardware
    "tp": 4,
    "draft_gpus": 1,
    "sd_draft": "colocated",
    "context": 1024,
    "temperature": 0.0,
    "dtype": None,  # each card's own
    "budget": None,  # f (K+1)
    "backup_ms": 0.0,
    "spread": 0.0,
    "t_sd": None,
    "t_p": None,  # the same as t_sd
    "t_b": None,  # t_sd with jit, 0 with fast
}
CHOICES = {
    "strategy": ("ar", "sd", "ssd"),
    "backup": ("jit", "fast", "auto"),
    "fan_out_policy": ("uniform", "geometric", "optimal"),
    "sd_draft": ("colocated", "separate"),
    "dtype": ("float32", "bfloat16", "float16"),
}
UNIT_FREE = ("t_sd", "t_p", "t_b")
HARDWARE_ONLY = (
    "strategy",
    "target",
    "draft",
    "hardware",
    "draft_hardware",
    "tp",
    "draft_gpus",
    "sd_draft",
    "context",
    "temperature",
    "dtype",
    "backup_ms",
)
POWER_LAW = ("hit_c", "hit_r", "hit_c_all", "hit_r_all")
CACHE_SHAPE = ("f", "fl", "flm", "fan_out_policy", "hit_curve", *POWER_LAW)
BACKUP_QUALITY = ("alpha_backup", "p_hit_backup", "backup_ms", "flm")

# (an option or a choice, what it makes meaningless, why)
_EXCLUSIONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("t_sd", HARDWARE_ONLY, "with --t-sd (unit-free mode reads no hardware)"),
    ("p_hit", CACHE_SHAPE, "with --p-hit (the hit rate is given); use --budget for the draft's work"),
    ("budget", ("f",), "with --budget (--f F caches F (K+1) outcomes): give one of them"),
    ("fl", ("f", "budget", "fan_out_policy"), "with --fl (the fan-outs are given)"),
    ("hit_curve", POWER_LAW, "with --hit-curve (the hit rates are given)"),
    ("acceptance", ("alpha", "alpha_concentration"), "with --acceptance (the file says what is accepted)"),
)
_NEEDS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("t_p", ("t_sd",), "(unit-free mode)"),
    ("t_b", ("t_sd",), "(unit-free mode)"),
    ("p_hit_backup", ("p_hit",), "(without it both hit rates follow from the fan-out)"),
    ("flm", ("fl",), "(the fan-outs after a hit)"),
    ("output_tokens", ("acceptance", "alpha_concentration"), "(requests that are alike need no length)"),
)
_NAMES = ("target", "draft", "hardware", "draft_hardware", "acceptance")
_INTEGERS = ("b", "k", "sd_k", "tp", "draft_gpus", "context", "budget", "output_tokens")
_SHARES = ("alpha_backup", "p_hit", "p_hit_backup", "hit_c", "hit_c_all")
_POSITIVE = ("hit_r", "hit_r_all", "alpha_concentration", "temperature", "backup_ms", *UNIT_FREE)


def option(name: str) -> str:
    """The command-line spelling of an option's name."""
    return "--" + name.replace("_", "-")


def refuse_others(verb: str, given: Iterable[str], allowed: Collection[str]) -> None:
    """Raise :class:`InputError` for a name that ``verb`` does not take."""
    for name in given:
        if name not in allowed:
            raise InputError(f"{verb} has no option '{name}'{nearest(name, allowed)} Allowed: {', '.join(allowed)}")


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` completed by the defaults.

    Raises
    ------
    InputError : an unknown name, a value out of its range, or an option that means nothing in this combination.
    """
    check_names(given)
    given = {name: _as_python(value) for name, value in given.items()}
    for name, value in given.items():
        if isinstance(value, list | tuple) and None in value:
            raise InputError(f"{option(name)} must not have None in its list")
    _check_combination(given)
    values = {**DEFAULTS, **given}
    for name in _NAMES:
        if values[name] is not None:
            values[name] = text(option(name), values[name])
    for name, allowed in CHOICES.items():
        if values[name] is not None and values[name] not in allowed:
            hint = nearest(str(values[name]), allowed)
            raise InputError(f"{option(name)} must be one of {', '.join(allowed)}, got '{values[name]}'{hint}")
    for name in _INTEGERS:
        _check_integer(name, values[name], least=1)
    if values["f"] != "window":
        _check_integer("f", values["f"], least=1)
    for name in ("fl", "flm"):
        _check_list(name, values[name])
        for guesses in values[name] or ():
            _check_integer(name, guesses, least=0)
    _check_hit_curve(values["hit_curve"])
    for rate in values["alpha"] if isinstance(values["alpha"], list | tuple) else [values["alpha"]]:
        _check_range("alpha", rate, 1.0)
    for name in _SHARES:
        _check_range(name, values[name], 1.0)
    if values["spread"] != "profile":
        _check_range("spread", values["spread"], float("inf"))
    elif values["t_sd"] is not None:
        raise InputError("--spread profile needs hardware (unit-free mode reads none)")
    for name in _POSITIVE:
        _check_range(name, values[name], float("inf"))
    check_limits(values)
    return values


def check_names(given: Iterable[str]) -> None:
    """Raise :class:`InputError` at an option that does not exist, naming the nearest one."""
    for name in given:
        if name not in DEFAULTS:
            raise InputError(f"unknown option '{name}'{nearest(name, DEFAULTS)} Allowed: {', '.join(DEFAULTS)}")


def _as_python(value: Any) -> Any:
    """A number of numpy's, as a DataFrame gives them, as Python's own; an array as a list."""
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def _check_list(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, list | tuple) and value):
        raise InputError(f"{option(name)} must be a list, got {told(value)}")


def _check_hit_curve(value: Any) -> None:
    _check_list("hit_curve", value)
    for pair in value or ():
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"--hit-curve must be pairs of a fan-out and its hit rate, got {pair!r}")
        for number in pair:
            _check_range("hit_curve", number, float("inf"))


def _check_integer(name: str, value: Any, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise InputError(f"{option(name)} must be a whole number of at least {least}, got {told(value)}")


def _check_range(name: str, value: Any, high: float) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or not 0.0 <= value <= high or value == float("inf"):
        allowed = f"lie in [0, {high:g}]" if high != float("inf") else "be at least 0 and finite"
        raise InputError(f"{option(name)} must {allowed}, got {told(value)}")


def _check_combination(given: Mapping[str, Any]) -> None:
    """An option that changes nothing in this call is a mistake, not a preference."""
    for present, useless, why in _EXCLUSIONS:
        for name in useless:
            if present in given and name in given:
                raise InputError(f"{option(name)} has no effect {why}")
    for name, any_of, why in _NEEDS:
        if name in given and not any(other in given for other in any_of):
            raise InputError(f"{option(name)} needs {' or '.join(map(option, any_of))} {why}")
    if given.get("backup") == "jit":
        for name in BACKUP_QUALITY:
            if name in given:
                raise InputError(f"{option(name)} has no effect with --backup jit (the backup is the primary)")
    if "t_sd" in given and "p_hit" in given and "budget" in given:
        raise InputError("--budget has no effect with --t-sd and --p-hit (the draft's time and hits are given)")
    if isinstance(given.get("alpha"), list | tuple) and "alpha_concentration" in given:
        raise InputError("--alpha-concentration has no effect with rates by position: give one mean rate")
