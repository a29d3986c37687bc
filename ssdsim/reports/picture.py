"""A figure as a file for a paper: SVG, PDF or PNG, by plotly's own exporter."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import plotly.graph_objects as go

from ssdsim.base.errors import InputError
from ssdsim.base.files import replaced
from ssdsim.reports.print_style import WIDTH_MM, for_print, image_options

KINDS = ("svg", "pdf", "png")
_NEEDS = "a figure's file needs plotly's exporter (pip install 'ssdsim[figures]') and a browser (apt install chromium)"


def kind_of(path: Path) -> str:
    """The kind of file that a picture's name asks for."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InputError(f"{path}: a figure is written as {', '.join(f'.{each}' for each in KINDS)}")
    return kind


def save_picture(plot: go.Figure, path: Path, columns: int = 1) -> None:
    """Write a figure, laid out for print, in the format that the name asks for."""
    kind = kind_of(path)
    if columns not in WIDTH_MM:
        raise InputError(f"a figure is {' or '.join(map(str, WIDTH_MM))} columns wide, got {columns}")
    content = _content(plot, kind, columns)
    try:
        with replaced(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise InputError(f"{path}: the figure cannot be written there ({error.strerror})") from None


def _content(plot: go.Figure, kind: str, columns: int) -> bytes:
    if find_spec("kaleido") is None:
        raise InputError(_NEEDS)
    import kaleido
    from choreographer.errors import BrowserFailedError, ChromeNotFoundError

    figure = for_print(plot, columns)
    size = {"width": figure.layout.width, "height": figure.layout.height}
    # without its MathJax, which plotly's write_image would have it ask of the network
    try:
        made: bytes = kaleido.calc_fig_sync(
            figure.to_dict(), opts={**size, **image_options(kind)}, kopts={"mathjax": False}
        )
    except (ChromeNotFoundError, BrowserFailedError):
        raise InputError(_NEEDS) from None
    return made
