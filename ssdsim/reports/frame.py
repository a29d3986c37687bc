"""The frame of every page: one document without requests to anywhere, in the system's theme."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs

from ssdsim.reports import theme

# Nothing may be fetched or sent: the policy makes of a mistake an error in the console, not a request.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)

_SHELL = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="$policy">
<link rel="icon" href="data:,">
<title>ssdsim: $title</title>
<style>
$css
</style>
</head>
<body>
<a class="skip" href="#main">To the figures</a>
<header>
<div class="bar"><span class="brand">$brand</span><button id="theme" type="button">dark theme</button></div>
$header
</header>
<main id="main" tabindex="-1">
$main
</main>
<footer>
$footer
</footer>
<script type="application/json" id="data">$data</script>
$scripts
</body>
</html>
""")


def framed(
    *,
    title: str,
    brand: str,
    header: str,
    main: str,
    footer: str,
    data: Mapping[str, Any],
    styles: Sequence[str],
    scripts: Sequence[str],
) -> str:
    """The whole document. ``header``, ``main`` and ``footer`` are HTML, ``title`` and ``brand`` plain.

    ``data`` is the page's JSON, to which the themes of plots are added; ``styles`` and ``scripts`` are texts, which
    come after those of the frame: the theme's colours, plotly.js, what switches the theme and what unpacks numbers.
    """
    own = (asset("theme.js"), asset("unpacked.js"))
    shown = {**data, "templates": {each.name: each.template() for each in (theme.LIGHT, theme.DARK)}}
    return _SHELL.substitute(
        policy=POLICY,
        title=escape(title),
        brand=escape(brand),
        css="\n".join((theme.css(), asset("frame.css"), *styles)),
        header=header,
        main=main,
        footer=footer,
        # "</script>" in a text would end the element that holds it, "<!--<script>" have it never end
        data=json.dumps(shown, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        scripts="\n".join(f"<script>\n{script}\n</script>" for script in (plotlyjs(), *own, *scripts)),
    )


def asset(name: str) -> str:
    """A file beside this one."""
    return files("ssdsim.reports").joinpath(name).read_text(encoding="utf-8")


def plotlyjs() -> str:
    """plotly.js with its factory in parentheses, so that browsers compile it at once instead of parsing it twice.

    Text of another form is left as it is.
    """
    plotly: str = get_plotlyjs()
    head, start, rest = plotly.partition(", () => {")
    body, end, tail = rest.rpartition("}));")
    return f"{head}, (() => {{{body}}})));{tail}" if start and end else plotly
