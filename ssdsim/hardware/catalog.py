"""Find and load cards: transformers and hardware, by name from ``models/`` or by path, and drafts by vocabulary."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from os.path import exists, expanduser, isdir, isfile  # they take any text for a path, pathlib's raise at some
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ssdsim.base.bundled import Shelf, may_mean
from ssdsim.base.checks import text
from ssdsim.base.documents import as_record, read_text, read_toml
from ssdsim.base.errors import InputError
from ssdsim.base.files import while_unchanged
from ssdsim.hardware.profile import HardwareProfile, load_profile
from ssdsim.transformer.card import Transformer, transformer_shaped
from ssdsim.transformer.checkpoint_names import OF_CONFIGS, CheckpointName, kept_in

if TYPE_CHECKING:
    from ssdsim.transformer.gguf import GgufHeader

_SHAPED = re.compile(r"transformer-shaped-(\d{1,18})x(\d{1,18})")
_GGUF = ".gguf"


@while_unchanged
def load_transformer(path: Path) -> Transformer:
    """The transformer card in a TOML file."""
    return as_record(Transformer, read_toml(path, "card"), path, "card")


def _numbers(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def _is_like_gpu(called: str, name: str) -> bool:
    """Tell whether one may be a slip for the other: an ``h20`` is no ``h200-sxm``, a ``b100`` no ``h100-sxm``."""
    return called.split("-")[0] == name.split("-")[0] and _numbers(called)[:1] == _numbers(name)[:1]


def _is_like_model(called: str, name: str) -> bool:
    """Tell whether one may be a slip for the other: of another size or version it is another model."""
    return called[:1] == name[:1] and _numbers(called) == _numbers(name)


LLAMA_BENCH = (
    "llama-bench -p 1,2,3,4,5,6,8,16,32 -n 128 -o json -m FILE.gguf > FILE.json for target and draft, then "
    "ssdsim import llama-bench FILE.json..."
)
"""The two commands that make a machine of its user's own models."""


def _road_to_hardware(name: str) -> str:
    """The line that makes a profile of a GPU's datasheet, likened to a GPU whose name has the same letters."""
    called = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
    letters, *_ = re.findall("^[a-z]+", called) or [""]
    like = next((each for each in HARDWARE.files if re.findall("^[a-z]+", each) == [letters]), "h100-sxm")
    figures = "--memory GIB --memory-bandwidth GB/S --flops TFLOP/S --link GB/S --count GPUS"
    made = f"Another GPU's datasheet makes one: ssdsim hardware new --like {like} {figures} -o {called or 'mine'}.json"
    return f"{made}; with llama.cpp, your own models' passes do: {LLAMA_BENCH}"


def _road_to_transformer(name: str) -> str:
    """How the config.json of a model is had, which is a card, and whose card stands for it as long as it is not."""
    hub = name if name.count("/") == 1 else "OWNER/NAME"
    config = f"Another model is its config.json: hf download {hub} config.json --local-dir DIR, and --model DIR"
    version = _version_of(_alias(name))
    near = next((card for card in TRANSFORMERS.files if version and _version_of(card) == version), None)
    return f"{config}; until then the nearest is {near}, which may differ" if near else config


def _version_of(name: str) -> tuple[str, str] | None:
    """A model's name without the first number in it that is no size, and what that has before its point."""
    number = re.search(r"(?<=[a-z-])(\d+)(?:\.\d+)?(?![\d.]*[bm])", name)
    return None if number is None else (name[: number.start()] + name[number.end() :], number[1])


TRANSFORMERS = Shelf(
    "transformer",
    "transformers",
    ".toml",
    load_transformer,
    ("transformer-shaped-HxL", "a card or a config.json"),
    like=_is_like_model,
    road=_road_to_transformer,
)
HARDWARE = Shelf(
    "hardware",
    "hardware",
    ".json",
    while_unchanged(load_profile),
    ("or the path of a profile",),
    differs=lambda profile: f"{profile.device.memory_bytes / 2**30:.0f} GiB",
    own=lambda: own_profiles(),
    like=_is_like_gpu,
    road=_road_to_hardware,
)
_CALLED: WeakValueDictionary[str, HardwareProfile] = WeakValueDictionary()
MACHINES = {"dgx-1": "v100-sxm2-32gb", "dgx-1-32gb": "v100-sxm2-32gb", "dgx-1-16gb": "v100-sxm2-16gb"}
"""Machines by their names, with the profile of their GPUs and links; where there were two, of the larger memory."""
transformer_names = TRANSFORMERS.names
hardware_names = HARDWARE.names

_ALSO_CALLED = {"a100-80gb": "a100-sxm"}  # beside one of another memory, whose name says it


def transformer_called(name: str) -> Transformer | None:
    """The card that a name means to :func:`find_transformer`, which a file or a server says: no file is looked for."""
    name = full_transformer_name(name)
    return _of_config(name) or _bundled(name) or _served(_alias(name)) or _ending(name)


def is_bundled_transformer(name: str) -> bool:
    """Tell whether no file is needed, nor looked for: a file or folder of that name is left aside."""
    return bool(_SHAPED.fullmatch(name)) or TRANSFORMERS.bundled(_alias(name)) is not None


def find_transformer(name: str | Path) -> Transformer:
    """The card called ``name``: a bundled card, ``transformer-shaped-HxL``, a TOML file, a config.json, a GGUF file.

    Names are matched without case, ``_`` as ``-``; ``meta-llama/Llama-3.1-70B-Instruct`` finds ``llama-3.1-70b``, and
    what a bundled card says to serve finds that card. ``Qwen/Qwen3-32B-FP8`` is ``qwen3-32b`` with weights in FP8.

    Raises
    ------
    InputError : no such card, or a file that is not a valid card.
    """
    name = full_transformer_name(text("a transformer", name))
    if (card := _of_config(name) or _named(name) or _ending(name)) is None:
        raise InputError(f"{name}: no such file") if name.endswith(_GGUF) else TRANSFORMERS.unknown(name, _alias(name))
    return card


@lru_cache(maxsize=64)
def _of_config(name: str) -> Transformer | None:
    """The card of a checkpoint whose config says more than its name."""
    known = OF_CONFIGS.get(name.lower())
    card = None if known is None or exists(name) else TRANSFORMERS.bundled(CheckpointName.of(name).model)
    if known is None or card is None:
        return None
    weights, kv_dtype = known
    return card.changed(weights=weights, kv_dtype=kv_dtype, checkpoint=name)


def _named(name: str) -> Transformer | None:
    """The card that a name means as it stands."""
    if (bundled := _bundled(name)) is not None:
        return bundled
    path = Path(expanduser(name))
    if path.suffix == ".toml" and isfile(path):
        return load_transformer(path)
    if is_gguf(name):
        return _load_gguf(path)
    from ssdsim.transformer.huggingface import is_config, load_config  # here: bundled cards start faster without

    if is_config(path):
        return load_config(path)
    if path.suffix in (".toml", ".json") or isdir(path):
        raise InputError(f"{name}: no transformer card there (a .toml card, a config.json, or a folder with one)")
    return _served(_alias(name))


def is_gguf(name: str) -> bool:
    """Tell whether a name is that of a GGUF file, which is there."""
    return name.endswith(_GGUF) and isfile(expanduser(name))


@while_unchanged
def _gguf_header(path: Path) -> GgufHeader:
    from ssdsim.transformer.gguf import read_header  # here: bundled cards start faster without

    return read_header(path)


@while_unchanged
def _load_gguf(path: Path) -> Transformer:
    """The card that a GGUF file's name means, if its layers are that one's, else as its header says; in its format."""
    header = _gguf_header(path)
    meant = (transformer_called(CheckpointName.of(name).model) for name in header.names if name)
    card = next((each for each in meant if each is not None and header.is_of(each)), None) or header.card
    known = header.format in card.precision().formats_of_blocks
    return kept_in(card, None if known else header.format, in_gguf=True)


def unlike_its_format(name: str) -> str | None:
    """What a GGUF file's weights are, in words, where no format is about as large; None of all else."""
    return _gguf_header(Path(expanduser(name))).off if is_gguf(name) else None


def _bundled(name: str) -> Transformer | None:
    shaped = _SHAPED.fullmatch(name)
    return transformer_shaped(int(shaped[1]), int(shaped[2])) if shaped else TRANSFORMERS.bundled(_alias(name))


def _served(alias: str) -> Transformer | None:
    cards = (card for card in TRANSFORMERS.cards() if card.checkpoint)
    return next((card for card in cards if _alias(card.checkpoint) == alias), None)


def _ending(name: str) -> Transformer | None:
    """The card of a model whose checkpoint's name says more: its tuning, its date, the format of its weights."""
    said = CheckpointName.of(name)
    if not said.model or name.count("/") > 1:
        return None
    card = TRANSFORMERS.bundled(full_transformer_name(said.model)) or next(
        (each for each in TRANSFORMERS.cards() if CheckpointName.of(each.checkpoint).model == said.model), None
    )
    return None if card is None else kept_in(card, said.format_of(card), said.in_gguf)


def transformer_meant(name: str) -> str:
    """The card that a loose spelling or a checkpoint's name means, with the format that the latter says, in words."""
    full = full_transformer_name(name)
    if is_gguf(name):
        loaded = find_transformer(name)
        return f"{loaded.name} with weights in {loaded.precision().weights}"
    if (of_config := _of_config(name)) is not None:
        return f"{of_config.name} with weights in {of_config.precision().weights}"
    if full != name or Path(name).suffix in (".toml", ".json") or _named(name) or (card := _ending(name)) is None:
        return full
    said = format_named(name)
    return f"{card.name} with weights in {said}" if said else card.name


@lru_cache(maxsize=256)
def format_named(name: str) -> str | None:
    """The format of the weights that a checkpoint's name says; None where it says none, or names a card."""
    if (of_config := _of_config(name)) is not None:
        return of_config.precision().weights
    if _named(name) is not None or (card := _ending(name)) is None:
        return None
    return CheckpointName.of(name).format_of(TRANSFORMERS.find(card.name))


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
    known = _SHAPED.fullmatch(name) or "/" in name or exists(expanduser(name)) or TRANSFORMERS.files.get(_alias(name))
    meant = [] if known else may_mean(_alias(name), transformer_names())
    return meant[0] if len(meant) == 1 else name


def own_folder() -> Path:
    """Where the profiles of this user's machines lie: ``SSDSIM_DATA``, else the system's folder for a user's data."""
    by_system = {"win32": ("LOCALAPPDATA", "~/AppData/Local"), "darwin": ("", "~/Library/Application Support")}
    variable, usual = by_system.get(sys.platform, ("XDG_DATA_HOME", "~/.local/share"))
    return Path(os.environ.get("SSDSIM_DATA") or Path(os.environ.get(variable) or expanduser(usual), "ssdsim"))


def own_profiles() -> dict[str, Path]:
    """The files of this user's profiles by their names; they come and go."""
    return {path.stem: path for path in sorted(own_folder().glob(f"*{HARDWARE.suffix}"))}


def full_hardware_name(name: str) -> str:
    """The bundled profile that a short name or a machine means: ``h200`` is ``h200-sxm``, whatever variants that has.

    A profile of the user's is its file. A name that means none, or several, is returned as it is.

    Raises
    ------
    InputError : a bundled profile and one of the user's have that name.
    """
    called = re.sub("[_ ]", "-", name.lower())
    own = own_folder() / f"{called}{HARDWARE.suffix}"
    if HARDWARE.files.get(called):
        if isfile(own):
            raise InputError(f"hardware '{name}' is bundled, and yours in {own}: rename that or give its path")
        return name
    if exists(expanduser(name)):
        return name
    if isfile(own):
        return str(own)
    if called in _ALSO_CALLED:
        return _ALSO_CALLED[called]
    meant = may_mean(called, (*hardware_names(), *MACHINES))
    if not meant and len(mine := may_mean(called, own_profiles())) == 1:
        return str(own_profiles()[mine[0]])
    return MACHINES.get(meant[0], meant[0]) if len(meant) == 1 else name


def short_hardware_name(name: str) -> str:
    """The name of a profile of the user's, for its file; any other is returned as it is."""
    path = Path(name)
    return path.stem if path.suffix == HARDWARE.suffix and path.parent == own_folder() else name


def hardware_meant(name: str) -> str:
    """The profile that a short name means, in words; one of the user's means itself."""
    full = full_hardware_name(name)
    short = short_hardware_name(full)
    return name if short.lower() == name.lower() else short


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


DRAFT = "llama-3.2-1b"
"""The draft model where nobody names one, and the target's family has none that is smaller."""

MOST_ACTIVE = 2 / 3
"""Of the target's weights that a token uses, how many a draft's may: with more it could hardly pay (a dense 27B beside
a mixture of which a token uses 17B)."""


def one_vocabulary(draft: Transformer, target: Transformer) -> bool:
    """Tell whether engines accept the pair: of one family, or of as many tokens where a family is not known.

    A head has its target's vocabulary, or a part of it; a graph without one (``transformer-shaped``) fits any.
    """
    if 0 in (draft.vocab_size, target.vocab_size):
        return True
    if draft.head is not None:
        return draft.head.vocabulary in (0, target.vocab_size)
    if draft.family and target.family:
        return draft.family == target.family
    return draft.vocab_size == target.vocab_size


def draft_for(target: Transformer, named: str | None) -> Transformer:
    """The model that is named, else the smallest of the target's family, else :data:`DRAFT`."""
    return find_transformer(named) if named is not None else draft_in_family(target) or find_transformer(DRAFT)


def smaller_in_family(target: Transformer) -> list[Transformer]:
    """The bundled models of the target's family that are smaller, the largest first."""
    cards = (TRANSFORMERS.find(name) for name in TRANSFORMERS.names() if siblings(name, target))
    smaller = [card for card in cards if card.parameters < target.parameters]
    return sorted(smaller, key=lambda card: card.parameters, reverse=True)


@lru_cache(maxsize=256)
def draft_in_family(target: Transformer) -> Transformer | None:
    """The smallest bundled model of the target's vocabulary, where a token of it reads much less than the target's."""
    cards = (TRANSFORMERS.find(name) for name in TRANSFORMERS.names() if may_share(name, target))
    most = MOST_ACTIVE * target.active_parameters
    smaller = [card for card in cards if card.parameters < target.parameters and card.active_parameters < most]
    smaller = [card for card in smaller if one_vocabulary(card, target)]
    return min(smaller, key=lambda card: card.parameters, default=None)


def may_share(name: str, target: Transformer) -> bool:
    """Tell whether a bundled card names the target's family or number of tokens: where not, it need not be parsed."""
    file = TRANSFORMERS.files.get(name)
    text = "" if file is None else read_text(file, "card").replace("_", "")
    said = (target.family.replace("_", ""), str(target.vocab_size))
    return file is None or target.vocab_size == 0 or any(each in text for each in said if each)


def siblings(name: str, other: Transformer) -> bool:
    """Tell whether the bundled card of that name is another model of the other's family."""
    card = TRANSFORMERS.bundled(name)
    return card is not None and card.name != other.name and bool(card.family) and card.family == other.family


def other_vocabulary(draft: Transformer, target: Transformer) -> str:
    """The complaint of a pair that does not speak one vocabulary."""
    own = draft.vocab_size if draft.head is None else draft.head.vocabulary
    sizes = f"{draft.name} has {own} tokens, {target.name} {target.vocab_size}"
    return (
        f"{sizes}: speculation needs one vocabulary, and most engines refuse such pairs (vLLM's "
        "use_heterogeneous_vocab drafts what both have, greedily; transformers takes an assistant_tokenizer)"
    )
