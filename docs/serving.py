"""The README's figure: time per output token over the rate, and where SD catches up with SSD.

Run: python docs/serving.py   (writes serving-crossing.svg)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ssdsim.serving.answer import Serving
from ssdsim.serving.serve import serve
from ssdsim.serving.workload import Lengths, synthetic

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 320, 56, 20, 40, 44
MOST_RATE, MOST_MS = 12.0, 60.0
COLOURS = {"ar": "#808080", "sd": "#2b82c9", "ssd": "#d55e00"}


def main() -> None:
    """Means of the closed form, at prompts of 1024 tokens and answers of 256."""
    workload = synthetic(2, 1.0, Lengths.parse(1024, "input"), Lengths.parse(256, "output"))
    serving = serve(workload=workload, solver="closed")
    Path(__file__).with_name("serving-crossing.svg").write_text("\n".join(drawn(serving)) + "\n")


def drawn(serving: Serving) -> list[str]:
    """The lines of the drawing."""
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>']
    lines.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    (crossing,) = (c for c in serving.crossings if c.over.name == "sd" and c.basis == "gpu")
    if crossing.rate and crossing.interval:
        low, high = x(crossing.interval.low), x(min(MOST_RATE, crossing.interval.high))
        lines.append(
            f'<rect x="{low:.1f}" y="{TOP}" width="{high - low:.1f}" height="{HEIGHT - TOP - BOTTOM}" fill="#eee"/>'
        )
        lines.append(
            f'<path d="M{x(crossing.rate):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#808080" stroke-dasharray="4 3"/>'
        )
        bounds = f"{crossing.interval.low:.1f}-{crossing.interval.high:.1f}"
        said = f"GPU for GPU, SD catches up at {crossing.rate:.1f} requests/s ({bounds})"
        lines.append(f'<text x="{x(crossing.rate):.1f}" y="{TOP - 8}" text-anchor="middle">{said}</text>')
    for rate in range(0, int(MOST_RATE) + 1, 2):
        lines.append(f'<text x="{x(rate):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{rate}</text>')
    for ms in range(0, int(MOST_MS) + 1, 10):
        lines.append(f'<path d="M{LEFT} {y(ms):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y(ms) + 4:.1f}" text-anchor="end">{ms}</text>')
    lines.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">requests/s on the GPUs of an SSD replica</text>'
    )
    lines.append(
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">ms a token</text>'
    )
    for name, share, dash, label in (
        ("ar", 1.0, "", "AR, 4 GPUs"),
        ("sd", 1.0, "", "SD, 4 GPUs"),
        ("sd", 0.8, "6 4", "SD, as many GPUs as SSD"),
        ("ssd", 1.0, "", "SSD, 5 GPUs"),
    ):
        lines += curve(serving, name, share, dash, label)
    return [*lines, "</svg>"]


def curve(serving: Serving, name: str, share: float, dash: str, label: str) -> list[str]:
    """Up to where it is saturated, or leaves the drawing; its name at its end."""
    rates = np.linspace(0.05, MOST_RATE, 200)
    tpot_ms = 1e3 * np.array([float(serving.sharings[name].served(rate * share).tpot_s) for rate in rates])
    shown = [(x(rate), y(ms)) for rate, ms in zip(rates, tpot_ms, strict=True) if ms <= MOST_MS]
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in shown)
    style = f'fill="none" stroke="{COLOURS[name]}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
    at = {"AR, 4 GPUs": 0.3, "SD, 4 GPUs": 0.97, "SD, as many GPUs as SSD": 0.9, "SSD, 5 GPUs": 0.85}[label]
    a, b = shown[int(at * (len(shown) - 1))]
    where = {"SD, as many GPUs as SSD": (8, 14, "start"), "SSD, 5 GPUs": (4, 18, "start")}.get(label, (-8, -6, "end"))
    place = f'x="{a + where[0]:.1f}" y="{b + where[1]:.1f}" text-anchor="{where[2]}"'
    text = f'<text {place} fill="{COLOURS[name]}">{label}</text>'
    return [f'<path d="{path}" {style}/>', text]


def x(rate: float) -> float:
    return LEFT + rate / MOST_RATE * (WIDTH - LEFT - RIGHT)


def y(ms: float) -> float:
    return HEIGHT - BOTTOM - ms / MOST_MS * (HEIGHT - TOP - BOTTOM)


if __name__ == "__main__":
    main()
