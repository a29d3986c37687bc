"""Copies, in a run folder, of the files that its options name: the folder can be read and resumed from anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.files import replaced
from ssdsim.hardware.catalog import own_profiles
from ssdsim.hardware.runtime_catalog import SUFFIX
from ssdsim.question.options import files
from ssdsim.runs.layout import FILES, folder_within
from ssdsim.transformer.gguf import SUFFIX as SUFFIX_OF_GGUF
from ssdsim.transformer.gguf import header_bytes
from ssdsim.transformer.huggingface import quantisation_file


def names_in_folder(folder: Path, given: Iterable[Any]) -> dict[str, str]:
    """Names inside ``folder`` of the files among ``given``: a file's own if it lies there, else its copy's.

    Copies of different files with one name are numbered. A folder stands for the model's ``config.json`` in it. What
    names no file (a bundled card) is left out.
    """
    names: dict[str, str] = {}
    for path in dict.fromkeys(str(value) for value in given if file_of(str(value)).is_file()):
        file = file_of(path).resolve()
        if file.is_relative_to(folder.resolve()):
            names[path] = file.relative_to(folder.resolve()).as_posix()
            continue
        same = [other for other in names if file_of(other).resolve() == file]
        names[path] = names[same[0]] if same else _free_name(file, set(names.values()))
    return names


def file_of(given: str) -> Path:
    """The file that an option names, by a user's profile's name, too; of a Hugging Face folder ``config.json``."""
    path = Path(own_profiles().get(given, given))
    return path / "config.json" if path.is_dir() else path


def _free_name(file: Path, taken: set[str]) -> str:
    """A free name for a copy; a model's ``config.json`` keeps its folder, which names the model."""
    stem, rest = (file.parent.name, f"/{file.name}") if file.name == "config.json" else (file.stem, file.suffix)
    numbered = (f"{FILES}/{stem}{f'-{number}' if number > 1 else ''}{rest}" for number in count(1))
    return next(name for name in numbered if name not in taken)


def keep(folder: Path, names: Mapping[str, str]) -> None:
    """Copy the files that ``folder`` does not yet hold."""
    for given, name in names.items():
        kept = folder / name
        if not kept.exists():
            folder_within(folder, str(Path(name).parent))
            file = file_of(given)
            # first what lies beside it and is part of what it says, since the file itself is what is looked for
            for source, copy in zip((*_beside(file), file), (*_beside(kept), kept), strict=True):
                if source.is_file():
                    with replaced(copy) as partial:
                        _copy(source, partial)


def _copy(source: Path, copy: Path) -> None:
    """Copy a file; of a model's weights (GGUF) the header, which is all that is read of it."""
    if source.suffix == SUFFIX_OF_GGUF:
        copy.write_bytes(header_bytes(source))
    else:
        shutil.copyfile(source, copy)


def _beside(file: Path) -> tuple[Path, Path]:
    """Files that complete a named one: the quantisation of a model's config, the runtime of a profile."""
    return quantisation_file(file), file.with_suffix(SUFFIX)


def renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Options, or lists of them, with their files renamed by ``names``."""

    def name_of(value: Any) -> Any:
        return names.get(value, value) if isinstance(value, str) else value

    def one_or_more(value: Any) -> Any:
        return [name_of(each) for each in value] if isinstance(value, list) else name_of(value)

    may_name = files()
    return {name: one_or_more(value) if name in may_name else value for name, value in values.items()}


def located(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with their files found in ``folder``, from the present directory."""
    may_name = files()
    names = [value for name, value in options.items() if name in may_name for value in _texts(value)]
    for name in names:
        inside = (folder / name).resolve().is_relative_to(folder.resolve())
        if not inside or (file_of(name).is_file() and not file_of(str(folder / name)).is_file()):
            raise InputError(f"{folder}: its options name {short_repr(name)}, a file outside of it")
    return renamed(options, {name: str(folder / name) for name in names if (folder / name).is_file()})


def _texts(value: Any) -> list[str]:
    return [each for each in (value if isinstance(value, list | tuple) else [value]) if isinstance(each, str)]
