"""Timelines of strategies, drawn from traces of their event programs.

Run: python docs/strategies.py   (writes a strategies-NAME.svg for each)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ssdsim.answers.simulation.simulate import simulate
from ssdsim.answers.simulation.trace import Trace
from ssdsim.question.configuration import configure

SETTING: dict[str, Any] = {"alpha": 0.7, "k": 4, "t_sd": 0.8}  # a draft step is a fifth of a verification
OWN: dict[str, dict[str, Any]] = {
    "sd": {"sd_k": 4},
    "ssd": {"p_hit": 0.7, "backup": "jit"},
    "pearl": {"gamma": 5},
    "specbranch": {"branch_gamma": 5, "branches": 3},
    "dsi": {"dsi_k": 2, "dsi_targets": 3},
    "amusd": {},
    "tree": {"tree_nodes": 12, "tree_depth": 4},
    "treessd": {"tree_nodes": 12, "tree_depth": 4, "budget": 12},
    "swiftspec": {"swift_passes": 5, "swift_width": 2},
    "minedraft": {"b": 4},
    "enumeration": {"b": 4, "p_hit": 0.7, "t_sd": 0.7, "enum_rows": "ragged", "t_v": [(8, 0.6), (20, 1.0)]},
    "adaptive": {"b": 4, "t_v": [(8, 0.6), (20, 1.0)]},
    "lookahead": {"lookahead_found": 0.5, "t_v": [(1, 0.8), (60, 1.1)]},
    "hybrid": {"hybrid_found": 0.5},
    "spectre": {"spectre_k": 4, "b": 8},
    "specactor": {"specactor_window": 5, "specactor_targets": 2, "b": 4},
}
SEED, SHOWN = 7, 9.0  # units of T_v
UNIT_US = 1e6
LEFT, ROW, GAP, WIDTH = 90, 22, 10, 900
COLOURS = {
    "pre-verify": "#a9bddd",
    "verify": "#4c72b0",
    "fallback": "#c44e52",
}  # by a word of a step's name
DRAFTS = "#dd8452"


def events_of(name: str) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Tracks by name, the targets first, and what happens on them."""
    trace = Trace()
    simulate(configure(strategies=name, **{**SETTING, **OWN[name]}).scenarios[name], rounds=40, seed=SEED, trace=trace)
    events = trace.to_json()["traceEvents"]
    names = {event["args"]["name"]: event["tid"] for event in events if event["name"] == "thread_name"}
    names = {track: tid for track, tid in names.items() if track.startswith(("target", "draft"))}
    tracks = {track: names[track] for track in sorted(names, key=lambda track: (not track.startswith("target"), track))}
    return tracks, [event for event in events if event["ph"] in "Xsf" and event["ts"] < SHOWN * UNIT_US]


def colour(what: str) -> str:
    return next((each for word, each in COLOURS.items() if word in what), DRAFTS)


def drawing(name: str) -> str:
    tracks, events = events_of(name)
    rows = {tid: number for number, tid in enumerate(tracks.values())}
    scale = (WIDTH - LEFT - 10) / (SHOWN * UNIT_US)
    height = len(rows) * (ROW + GAP) + 30

    def x(at_us: float) -> float:
        return LEFT + scale * min(at_us, SHOWN * UNIT_US)

    def y(tid: int) -> float:
        return 5 + rows[tid] * (ROW + GAP)

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for track, tid in tracks.items():
        label = track.replace(" GPU 0", "")
        drawn.append(f'<text x="5" y="{y(tid) + 15}">{label}</text>')
    for event in events:
        if event["ph"] == "X":
            wide = x(event["ts"] + event["dur"]) - x(event["ts"])
            place = f'x="{x(event["ts"]):.1f}" y="{y(event["tid"])}" width="{max(wide - 0.8, 0.5):.1f}" height="{ROW}"'
            what = event["name"]
            drawn.append(f'<rect {place} fill="{colour(what)}"><title>{what}</title></rect>')
    for tick in range(int(SHOWN) + 1):
        at = x(tick * UNIT_US)
        drawn.append(f'<text x="{at:.0f}" y="{height - 6}" text-anchor="middle" fill="#555">{tick}</text>')
    return "\n".join([*drawn, "</svg>\n"])


def main() -> None:
    for name in OWN:
        Path(__file__).with_name(f"strategies-{name}.svg").write_text(drawing(name))


if __name__ == "__main__":
    main()
