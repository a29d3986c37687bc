"""How a plotly figure stands on a page of the site, and the scripts that draw it in the page's theme."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from ssdsim.reports.theme import DARK, LIGHT

TEMPLATES = "assets/templates.js"
_SCRIPTS = ("plotly.min.js", "templates.js", "figures.js")


def place(figure: Mapping[str, Any], label: str) -> str:
    """Where a figure is drawn; ``label`` is what a screen reader says of it."""
    return f'<div class="figure" role="img" aria-label="{escape(label)}">{held(figure)}</div>'


def held(data: Mapping[str, Any]) -> str:
    """JSON inside a page."""
    content = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json">{content}</script>'


def scripts(root: str, *more: str) -> str:
    """What draws them; ``root`` is the way from the page to the site's root."""
    return "\n".join(f'<script src="{root}assets/{name}"></script>' for name in (*_SCRIPTS, *more))


def templates() -> str:
    """The themes of plots, as JavaScript: those of reports."""
    return f"const TEMPLATES = {json.dumps({each.name: each.template() for each in (LIGHT, DARK)})};\n"
