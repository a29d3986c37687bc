"""Read aiconfigurator's ``system.yaml``: two levels of ``key: number`` lines, the part of YAML that it uses."""

from __future__ import annotations

from pathlib import Path

from ssdsim.base.documents import read_text
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record


class SystemCard(Record):
    """Numbers by section and key; text and deeper levels are left out."""

    path: Path
    sections: dict[str, dict[str, float]]

    def figure(self, section: str, key: str, otherwise: float | None = None) -> float:
        """One number, such as ``figure("gpu", "mem_bw")``."""
        value = self.sections.get(section, {}).get(key, otherwise)
        if value is None:
            raise InputError(f"{self.path}: no number {section}.{key}; a system card of aiconfigurator has one")
        if not 0.0 <= value < float("inf"):
            raise InputError(f"{self.path}: {section}.{key} must be at least 0 and finite, got {value:g}")
        return value


def read_system_card(path: Path) -> SystemCard:
    """The card in a file."""
    lines = read_text(path, "system card").splitlines()
    sections: dict[str, dict[str, float]] = {}
    section: dict[str, float] = {}
    depth = 0
    for line in lines:
        content = line.split("#")[0].rstrip()
        key, colon, text = (part.strip() for part in content.partition(":"))
        indent = len(content) - len(content.lstrip())
        if colon and indent == 0:
            section, depth = sections.setdefault(key, {}), 0
        elif colon and indent == (depth or indent):
            depth = indent
            if _is_number(text):
                section[key] = float(text)
    return SystemCard(path, sections)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
