"""Find and load runtimes: by name from ``models/runtimes``, by path, or the one that belongs to a profile."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from os.path import exists, expanduser, isfile
from pathlib import Path

from ssdsim.base.bundled import Shelf
from ssdsim.base.checks import text
from ssdsim.base.documents import as_record, read_toml
from ssdsim.base.errors import InputError
from ssdsim.base.files import while_unchanged, write_whole
from ssdsim.hardware.catalog import full_hardware_name
from ssdsim.hardware.engine_versions import version_numbers
from ssdsim.hardware.laws import FixedCosts
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS, OF_ENGINE, Evidence, Runtime
from ssdsim.hardware.runtime_numbers import CardErrors, Host

DEFAULT = "ssd-engine"
SUFFIX = ".runtime.toml"
# an engine, and its version if said
_VERSIONED = re.compile(r"([a-z][a-z-]*?)(?:(?: *==? *|[- @])v?(\d{1,9}\.\d[\w.]{0,40}))?")
_CALLED = dict.fromkeys(("llama.cpp", "llamacpp", "llama_cpp"), "llama-cpp")
BY_DEFAULT = "the default engine"


@while_unchanged
def load_runtime(path: Path) -> Runtime:
    """The runtime card in a TOML file."""
    if not exists(path):
        raise InputError(f"{path}: no such runtime card")
    return as_record(Runtime, read_toml(path, "runtime card"), path, "runtime card")


RUNTIMES = Shelf(
    "runtime", "runtimes", ".toml", load_runtime, ("or the path of a card",), built_in={KERNELS.name: KERNELS}
)
runtime_names = RUNTIMES.names


def find_runtime(name: str | Path) -> Runtime:
    """The runtime called ``name``: a bundled one, that of an engine's version (``vllm-0.21``), or a TOML file.

    Of a version older than every card it is the oldest, as unsure as that makes it.
    """
    card, version = _card_and_version(text("a runtime", name))
    runtime = RUNTIMES.find(card).of_version(version)
    return runtime.of_before() if _is_before(runtime, version) else runtime


def older_than_all(name: str) -> str | None:
    """A line on a runtime's name that says a version older than every card; None of any other name."""
    card, version = _card_and_version(name)
    if not version or not _is_before(runtime := RUNTIMES.find(card), version):
        return None
    called = runtime.runs.called.partition(" ")[0] if runtime.runs else runtime.engine
    return f"{called} {version} is older than every card: priced as {runtime.versions}, with wider intervals"


def _is_before(runtime: Runtime, version: str) -> bool:
    return version_numbers(version) < version_numbers(runtime.since) if version else False


def full_runtime_name(name: str) -> str:
    """The card that covers an engine's version: ``vllm-0.21`` and ``vllm==0.21`` are ``vllm-0.9``, of 0.9 to 0.23.

    A version that the card knows apart, or that is before all cards, stays beside the engine (``vllm==0.17.0``). What
    names a card or a file already, or no engine that has cards by version, is returned as it is.

    Raises
    ------
    InputError : no card covers that version.
    """
    card, version = _card_and_version(name)
    if not version:
        return card
    runtime = RUNTIMES.find(card)
    known = version if _is_before(runtime, version) else find_runtime(name).stated_version
    return f"{runtime.engine}=={known}" if known else card


def _card_and_version(name: str) -> tuple[str, str]:
    """The card's name, and the version that is said beside it (empty: none)."""
    name = _CALLED.get(name.lower(), name)
    matched = _VERSIONED.fullmatch(name.lower().replace("_", "-"))
    if matched is None or matched[0] in RUNTIMES.built_in or RUNTIMES.files.get(matched[0]) or exists(expanduser(name)):
        return name, ""
    engine, version = matched[1], matched[2] or ""
    if not (cards := _by_version(engine)):
        return name, ""
    card = _of_version(cards, version)
    if version and version_numbers(version) > version_numbers(card.until):
        raise InputError(f"no runtime covers {engine} {version}; the nearest is {card.name}, of {card.versions}")
    return card.name, version


def runtime_meant(name: str) -> str:
    """The card that an engine's version means, with the versions that it covers; the name itself if it is a card's."""
    card, _ = _card_and_version(name)
    if card.lower() in (name.lower(), _CALLED.get(name.lower())):
        return name
    runtime = find_runtime(name)
    apart = f" with what {runtime.stated_version} adds" if runtime.stated_version else ""
    if older_than_all(name):
        apart = ", though older"
    return f"{card}, of {runtime.versions}{apart}"


def runtime_of_version(engine: str, version: str) -> Runtime:
    """The card of an engine's ``version``: the newest that is not newer, or else the oldest, as that version is.

    Of no version, or of one that begins with no number, it is the one that rows of the most versions were fitted to:
    who says none measured at any time, not with the newest. An engine may be called by a card's name.
    """
    cards = _by_version(engine)
    if not cards:
        return find_runtime(engine)
    if math.inf in version_numbers(version):
        return max(cards, key=lambda card: (len(card.known_versions), version_numbers(card.since))).of_version(version)
    return _of_version(cards, version).of_version(version)


def _by_version(engine: str) -> list[Runtime]:
    """The cards of an engine that follow each other, the oldest first."""
    bundled = RUNTIMES.cards()
    called = engine.lower()
    called = next((card.engine for card in bundled if card.name == called), called)
    cards = [card for card in bundled if card.engine.lower() == called and card.since]
    return sorted(cards, key=lambda card: version_numbers(card.since))


def _of_version(cards: Sequence[Runtime], version: str) -> Runtime:
    of_version = [card for card in cards if version_numbers(card.since) <= version_numbers(version)]
    return of_version[-1] if of_version else cards[0]


def own_runtime(name: str | Path) -> Path | None:
    """The file of the runtime that lies beside the profile called ``name``; None where none does."""
    path = Path(expanduser(full_hardware_name(str(name))))
    beside = path.with_suffix(SUFFIX)
    return beside if path.suffix == ".json" and isfile(beside) else None


def runtime_of(profile: HardwareProfile, name: str | Path) -> tuple[Runtime, str]:
    """The runtime that belongs to the profile called ``name``, and why.

    A calibration writes ``m.runtime.toml`` beside ``m.json``; older profiles hold their ``fixed`` costs themselves.
    Otherwise the default engine on a GPU; on a CPU nothing but kernels runs.
    """
    if (beside := own_runtime(name)) is not None:
        return load_runtime(beside), f"beside {profile.name}"
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
        errors=CardErrors(host_log_sd=fixed.relative_error, draft_step_log_sd=fixed.relative_error),
        evidence=Evidence(source=fixed.how),
    )


def save_runtime(runtime: Runtime, path: Path) -> None:
    """Write a card as TOML, atomically. What a card of that name says of the engine itself stays: no fit knows it."""
    import tomli_w

    known = load_runtime(path) if isfile(path) else None
    if known is not None and (known.name, known.engine) == (runtime.name, runtime.engine):
        kept = {name: getattr(known, name) for name in (*OF_ENGINE, "since", "until")}
        runtime = runtime.changed(**(kept | {"runs": known.runs or runtime.runs}))
    write_whole(path, tomli_w.dumps(runtime.as_dict(without_none=True)))
