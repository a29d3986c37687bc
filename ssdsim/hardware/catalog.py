"""Find and load cards: transformers and hardware, by name from ``models/`` or by path."""

from __future__ import annotations

import re
from os.path import exists, expanduser, isdir, isfile  # they take any text for a path, pathlib's raise at some
from pathlib import Path
from weakref import WeakValueDictionary

from ssdsim.base.bundled import Shelf, may_mean
from ssdsim.base.checks import text
from ssdsim.base.documents import as_record, read_toml
from ssdsim.base.errors import InputError
from ssdsim.base.files import while_unchanged
from ssdsim.hardware.profile import HardwareProfile, load_profile
from ssdsim.transformer.card import Transformer, transformer_shaped

_SHAPED = re.compile(r"transformer-shaped-(\d{1,18})x(\d{1,18})")


@while_unchanged
def load_transformer(path: Path) -> Transformer:
    """The transformer card in a TOML file."""
    return as_record(Transformer, read_toml(path, "card"), path, "card")


TRANSFORMERS = Shelf(
    "transformer", "transformers", ".toml", load_transformer, ("transformer-shaped-HxL", "a card or a config.json")
)
HARDWARE = Shelf(
    "hardware",
    "hardware",
    ".json",
    while_unchanged(load_profile),
    ("or the path of a profile",),
    differs=lambda profile: f"{profile.device.memory_bytes / 2**30:.0f} GiB",
)
_CALLED: WeakValueDictionary[str, HardwareProfile] = WeakValueDictionary()
MACHINES = {"dgx-1": "v100-sxm2-32gb", "dgx-1-32gb": "v100-sxm2-32gb", "dgx-1-16gb": "v100-sxm2-16gb"}
"""Machines by their names, with the profile of their GPUs and links; where there were two, of the larger memory."""
transformer_names = TRANSFORMERS.names
hardware_names = HARDWARE.names


def has_transformer(name: str) -> bool:
    """Tell whether :func:`find_transformer` knows it."""
    try:
        return bool(find_transformer(name))
    except InputError:
        return False


def find_transformer(name: str | Path) -> Transformer:
    """The card called ``name``: a bundled card, ``transformer-shaped-HxL``, a TOML file, or a Hugging Face config.

    Names are matched without case, ``_`` as ``-``; ``meta-llama/Llama-3.1-70B-Instruct`` finds ``llama-3.1-70b``, and
    what a bundled card says to serve finds that card.

    Raises
    ------
    InputError : no such card, or a file that is not a valid card.
    """
    name = full_transformer_name(text("a transformer", name))
    shaped = _SHAPED.fullmatch(name)
    if shaped:
        return transformer_shaped(int(shaped[1]), int(shaped[2]))
    alias = _alias(name)
    bundled = TRANSFORMERS.bundled(alias)
    if bundled is not None:
        return bundled
    path = Path(expanduser(name))
    if path.suffix == ".toml" and isfile(path):
        return load_transformer(path)
    from ssdsim.transformer.huggingface import is_config, load_config  # here: bundled cards start faster without

    if is_config(path):
        return load_config(path)
    if path.suffix in (".toml", ".json") or isdir(path):
        raise InputError(f"{name}: no transformer card there (a .toml card, a config.json, or a folder with one)")
    for served in TRANSFORMERS.cards():
        if _alias(served.checkpoint) == alias:
            return served
    raise TRANSFORMERS.unknown(name, alias)


def _alias(name: str) -> str:
    """``meta-llama/Meta-Llama-3.1-70B-Instruct`` -> ``llama-3.1-70b``."""
    base = name.split("/")[-1].lower() if name.count("/") == 1 and not exists(name) else name.lower()
    return base.replace("_", "-").removeprefix("meta-").removesuffix("-instruct").removesuffix("-hf")


def plain_name(name: str) -> str:
    """The name of a model without owner, form and tuning: ``openai--gpt-oss-20b`` -> ``gpt-oss-20b``."""
    return _alias(name.replace("--", "/"))


def full_transformer_name(name: str) -> str:
    """The bundled card that a loose spelling means: ``llama3.1-8b`` is ``llama-3.1-8b``.

    What names a card, a file or a checkpoint already, means none or several, is returned as it is.
    """
    known = _SHAPED.fullmatch(name) or "/" in name or exists(expanduser(name)) or TRANSFORMERS.file(_alias(name))
    meant = [] if known else may_mean(_alias(name), transformer_names())
    return meant[0] if len(meant) == 1 else name


def full_hardware_name(name: str) -> str:
    """The bundled profile that a short name or a machine means: ``h200`` is ``h200-sxm``, whatever variants that has.

    A name that means none, or several, is returned as it is.
    """
    called = name.lower().replace("_", "-")
    if HARDWARE.file(called) or exists(expanduser(name)):
        return name
    meant = may_mean(called, (*hardware_names(), *MACHINES))
    return MACHINES.get(meant[0], meant[0]) if len(meant) == 1 else name


def find_hardware(name: str | Path) -> HardwareProfile:
    """The hardware profile called ``name``: a bundled one (``h200`` finds ``h200-sxm``) or a JSON file.

    Raises
    ------
    InputError : no such profile, or a file that is not a valid profile.
    """
    made = _CALLED.get(str(name))
    return HARDWARE.find(full_hardware_name(text("hardware", name))) if made is None else made


def called(name: str, profile: HardwareProfile) -> str:
    """Let :func:`find_hardware` find a profile of no file by this ``name``, for as long as somebody holds it."""
    _CALLED[name] = profile
    return name
