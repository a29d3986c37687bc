"""Every notebook runs from top to bottom, with small sizes; the site is built strictly and shows them in a browser.

In one file, so that the worker that has run the notebooks is the one that shows them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import ssdsim
from site_generator import notebooks
from site_generator.json_reference import undescribed
from ssdsim.cli.main import VERBS
from ssdsim.question.options import DEFAULTS
from ssdsim.reports.theme import DARK, LIGHT
from tests.ssdsim.reports.browser import CHROMIUM, Browser

pytestmark = pytest.mark.notebooks
PUBLISHED = {"SITE_URL": "https://example.org/ssdsim/", "REPOSITORY_URL": "https://github.com/example/ssdsim"}

TRACES = ".scatterlayer > .trace, .barlayer > .trace, .contourlayer > g"
CLEAR = "rgba(0,0,0,0)"


# jupyter_client's sockets and loops are closed by their finalisers
@pytest.mark.filterwarnings("ignore::ResourceWarning:zmq", "ignore::DeprecationWarning:jupyter_client")
@pytest.mark.parametrize("name", notebooks.names())
def test_notebook_runs_and_its_page_has_its_figures(name: str) -> None:
    """Executed here, for the site's build of the very same code."""
    notebook = notebooks.executed(name, small=True)
    assert len(notebooks.figures(notebook)) == cells_that_end_in_a_figure(notebook)
    assert notebooks.page(notebook, "../").count('<div class="figure"') == cells_that_end_in_a_figure(notebook)


def cells_that_end_in_a_figure(notebook: Any) -> int:
    """Drawn in the notebook, or by ``ssdsim.figures``."""
    last = [cell.source.rstrip().splitlines()[-1] for cell in notebook.cells if cell.cell_type == "code"]
    return sum(line == "figure" or line.startswith("figures.") for line in last)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        check=True,
        cwd=notebooks.PROJECT,
        env={**os.environ, **PUBLISHED, "NOTEBOOK_SIZES": "small", "NO_MKDOCS_2_WARNING": "1"},
    )
    return folder


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The site's address. From a folder the theme's search misses its index, sooner or later."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_verb_and_option_has_its_place(site: Path) -> None:
    verbs, options = ((site / "reference" / name).read_text() for name in ("cli.html", "options.html"))
    for verb in VERBS:
        assert f'id="ssdsim-{verb}"' in verbs
    for name in DEFAULTS:
        assert f"<code>--{name.replace('_', '-')}</code>" in options + verbs, name


def test_what_is_written_for_the_repository_is_a_page(site: Path) -> None:
    index = (site / "index.html").read_text()
    assert "Is speculative speculative decoding" in index
    assert 'href="tutorial.html"' in index
    assert 'src="assets/explore.png"' in index
    assert "0.2.0" in (site / "changelog.html").read_text()


def test_the_search_finds_what_is_and_not_what_was(site: Path) -> None:
    """The changelog was the first that it found for many words."""
    places = [each["location"] for each in json.loads((site / "search/search_index.json").read_text())["docs"]]
    assert any(place.startswith("limits.html") for place in places)
    assert not any(place.startswith("changelog.html") for place in places)


def test_a_page_has_a_version_an_edit_link_and_a_card(site: Path) -> None:
    for page, source in (("index.html", "README.md"), ("limits.html", "docs/limits.md")):
        text = (site / page).read_text()
        assert f"ssdsim {ssdsim.__version__}" in text
        assert f'href="{PUBLISHED["REPOSITORY_URL"]}/edit/main/{source}"' in text
        assert f'property="og:image" content="{PUBLISHED["SITE_URL"]}assets/card.png"' in text
        assert 'data-md-component="source"' not in text  # which would ask GitHub for stars
    assert "/edit/" not in (site / "reference/cli.html").read_text()  # made of the code
    assert (site / "assets/card.png").read_bytes()[16:24] == bytes.fromhex("000004b000000276")  # 1200 x 630


def test_a_key_that_nobody_described_is_found() -> None:
    answer = {"schema": 1, "strategies": {"ssd": {"tokens_per_second": 1.0, "surprise": {"a": 1}}}, "warnings": []}
    assert undescribed("predict", answer) == ["surprise.a"]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt install chromium)")
@pytest.mark.parametrize("name", notebooks.names())
def test_a_notebooks_figures_are_drawn_and_nothing_is_fetched(
    name: str, site: Path, served: str, browser: Browser
) -> None:
    page = f"notebooks/{name}.html"
    opened(browser, served, page)
    widths = browser.evaluate("[...document.querySelectorAll('.figure .main-svg:first-child')].map(s => s.clientWidth)")
    assert len(widths) == (site / page).read_text().count('<div class="figure"') > 0
    assert min(widths) > 400, widths
    assert browser.problems == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt install chromium)")
def test_the_gallery_draws_a_figure_for_every_block(served: str, browser: Browser) -> None:
    source = (notebooks.PROJECT / "docs" / "gallery.md").read_text()
    opened(browser, served, "gallery.html")
    drawn = browser.evaluate(f"""[...document.querySelectorAll('.figure')].map((f) => [f.ariaLabel,
        f.querySelectorAll('{TRACES}').length])""")
    assert len(drawn) == source.count("```sh\n") + source.count("```python\n") > 15
    assert all(label and traces for label, traces in drawn), drawn


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt install chromium)")
def test_a_slider_shows_what_the_functions_say(served: str, browser: Browser) -> None:
    opened(browser, served, "theory.html")
    says = "document.querySelector('#touch-all-hit .touch-says').textContent"
    shown = "document.querySelector('#touch-all-hit .touched').data.find((t) => t.name === 'all hit').y"
    assert "27.2% of rounds" in browser.evaluate(says)
    browser.evaluate("document.querySelector('#touch-all-hit input').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    assert f"{0.9**8:.1%} of rounds" in browser.evaluate(says)
    assert browser.evaluate(shown)[-1] == pytest.approx(0.9**64, rel=1e-3)
    assert browser.evaluate("document.activeElement.getAttribute('aria-valuetext')") == "0.9"
    assert browser.evaluate(says) in browser.evaluate("document.querySelector('#touch-all-hit .touched').ariaLabel")
    x, y = browser.evaluate("""(() => {
        const slider = document.querySelector('#touch-all-hit input');
        slider.scrollIntoView({block: 'center', behavior: 'instant'});
        const box = slider.getBoundingClientRect();
        return [box.x + box.width - 4, box.y + box.height / 2];
    })()""")
    browser.click(x, y)
    assert f"{0.99**8:.1%} of rounds" in browser.evaluate(says)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt install chromium)")
def test_figures_follow_the_site_s_theme(served: str, browser: Browser) -> None:
    opened(browser, served, "theory.html")
    ink = "document.querySelector('#touch-fan-out .touched')._fullLayout.font.color"
    assert browser.evaluate(ink) == LIGHT.ink
    browser.evaluate("document.body.dataset.mdColorScheme = 'slate'")
    browser.wait_until(f"{ink} === '{DARK.ink}'", 10)
    assert browser.evaluate("document.querySelector('#touch-fan-out .touched')._fullLayout.paper_bgcolor") == CLEAR


def opened(browser: Browser, served: str, page: str) -> None:
    """Open a page, of which nothing may be fetched from elsewhere."""
    browser.problems.clear()
    browser.requests.clear()
    browser.screen(1200, 900)
    browser.open(f"{served}/{page}")
    assert browser.problems == []
    assert [each for each in browser.requests if not each.startswith((f"{served}/", "data:", "blob:"))] == []
