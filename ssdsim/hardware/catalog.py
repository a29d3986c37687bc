"""Find and load cards: transformers and hardware, by name from ``models/`` or by path."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from os.path import exists, expanduser, isdir, isfile  # they take any text for a path, pathlib's raise at some
from pathlib import Path

from ssdsim.bundled import bundled_card, models_folder, state_of
from ssdsim.checks import text
from ssdsim.documents import as_record, read_toml
from ssdsim.errors import InputError, nearest
from ssdsim.hardware.profile import HardwareProfile, load_profile
from ssdsim.transformer.card import Transformer, transformer_shaped

_SHAPED = re.compile(r"transformer-shaped-(\d{1,18})x(\d{1,18})")


def transformer_names() -> list[str]:
    return sorted(path.stem for path in (models_folder() / "transformers").glob("*.toml"))


def hardware_names() -> list[str]:
    return sorted(path.stem for path in (models_folder() / "hardware").glob("*.json"))


def find_transformer(name: str | Path) -> Transformer:
    """The card called ``name``: a bundled card, ``transformer-shaped-HxL``, a TOML file, or a Hugging Face config.

    Names are matched without case, ``_`` as ``-``; ``meta-llama/Llama-3.1-70B-Instruct`` finds ``llama-3.1-70b``.

    Raises
    ------
    InputError : no such card, or a file that is not a valid card.
    """
    name = text("a transformer", name)
    shaped = _SHAPED.fullmatch(name)
    if shaped:
        return transformer_shaped(int(shaped[1]), int(shaped[2]))
    alias = _alias(name)
    bundled = bundled_card("transformers", alias, ".toml")
    if bundled is not None:
        return _bundled_transformer(bundled)
    path = Path(expanduser(name))
    if path.suffix == ".toml" and isfile(path):
        return _unchanged_transformer(*state_of(path))
    from ssdsim.transformer.huggingface import is_config, load_config  # here: bundled cards start faster without

    if is_config(path):
        return load_config(path)
    if path.suffix in (".toml", ".json") or isdir(path):
        raise InputError(f"{name}: no transformer card there (a .toml card, a config.json, or a folder with one)")
    raise InputError(
        f"unknown transformer '{name}'{nearest(alias, transformer_names())} "
        f"Allowed: {', '.join(transformer_names())}, transformer-shaped-HxL, a card or a config.json"
    )


def _alias(name: str) -> str:
    """``meta-llama/Meta-Llama-3.1-70B-Instruct`` -> ``llama-3.1-70b``."""
    base = name.split("/")[-1].lower() if name.count("/") == 1 and not exists(name) else name.lower()
    return base.replace("_", "-").removeprefix("meta-").removesuffix("-instruct").removesuffix("-hf")


def plain_name(name: str) -> str:
    """What a model is called without owner, form and tuning: ``openai--gpt-oss-20b`` -> ``gpt-oss-20b``."""
    return _alias(name.replace("--", "/"))


def load_transformer(path: Path) -> Transformer:
    """The transformer card in a TOML file.

    Raises
    ------
    InputError : unreadable, or not a card; unknown keys are errors.
    """
    return as_record(Transformer, read_toml(path, "card"), path, "card")


def find_hardware(name: str | Path) -> HardwareProfile:
    """The hardware profile called ``name``: a bundled one (``h200_sxm`` finds ``h200-sxm``) or a JSON file.

    Raises
    ------
    InputError : no such profile, or a file that is not a valid profile.
    """
    name = text("hardware", name)
    alias = name.lower().replace("_", "-")
    bundled = bundled_card("hardware", alias, ".json")
    if bundled is not None:
        return _unchanged_profile(*state_of(bundled))
    path = Path(expanduser(name))
    if isfile(path):
        return _unchanged_profile(*state_of(path))
    if path.suffix == ".json" or exists(path):
        return load_profile(path)
    raise InputError(
        f"unknown hardware '{name}'{nearest(alias, hardware_names())} "
        f"Allowed: {', '.join(hardware_names())}, or the path of a profile"
    )


# A file is read and checked again only when it has changed: a sweep asks for the same cards thousands of times, and
# a profile remembers the operations that it has priced. A bundled transformer does not change.


@lru_cache(maxsize=64)
def _unchanged_profile(path: Path, mtime_ns: int, size: int, inode: int) -> HardwareProfile:
    return load_profile(path)


_bundled_transformer = cache(load_transformer)


@lru_cache(maxsize=64)
def _unchanged_transformer(path: Path, mtime_ns: int, size: int, inode: int) -> Transformer:
    return load_transformer(path)
