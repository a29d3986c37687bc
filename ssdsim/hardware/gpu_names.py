"""Names of GPUs as drivers print them: which model, in which form, with how much memory."""

from __future__ import annotations

import re

_MAKERS = {"nvidia", "tesla", "geforce", "amd", "instinct", "quadro", "graphics"}
_FORM = re.compile(r"sxm\d?|pcie|nvl|oam")
_MEMORY = re.compile(r"(\d+)g[bi]?b?")
_VARIANT = re.compile(rf"{_FORM.pattern}|hbm\d\w*|dgxs|{_MEMORY.pattern}")
_AMDS = re.compile(r"amd|instinct|radeon|mi\d{3}[a-z]?")
_SAME_MEMORY = 0.15
"""Of which 80 GB and what a driver leaves of them differ."""


def gpu_model(name: str) -> frozenset[str]:
    """``Tesla V100-SXM2-16GB`` and ``NVIDIA V100-PCIE-32GB`` -> ``{v100}``."""
    return frozenset(word for word in _words(name) if word not in _MAKERS and not _VARIANT.fullmatch(word))


def gpu_form(name: str) -> str | None:
    """``sxm4``, ``pcie``, ...; None where the name does not say it."""
    return next(filter(_FORM.fullmatch, _words(name)), None)


def is_amds(name: str) -> bool:
    """Tell whether a GPU, by its name or its profile's, is one of AMD's."""
    return any(_AMDS.fullmatch(word) for word in _words(name))


def is_same_gpu(name: str, device: str, memory_bytes: int) -> bool:
    """Tell whether a name may be that of a device: its model, and its form and its memory where both say them."""
    forms = {gpu_form(each) for each in (name, device)} - {None}
    memory = next((float(match[1]) for word in _words(name) if (match := _MEMORY.fullmatch(word))), None)
    alike = memory is None or abs(memory * 1e9 / memory_bytes - 1.0) <= _SAME_MEMORY
    return gpu_model(name) == gpu_model(device) and len(forms) <= 1 and alike


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\s\-_/,()]+", name.lower()) if word]
