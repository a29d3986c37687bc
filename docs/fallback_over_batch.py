"""Figure and numbers: SSD over SD for b = 1..64 with jit, fast and auto fallback, by closed form and by SimPy.

Run: python docs/fallback_over_batch.py > docs/fallback_over_batch.md   (also writes fallback_over_batch.html)
"""

from __future__ import annotations

import math
from pathlib import Path

import plotly.graph_objects as go

from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.tokens.theory import critical_batch_size, crossing_batch_size

SETTING = {"t_sd": 0.3, "t_p": 0.7, "alpha": 0.8, "k": 6, "p_hit": 0.85}
BATCHES = [*range(1, 17), 20, 24, 32, 48, 64]
TICKS = [1, 2, 4, 8, 16, 32, 64]
COLOURS = {"jit": "#c44e52", "fast": "#4c72b0", "auto": "#2d2d2d"}
HEADING = """# Which fallback at which batch

For people who choose SSD's fallback. This page says at which batch random tokens are better than drafting just in time.

![SSD over SD against batch size](fallback_over_batch.png)

Drafting just in time loses its advantage as the batch grows. Random tokens cost tokens but no time. `--backup auto`
takes the better of the two full predictions, so it switches where they are equal.

The table has the closed form, and SimPy's 95 % interval beside it (alpha 0.8, K 6, p_hit 0.85, T_SD 0.3, T_p 0.7).
`docs/fallback_over_batch.py` makes table and figure.
"""


def options(backup: str) -> dict[str, object]:
    return SETTING | ({"backup": backup, "alpha_backup": 0.0} if backup == "fast" else {"backup": backup})


def over_sd(batch: int, backup: str) -> float:
    scenarios = configure(b=batch, **options(backup)).scenarios
    sd, ssd = (float(scenarios[name].estimate.tokens_per_second) for name in ("sd", "ssd"))
    return ssd / sd


def simulated_over_sd(batch: int, backup: str) -> tuple[float, float]:
    """SimPy's SSD/SD and the half width of its 95 % interval."""
    scenarios = configure(b=batch, **options(backup)).scenarios
    sd = float(scenarios["sd"].estimate.tokens_per_second)
    rate = simulate(scenarios["ssd"], rounds=20_000, seed=batch).tokens_per_second
    return rate.value / sd, (rate.high - rate.low) / 2 / sd


def main() -> None:
    figure = go.Figure()
    print(HEADING)
    print("| b | all hit | jit / SD | fast / SD | auto takes | SimPy jit | SimPy fast |")
    print("|---|---|---|---|---|---|---|")
    curves: dict[str, list[float]] = {backup: [] for backup in COLOURS}
    points: dict[str, list[tuple[float, float]]] = {"jit": [], "fast": []}
    for batch in BATCHES:
        for backup, curve in curves.items():
            curve.append(over_sd(batch, backup))
        for backup, found in points.items():
            found.append(simulated_over_sd(batch, backup))
        chosen = configure(b=batch, **options("auto")).settings["backup"]
        des = [f"{value:.3f} ± {half:.3f}" for value, half in (points["jit"][-1], points["fast"][-1])]
        rates = f"{curves['jit'][-1]:.3f} | {curves['fast'][-1]:.3f}"
        print(f"| {batch} | {0.85**batch:.1%} | {rates} | {chosen} | {des[0]} | {des[1]} |")
    crossing = crossing_batch_size(lambda b: over_sd(b, "jit"), lambda b: over_sd(b, "fast"), 64)
    e_hit = configure(b=1, **options("jit")).scenarios["ssd"].tokens.averages.tokens_per_round
    # Theorem 17 takes T_b = T_p for the slow backup; here jit drafts K fresh steps, T_b = T_SD
    b_star = critical_batch_size(0.85, SETTING["t_sd"], e_hit, 1.0)
    print(f"\nThe two full predictions cross at b = {crossing:g}; ", end="")
    print(f"Theorem 17 with the backup's own time puts b* at {b_star:.2f}.")
    for backup, curve in curves.items():
        dash = "dot" if backup == "auto" else "solid"
        figure.add_scatter(x=BATCHES, y=curve, name=backup, line={"color": COLOURS[backup], "dash": dash, "width": 3})
    for backup, found in points.items():
        error = {"type": "data", "array": [half for _, half in found]}
        figure.add_scatter(
            x=BATCHES,
            y=[value for value, _ in found],
            error_y=error,
            mode="markers",
            name=f"{backup}, SimPy",
            marker={"color": COLOURS[backup], "size": 7},
        )
    figure.add_hline(y=1.0, line={"color": "grey", "width": 1}, annotation_text="SD")
    figure.add_vline(x=crossing, line={"color": "grey", "dash": "dash"})
    # an annotation's place on a log axis is an exponent
    note = {"text": f"crossing, b = {crossing:g}", "showarrow": False, "xanchor": "left", "xshift": 6}
    figure.add_annotation(x=math.log10(crossing), y=1.25, **note)
    figure.update_layout(
        title="SSD over SD against batch size (p_hit 0.85, alpha 0.8, K 6, T_SD 0.3, T_p 0.7)",
        xaxis={"title": "batch size b", "type": "log", "tickvals": TICKS, "range": [-0.05, math.log10(75)]},
        yaxis={"title": "tokens/s of SSD over SD"},
        template="plotly_white",
        width=900,
        height=520,
    )
    figure.write_html(Path(__file__).with_suffix(".html"), include_plotlyjs="cdn", config={"displayModeBar": False})


if __name__ == "__main__":
    main()
