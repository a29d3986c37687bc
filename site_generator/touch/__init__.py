"""Small figures of the theory page that follow sliders: every position is worked out when the site is built."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from site_generator.drawn import scripts
from site_generator.touch.all_hit import all_hit
from site_generator.touch.fan_out import fan_out
from site_generator.touch.saguaro import saguaro
from site_generator.touch.slides import Slides
from site_generator.touch.window import window

_MARK = re.compile(r"^\[touch: ([a-z-]+)\]$", flags=re.MULTILINE)
_TOUCHED: Mapping[str, Callable[[], Slides]] = {
    "fan-out": fan_out,
    "saguaro": saguaro,
    "all-hit": all_hit,
    "window": window,
}


def touched(markdown: str, root: str) -> str:
    """A page with a figure for each line ``[touch: NAME]``, and what draws them."""
    made = _MARK.sub(lambda mark: _TOUCHED[mark.group(1)]().html(mark.group(1)), markdown)
    return f"{made}\n\n{scripts(root, 'touch.js')}\n"
