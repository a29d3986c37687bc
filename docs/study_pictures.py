"""The pictures of docs/study_draft_gpu.md: who wins where, speeds over the batch, and the acceptance that SSD needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

COLOURS = {
    "SSD": "#d55e00",
    "SSD, draft shared": "#e8a15f",
    "SD": "#8c6d46",
    "MineDraft": "#009e73",
    "DSpark": "#7fb2dd",
    "DSpark, adaptive": "#2b6fb3",
    "EAGLE-3": "#cc79a7",
    "EAGLE-3, tree": "#7a3e8e",
    "AR": "#808080",
}
BY_BUDGET = ("#d55e00", "#e69f00", "#009e73", "#2b6fb3")

Key = tuple[str, str, int, int]
Band = tuple[float, float, float]


def winners(found: Mapping[Key, tuple[str, bool]], batches: Sequence[int]) -> str:
    """A square a cell in its winner's colour; with a dot where it wins at every look."""
    left, top, size, gap = 70, 62, 34, 30
    places = list(dict.fromkeys(key[:2] for key in found))
    budgets = list(dict.fromkeys(key[2] for key in found))
    width = left + len(places) * (len(batches) * size + gap)
    lines = []
    for number, (target, hardware) in enumerate(places):
        x0 = left + number * (len(batches) * size + gap)
        lines.append(_text(x0, top - 24, f"{target}, {_gpu(hardware)}", weight="bold"))
        for column, batch in enumerate(batches):
            lines.append(_text(x0 + (column + 0.5) * size, top - 6, f"{batch}", anchor="middle"))
            for row, budget in enumerate(budgets):
                name, sure = found[target, hardware, budget, batch]
                x, y = x0 + column * size, top + row * size
                lines.append(f'<rect x="{x}" y="{y}" width="{size - 2}" height="{size - 2}" fill="{COLOURS[name]}"/>')
                if sure:
                    lines.append(f'<circle cx="{x + size / 2 - 1}" cy="{y + size / 2 - 1}" r="5" fill="white"/>')
    lines += [
        _text(left - 10, top + (row + 0.6) * size, f"{budget} GPUs", anchor="end") for row, budget in enumerate(budgets)
    ]
    bottom = top + len(budgets) * size + 24
    shown = dict.fromkeys(name for name, _ in found.values())
    lines += _legend(left, bottom, shown)
    said = "batch above each square; a dot: the fastest at every look at what is not known"
    lines.append(_text(left + 130 * len(shown), bottom, said))
    return _drawing(width, bottom + 20, lines)


def speeds(bands: Mapping[str, Sequence[Band]], batches: Sequence[int], title: str, shaded: Sequence[str]) -> str:
    """Tokens/s of a user over the batch, on logarithms; bands are what is not known, of those ``shaded``."""
    left, top, wide, high = 60, 40, 620, 330
    most = max(band[2] for each in bands.values() for band in each if not math.isnan(band[2]))
    least = min(band[1] for each in bands.values() for band in each if not math.isnan(band[1]))

    def x(batch: float) -> float:
        return left + wide * math.log(batch / batches[0]) / math.log(batches[-1] / batches[0])

    def y(rate: float) -> float:
        return top + high * (1.0 - math.log(rate / least) / math.log(most / least))

    lines = [_text(left, 22, f"{title}: tokens/s of a user", weight="bold")]
    for rate in (10, 20, 50, 100, 200, 500, 1000):
        if least <= rate <= most:
            lines.append(f'<path d="M{left} {y(rate):.1f}H{left + wide}" stroke="#ddd"/>')
            lines.append(_text(left - 8, y(rate) + 4, f"{rate}", anchor="end"))
    lines += [_text(x(batch), top + high + 18, f"{batch}", anchor="middle") for batch in batches]
    lines.append(_text(left + wide / 2, top + high + 36, "sequences in flight", anchor="middle"))
    for name, each in bands.items():
        if name not in shaded:
            continue
        known = [(x(b), band) for b, band in zip(batches, each, strict=True) if not math.isnan(band[0])]
        upper = [f"{at:.1f} {y(band[2]):.1f}" for at, band in known]
        lower = [f"{at:.1f} {y(band[1]):.1f}" for at, band in reversed(known)]
        lines.append(f'<path d="M{"L".join(upper + lower)}Z" fill="{COLOURS[name]}" opacity="0.15"/>')
    for name, each in bands.items():
        path = "L".join(f"{x(b):.1f} {y(band[0]):.1f}" for b, band in zip(batches, each, strict=True) if band[0] > 0.0)
        lines.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2.5"/>')
    ends = sorted((y(each[0][0]), name) for name, each in bands.items() if not math.isnan(each[0][0]))
    return _drawing(left + wide + 30, top + high + 76, [*lines, *_legend(left, top + high + 62, [n for _, n in ends])])


def needed(
    found: Mapping[tuple[str, str, int], Sequence[float]], batches: Sequence[int], plausible: tuple[float, float]
) -> str:
    """The draft model's acceptance from which SSD wins, over the batch; a panel a target and kind of GPU."""
    left, top, wide, high, gap = 50, 56, 190, 180, 34
    places = list(dict.fromkeys(key[:2] for key in found))
    budgets = list(dict.fromkeys(key[2] for key in found))
    lines = []
    for number, (target, hardware) in enumerate(places):
        x0, y0 = left + number % 3 * (wide + gap), top + number // 3 * (high + 74)

        def x(batch: float, x0: int = x0) -> float:
            return x0 + wide * math.log(batch / batches[0]) / math.log(batches[-1] / batches[0])

        def y(alpha: float, y0: int = y0) -> float:
            return y0 + high * (1.0 - alpha) / 0.5

        lines.append(_text(x0, y0 - 10, f"{target}, {_gpu(hardware)}", weight="bold"))
        low, top_of = y(plausible[0]), y(plausible[1])
        lines.append(f'<rect x="{x0}" y="{top_of:.1f}" width="{wide}" height="{low - top_of:.1f}" fill="#f0f0f0"/>')
        for alpha in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
            lines.append(f'<path d="M{x0} {y(alpha):.1f}H{x0 + wide}" stroke="#ddd"/>')
            if number % 3 == 0:
                lines.append(_text(x0 - 6, y(alpha) + 4, f"{alpha:g}", anchor="end"))
        lines += [_text(x(b), y0 + high + 16, f"{b}", anchor="middle") for b in batches]
        for colour, budget in zip(BY_BUDGET, budgets, strict=True):
            each = zip(batches, found[target, hardware, budget], strict=True)
            points = [f"{x(b):.1f} {y(alpha):.1f}" for b, alpha in each if not math.isnan(alpha)]
            lines.append(f'<path d="M{"L".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
    bottom = top + -(-len(places) // 3) * (high + 74) - 22
    names = {f"{budget} GPUs": colour for colour, budget in zip(BY_BUDGET, budgets, strict=True)}
    lines += _legend(left, bottom, names, names)
    said = "Acceptance of the draft model from which SSD wins, over the batch (grey: what is plausible; 1: never)"
    lines.append(_text(left, 22, said, weight="bold"))
    return _drawing(left + 3 * (wide + gap), bottom + 20, lines)


def _legend(x: float, y: float, names: Sequence[str], colours: Mapping[str, str] = COLOURS) -> list[str]:
    lines = []
    for number, name in enumerate(names):
        at = x + number * 112
        lines.append(f'<rect x="{at}" y="{y - 10}" width="12" height="12" fill="{colours[name]}"/>')
        lines.append(_text(at + 16, y, name))
    return lines


def _text(x: float, y: float, said: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{said}</text>'


def _gpu(hardware: str) -> str:
    return hardware.split("-")[0].upper()


def _drawing(width: float, height: float, lines: Sequence[str]) -> str:
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12"'
    background = f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {box}>', background, *lines, "</svg>"]) + "\n"
