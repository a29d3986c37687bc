"""Find and load runtimes: by name from ``models/runtimes``, by path, or the one that belongs to a profile."""

from __future__ import annotations

from functools import lru_cache
from os.path import expanduser, isfile
from pathlib import Path

from ssdsim.bundled import bundled_card, models_folder, state_of
from ssdsim.checks import text
from ssdsim.documents import as_record, read_toml
from ssdsim.errors import InputError, nearest
from ssdsim.hardware.laws import FixedCosts
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.runtimes.card import KERNELS, Errors, Evidence, Host, Runtime

DEFAULT = "ssd-engine"
SUFFIX = ".runtime.toml"
BY_DEFAULT = "the default engine"


def runtime_names() -> list[str]:
    """Of the bundled cards."""
    return [KERNELS.name, *sorted(path.stem for path in (models_folder() / "runtimes").glob("*.toml"))]


def find_runtime(name: str | Path) -> Runtime:
    """The runtime called ``name``: a bundled one or a TOML file.

    Raises
    ------
    InputError : no such runtime, or a file that is not a valid one.
    """
    name = text("a runtime", name)
    called = name.lower().replace("_", "-")
    if called == KERNELS.name:
        return KERNELS
    bundled = bundled_card("runtimes", called, ".toml")
    if bundled is not None:
        return _unchanged(*state_of(bundled))
    path = Path(expanduser(name))
    if isfile(path):
        return _unchanged(*state_of(path))
    if path.suffix == ".toml":
        raise InputError(f"{name}: no such runtime card")
    names = runtime_names()
    raise InputError(
        f"unknown runtime '{name}'{nearest(name, names)} Allowed: {', '.join(names)}, or the path of a card"
    )


def runtime_of(profile: HardwareProfile, name: str | Path) -> tuple[Runtime, str]:
    """The runtime that belongs to the profile called ``name``, and why.

    A calibration writes ``m.runtime.toml`` beside ``m.json``; older profiles hold their ``fixed`` costs themselves.
    Otherwise the default engine on a GPU; on a CPU nothing but kernels runs.
    """
    path = Path(expanduser(str(name)))
    beside = path.with_suffix(SUFFIX)
    if path.suffix == ".json" and isfile(beside):
        return _unchanged(*state_of(beside)), f"beside {profile.name}"
    if profile.fixed is not None:
        return of_fixed_costs(profile.fixed, profile.name), f"fixed costs of {profile.name}"
    if profile.device.kind == "cpu":
        return KERNELS, f"no engine was timed with {profile.name}"
    return find_runtime(DEFAULT), BY_DEFAULT


@lru_cache(maxsize=64)
def of_fixed_costs(fixed: FixedCosts, name: str) -> Runtime:
    """The runtime that a profile of before runtimes, called ``name``, holds itself."""
    return Runtime(
        name=f"fixed costs of {name}",
        engine="as calibrated",
        host=Host(
            per_layer_s=fixed.per_layer_s,
            per_pass_s=fixed.per_pass_s,
            per_draft_step_s=fixed.per_pass_s,
            per_step_s=fixed.per_round_s,
        ),
        errors=Errors(host_log_sd=fixed.relative_error, draft_step_log_sd=fixed.relative_error),
        evidence=Evidence(source=fixed.how),
    )


def load_runtime(path: str | Path) -> Runtime:
    """The runtime card in a TOML file.

    Raises
    ------
    InputError : unreadable, or not a card; unknown keys are errors.
    """
    path = Path(path)
    return as_record(Runtime, read_toml(path, "runtime card"), path, "runtime card")


def save_runtime(runtime: Runtime, path: Path) -> None:
    """Write a card as TOML, atomically."""
    import tomli_w

    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(tomli_w.dumps(runtime.model_dump(by_alias=True, exclude_none=True)), encoding="utf-8")
    partial.replace(path)


@lru_cache(maxsize=64)
def _unchanged(path: Path, mtime_ns: int, size: int, inode: int) -> Runtime:
    return load_runtime(path)
