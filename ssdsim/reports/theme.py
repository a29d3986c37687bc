"""The looks of pages by day and by night: said once, for their CSS and for the plots on them.

Texts have a contrast of at least 4.5 against every background that they stand on, edges of what can be pressed 3.
"""

from __future__ import annotations

from typing import Any

from ssdsim.base.record import Record

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


class Theme(Record):
    """Colours of a page: behind it, behind what stands on it, of its text, of lesser text, of lines."""

    name: str
    page: str
    card: str
    ink: str
    faint: str
    edge: str
    grid: str

    def css(self) -> str:
        """The text that the style sheet reads."""
        names = ("page", "card", "ink", "faint", "edge")
        return f"color-scheme: {self.name}; " + " ".join(f"--{name}: {getattr(self, name)};" for name in names)

    def template(self) -> dict[str, Any]:
        """The template of plots, which let the page shine through."""
        return template(self.ink, self.grid, self.card, size=12, family=FONT)


LIGHT = Theme("light", "#f6f6f4", "#ffffff", "#1b1d20", "#5c6066", "#dcdcd8", "#e4e4e0")
DARK = Theme("dark", "#121416", "#1b1e21", "#e8e8e4", "#a4a8ad", "#34383c", "#34383c")


def template(ink: str, grid: str, card: str, *, size: float, family: str) -> dict[str, Any]:
    """A plotly template on a transparent ground; ``card`` is behind what must cover lines: labels of a hover, notes."""
    axis = {"gridcolor": grid, "linecolor": grid, "zeroline": False}
    return {
        "layout": {
            "font": {"color": ink, "size": size, "family": family},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"bgcolor": card, "bordercolor": ink, "font": {"color": ink}},
            "annotationdefaults": {"font": {"color": ink, "size": round(0.92 * size, 1)}, "bgcolor": card},
        }
    }


def css() -> str:
    """The system's choice of a theme, unless the page says another."""
    return (
        f":root {{ {LIGHT.css()} }}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {DARK.css()} }} }}\n'
        f':root[data-theme="dark"] {{ {DARK.css()} }}\n'
    )
