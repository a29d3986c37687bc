"""The report in a real browser: figures drawn, hovers, legends, themes, menus, a phone's width, paper, no network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssdsim import strategies
from ssdsim.answers.predict import Prediction, predict
from ssdsim.reports.build import Report, report
from ssdsim.reports.theme import LIGHT
from tests.ssdsim.reports.browser import CHROMIUM, Browser, loaded
from tests.ssdsim.reports.contrast import FAINT_TEXTS
from tests.ssdsim.reports.run_folders import LINKED, write_linked, write_measurements, write_run
from tests.ssdsim.reports.sleepy import Sleepy

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt install chromium)"),
]

GRID = {"b": [1, 4, 16], "k": [3, 6], "alpha": [0.7, 0.8]}
KEYS = (
    *("speedup-b", "speedup-k", "speedup-alpha", "speedup-p_hit", "speedup-f"),
    *("boundary", "hit-rate", "fallback", "all-hit", "timeline", "roofline", "pareto", "validation"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = write_run(tmp_path_factory.mktemp("run"), {}, GRID)
    write_measurements(folder)
    return report(folder)


@pytest.fixture(scope="module")
def page(made: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    made.save(path)
    return path


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    """The page, freshly loaded on a light desktop; afterwards nothing may have gone wrong or been fetched."""
    with loaded(browser, page, 1200, 900):
        yield browser
    assert browser.requests.count(page.as_uri()) == len([a for a in browser.requests if a.startswith("file")])


def in_view(browser: Browser, key: str, selector: str) -> tuple[float, float]:
    """Scroll to the first such element of a figure; returns its centre."""
    script = f"""(() => {{
        const plot = document.querySelector('#{key} .plot');
        plot.scrollIntoView({{block: 'center', behavior: 'instant'}});
        const box = plot.querySelector('{selector}').getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    }})()"""
    x, y = browser.evaluate(script)
    return x, y


def unfold(browser: Browser) -> None:
    """Open what is folded, and wait for the tables in it."""
    browser.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    figures = "[...document.querySelectorAll('.plot')].filter((plot) => !plot.closest('#sides')).length"
    browser.wait_until(f"document.querySelectorAll('details.data table').length === {figures}")


def test_every_figure_is_drawn(opened: Browser, made: Report) -> None:
    assert tuple(each.key for each in made.figures) == KEYS
    for each in made.figures:
        drawn: dict[str, Any] = opened.evaluate(f"""(() => {{
            const plot = document.querySelector('#{each.key} .plot');
            const area = plot.querySelector('.main-svg .plot, .main-svg .cartesianlayer').getBoundingClientRect();
            const own = plot.getBoundingClientRect();
            const traces = [...plot.querySelectorAll('.scatterlayer > .trace, .barlayer > .trace, .contourlayer > g')];
            return {{traces: traces.length, width: area.width, height: area.height, box: own.height,
                     empty: traces.filter((t) => t.getBoundingClientRect().width === 0).length}};
        }})()""")
        assert drawn["traces"] == len(each.plot.data), each.key
        assert drawn["empty"] == 0, each.key
        assert drawn["width"] > 300, each.key
        assert drawn["height"] > 100, each.key
        assert drawn["box"] == pytest.approx(each.plot.layout.height, abs=1), each.key


@pytest.mark.parametrize("key", KEYS)
def test_a_hover_shows_a_label(opened: Browser, key: str) -> None:
    mark = ".barlayer .point path" if key == "timeline" else ".scatterlayer .points path.point"
    opened.mouse("mouseMoved", *in_view(opened, key, mark))
    opened.wait_until(f"document.querySelector('#{key} .hoverlayer .hovertext')?.textContent.length > 8", 10)
    text = opened.evaluate(f"document.querySelector('#{key} .hoverlayer .hovertext').textContent")
    assert "undefined" not in text
    assert "%{" not in text


@pytest.mark.parametrize("key", ["speedup-b", "fallback", "timeline", "pareto"])
def test_a_click_on_the_legend_hides_a_trace_and_another_shows_it_again(opened: Browser, key: str) -> None:
    shown = f"""document.querySelector('#{key} .plot')._fullData.filter((t) => t.visible === true).length"""
    before = opened.evaluate(shown)
    for compare in ("<", "==="):
        opened.click(*in_view(opened, key, ".legend .legendtoggle"))
        opened.wait_until(f"{shown} {compare} {before}", 10)
        time.sleep(0.5)  # or the next click makes a double click


def test_the_theme_follows_the_system_and_the_button(opened: Browser, page: Path) -> None:
    colours = """(() => [getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('#fallback.card')).backgroundColor,
        document.querySelector('#fallback .xtick text').style.fill])()"""
    light = opened.evaluate(colours)
    opened.evaluate("document.getElementById('theme').click()")
    dark = opened.evaluate(colours)
    assert all(one != other for one, other in zip(light, dark, strict=True))
    opened.evaluate("document.getElementById('theme').click()")
    assert opened.evaluate(colours) == light
    opened.screen(1200, 900, dark=True)  # while the page is open
    opened.wait_until("document.documentElement.dataset.theme === 'dark'", 10)
    opened.open(page)
    assert opened.evaluate(colours) == dark
    clear = "[...document.querySelectorAll('.main-svg')].every((s) => /^(rgba\\(0, 0, 0, 0\\)|transparent)$/.test("
    assert opened.evaluate(f"{clear}getComputedStyle(s).backgroundColor))")


def test_the_button_holds_against_the_system_until_both_agree(opened: Browser) -> None:
    theme = "document.documentElement.dataset.theme"
    opened.evaluate("document.getElementById('theme').click()")
    assert opened.evaluate(theme) == "dark"
    opened.screen(1200, 900, dark=True)
    assert opened.evaluate(theme) == "dark"
    opened.screen(1200, 900)
    opened.evaluate("document.getElementById('theme').click()")
    opened.screen(1200, 900, dark=True)
    opened.wait_until(f"{theme} === 'dark'", 10)


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out(opened: Browser, page: Path, dark: bool) -> None:
    """WCAG's contrast of 4.5 against what is behind it, in the page and in its plots."""
    opened.screen(1200, 900, dark=dark)
    opened.open(page)
    unfold(opened)
    assert opened.evaluate(FAINT_TEXTS) == []


def test_a_screen_reader_hears_the_findings(opened: Browser, made: Report) -> None:
    nodes = opened.send("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes if "role" in node}
    for each in made.figures:
        assert ("figure", each.title) in named, each.key
        assert {("image", each.title), ("img", each.title)} & named, each.key
    unfold(opened)
    lacking = """[...document.querySelectorAll('table')].filter((t) => !t.caption?.textContent
        || [...t.querySelectorAll('th')].some((cell) => !cell.scope) || !t.querySelector('th')).length"""
    assert opened.evaluate(lacking) == 0


def test_the_keyboard_goes_through_the_page_in_its_order(opened: Browser) -> None:
    opened.evaluate("window.scrollTo(0, 0)")
    at = "document.activeElement.id || document.activeElement.className || document.activeElement.dataset.axis || ''"
    walked = []
    for _ in range(19):
        for kind in ("keyDown", "keyUp"):
            opened.send("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        walked.append(opened.evaluate(at))
    panel = ["at-b", "at-k", "at-alpha", *2 * [""], "price", "reset", "copy"]  # two strategies to tick
    menus = ["b", "k", "alpha", "to-base"]  # of the speedups, which the panel does not lie over
    assert walked == ["skip", "theme", *panel, "scroll", "scroll", *menus, "picture", "picture", "csv"]
    assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_nothing_leaves_the_page(opened: Browser) -> None:
    """Its policy refuses what a script would fetch, load or send."""
    refused = opened.evaluate("""(async () => {
        const seen = [];
        document.addEventListener('securitypolicyviolation', (e) => seen.push(e.effectiveDirective));
        try { await fetch('https://example.com/'); } catch { seen.push('fetch'); }
        const picture = new Image();
        picture.src = 'https://example.com/x.png';
        await new Promise((resolve) => { picture.onerror = resolve; });
        const form = document.createElement('form');
        form.action = 'https://example.com/';
        document.body.append(form);
        form.submit();
        await new Promise((resolve) => setTimeout(resolve, 100));
        return [...new Set(seen)].sort();
    })()""")
    assert refused == ["connect-src", "fetch", "form-action", "img-src"]
    assert opened.problems
    opened.problems.clear()  # which are those refusals, of what was asked for and never sent
    opened.requests.clear()


@pytest.mark.parametrize(("key", "kind"), [("speedup-b", "svg"), ("timeline", "png")])
def test_a_figure_gives_a_picture_for_print(opened: Browser, tmp_path: Path, key: str, kind: str) -> None:
    opened.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened.evaluate(f"document.querySelector('#{key} .picture[data-kind={kind}]').click()")
    path, deadline = tmp_path / f"{key}.{kind}", time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    content = path.read_bytes()
    if kind == "svg":
        assert b'width="321' in content  # 85 mm
        assert b"#b84700" in content or b"rgb(184, 71, 0)" in content
    else:
        assert int.from_bytes(content[16:20], "big") == pytest.approx(178 / 25.4 * 300, abs=3)


AT_K_3 = "document.querySelector('#speedup-b .about').textContent.includes('k 3')"


def ratio(asked: Prediction, rival: str) -> float:
    """SSD's rate over a rival's at the values that are shown."""
    rates = {name: float(each.tokens_per_second) for name, each in asked.estimates.items()}
    return rates["ssd"] / rates[rival]


def test_a_menu_redraws_the_charts_at_another_point_of_the_grid(opened: Browser, made: Report) -> None:
    line = "document.querySelector('#speedup-b .plot').data.find((t) => t.meta === 'ssd/sd').y"
    band = "document.querySelector('#speedup-b .plot').data.find((t) => t.meta === 'band').visible"
    at_base = opened.evaluate(line)
    opened.evaluate("""(() => {
        const menu = document.querySelector('select[data-axis="k"]');
        menu.selectedIndex = 0;
        menu.dispatchEvent(new Event('change'));
    })()""")
    opened.wait_until(AT_K_3)
    expected = [ratio(predict(b=b, k=3, alpha=0.8), "sd") for b in GRID["b"]]
    assert opened.evaluate(line) == pytest.approx(expected, abs=0.0006)
    assert opened.evaluate(band) is False
    assert "k 3, alpha 0.8" in opened.evaluate("document.querySelector('#speedup-b .about').textContent")
    opened.evaluate("document.getElementById('to-base').click()")
    assert opened.evaluate(line) == at_base
    assert opened.evaluate("document.querySelector('#speedup-b h3').textContent") == made.figures[0].title


def test_a_figure_gives_its_data_as_a_table_and_a_file(opened: Browser, made: Report, tmp_path: Path) -> None:
    opened.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for each in made.figures:
        opened.evaluate(f"document.querySelector('#{each.key} summary').click()")
        opened.wait_until(f"document.querySelector('#{each.key} details table')", 10)
        cells = opened.evaluate(
            f"[...document.querySelectorAll('#{each.key} details tr')].map((row) => row.cells.length)"
        )
        assert cells == [len(each.table.columns)] * (len(each.table) + 1), each.key
    opened.evaluate("document.querySelector('#pareto .csv').click()")
    path, deadline = tmp_path / "pareto.csv", time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.read_text() == next(each.csv() for each in made.figures if each.key == "pareto")


def test_a_phone_needs_no_sideways_scrolling(opened: Browser, page: Path) -> None:
    opened.screen(360, 740)
    opened.open(page)
    assert opened.evaluate("document.documentElement.scrollWidth") == 360
    wide = """[...document.querySelectorAll('.plot .main-svg, h1, h3, p, figcaption, .card')]
        .filter((e) => e.getBoundingClientRect().right > 360).length"""
    assert opened.evaluate(wide) == 0
    cut = """[...document.querySelectorAll('.plot .legendtext, .plot .xtitle, .plot .xtick text, .plot .ytick text')]
        .filter((e) => { const b = e.getBoundingClientRect(); return b.left < 0 || b.right > 360; })
        .map((e) => e.textContent)"""
    assert opened.evaluate(cut) == []


def test_paper_is_light_and_the_screen_comes_back(opened: Browser, page: Path, tmp_path: Path) -> None:
    opened.screen(1200, 900, dark=True)
    opened.open(page)
    opened.evaluate("""window.onPaper = [];
        window.addEventListener('beforeprint', () => {
            window.onPaper = [...document.querySelectorAll('.plot:not(#sides .plot)')].map((p) => [p._fullLayout.width,
                p._fullLayout.font.color]);
        });""")
    opened.print_to_pdf(tmp_path / "report.pdf")
    on_paper = opened.evaluate("window.onPaper")
    assert len(on_paper) == len(KEYS)
    assert {(width, colour) for width, colour in on_paper} == {(680, LIGHT.ink)}
    assert opened.evaluate("document.documentElement.dataset.theme") == "dark"
    assert opened.evaluate("getComputedStyle(document.querySelector('.card')).breakInside") == "auto"
    opened.send("Emulation.setEmulatedMedia", media="print")
    assert opened.evaluate("getComputedStyle(document.querySelector('.card')).breakInside") == "avoid"
    opened.send("Emulation.setEmulatedMedia", media="")
    opened.wait_until("document.querySelector('#pareto .plot')._fullLayout.width > 900", 10)


def test_a_fourth_strategy_is_redrawn_too_and_fits_a_phone(browser: Browser, tmp_path: Path) -> None:
    strategies.ALL.register(Sleepy())
    try:
        options = {"strategies": ["ar", "sd", "ssd", "sleepy"], "t_sd": 0.2}
        report(write_run(tmp_path, options, {"b": [1, 4], "k": [3, 6]})).save(tmp_path / "report.html")
        expected = [ratio(predict(**options, b=b, k=3), "sleepy") for b in (1, 4)]
    finally:
        strategies.ALL.forget(Sleepy.name)
    browser.screen(360, 740)
    browser.open(tmp_path / "report.html")
    browser.evaluate("""(() => {
        const menu = document.querySelector('select[data-axis="k"]');
        menu.selectedIndex = 0;
        menu.dispatchEvent(new Event('change'));
    })()""")
    browser.wait_until(AT_K_3)
    line = "document.querySelector('#speedup-b .plot').data.find((t) => t.meta === 'ssd/sleepy').y"
    assert browser.evaluate(line) == pytest.approx(expected, abs=0.0006)
    assert browser.evaluate("document.documentElement.scrollWidth") == 360
    assert browser.problems == []


def test_a_name_of_a_file_is_shown_as_it_is(browser: Browser, tmp_path: Path) -> None:
    """Plotly makes links and styles of what names hold; the policy of a page stops no click."""
    report(write_linked(tmp_path / "run")).save(tmp_path / "report.html")
    with loaded(browser, tmp_path / "report.html", 1200, 900):
        texts = "[...document.querySelectorAll('.plot svg text')].map((text) => text.textContent)"
        assert LINKED in browser.evaluate(texts)
        assert browser.evaluate("document.querySelectorAll('.plot svg a').length") == 0
