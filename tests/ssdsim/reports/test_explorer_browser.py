"""The page of ssdsim explore in a real browser: sliders, sentence, figures, address, command, widths, themes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssdsim.answers.predict import predict
from ssdsim.reports.build import report
from ssdsim.reports.explorer.build import Explorer, explore
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.reports.browser import CHROMIUM, Browser, loaded
from tests.ssdsim.reports.contrast import FAINT_TEXTS
from tests.ssdsim.reports.run_folders import write_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt install chromium)"),
]

STOPS: dict[str, Any] = {"b": [1, 4, 16], "k": [3, 6], "f": [3, 8], "context": [1024, 8192]}
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "End": 35, "Home": 36}


@pytest.fixture(scope="module")
def made() -> Explorer:
    return explore(**STOPS)


@pytest.fixture(scope="module")
def page(made: Explorer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "explore.html"
    made.save(path)
    return path


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    """The page, freshly loaded; afterwards nothing may have gone wrong or been asked of a network."""
    with loaded(browser, page, 1400, 1000):
        yield browser


def text(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))


def move(browser: Browser, axis: str, value: Any) -> None:
    """A slider or a menu as by hand, and wait until all has followed."""
    browser.evaluate(f"""(() => {{
        const input = document.getElementById('at-{axis}');
        input.value = {json.dumps(value)};
        input.dispatchEvent(new Event('input'));
    }})()""")
    browser.wait_until("document.documentElement.dataset.followed === 'all'")


def press(browser: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])
    browser.wait_until("document.documentElement.dataset.followed === 'all'")


def answer(browser: Browser) -> dict[str, Any]:
    """What the page's command says when it is run."""
    command = shlex.split(text(browser, "#command"))
    assert command[:2] == ["ssdsim", "predict"]
    found = asked(*command[1:], "--json")
    assert found.returncode == 0, found.stderr
    return dict(json.loads(found.stdout))


def holds(browser: Browser, within: float = 0.005) -> None:
    """The page shows what its command answers."""
    exact = answer(browser)
    shown = browser.evaluate("""[...document.querySelectorAll('table.strategies tbody tr')].map(
        (row) => [...row.cells].map((cell) => cell.textContent))""")
    for (_, rate, ends, *_), each in zip(shown, exact["strategies"].values(), strict=True):
        assert float(rate.replace(",", "")) == pytest.approx(each["tokens_per_second"], rel=within + 0.005)
        low, high = (float(end.replace(",", "")) for end in ends.split(" to "))
        assert (low, high) == pytest.approx((each["low"], each["high"]), rel=0.015)


def test_it_opens_at_the_verdict_of_predict(opened: Browser, made: Explorer) -> None:
    exact = predict(context=1024).verdict.sentence
    assert made.sentence == exact
    assert text(opened, ".verdict") == exact
    assert "assumed" in text(opened, ".standing-line")
    assert "--alpha" not in text(opened, "#command")
    holds(opened)


def test_the_title_of_the_ratio_is_no_firmer_than_the_verdict(opened: Browser) -> None:
    """It said "ahead at every batch" where the bands left it open."""
    said = []
    for stop in range(len(STOPS["b"])):
        move(opened, "b", stop)
        said.append(text(opened, "#side-0 .verdict").split()[0].rstrip(":"))
    title = text(opened, "#ratio-0 h3")
    assert title.startswith("SSD against SD: ")
    assert ("undecided" in title) == ("Undecided" in said), (said, title)
    assert ("SSD is faster" in title) == ("Yes" in said), (said, title)


def test_a_slider_moves_by_keyboard_and_all_follows(opened: Browser) -> None:
    before = text(opened, "#round-0 h3")
    opened.evaluate("document.getElementById('at-b').focus()")
    press(opened, "ArrowRight")
    assert text(opened, "#at-b-value") == "4"
    assert opened.evaluate("document.getElementById('at-b').getAttribute('aria-valuetext')") == "4"
    assert text(opened, ".verdict") == predict(b=4).verdict.sentence
    assert text(opened, "#round-0 h3") != before
    plot = "document.querySelector('#{}-0 .plot')"
    sizes = opened.evaluate(f"{plot.format('ratio')}.data.at(-1).marker.size")
    assert [size > 10 for size in sizes] == [False, True, False]
    bars = opened.evaluate(f"{plot.format('rates')}.data[0].x")
    estimates = predict(b=4).estimates
    assert bars == pytest.approx([float(each.per_user) for each in estimates.values()], rel=1e-4)
    parts = opened.evaluate(f"{plot.format('round')}.data.map((trace) => trace.x)")
    assert sum(part[2] for part in parts) == pytest.approx(1e3 * float(estimates["ssd"].round_s), rel=1e-3)
    press(opened, "End")
    assert text(opened, "#at-b-value") == "16"
    holds(opened)


def test_a_slider_moves_by_mouse(opened: Browser) -> None:
    x, y, width = opened.evaluate("""(() => {
        const box = document.getElementById('at-alpha').getBoundingClientRect();
        return [box.x, box.y + box.height / 2, box.width];
    })()""")
    opened.click(x + 0.5 * width, y)
    opened.wait_until("document.documentElement.dataset.followed === 'all' && location.hash.includes('alpha')", 10)
    assert float(text(opened, "#at-alpha-value")) == pytest.approx(0.625, abs=0.02)
    assert opened.evaluate("document.getElementById('measured').checked")
    assert "if acceptance" not in text(opened, ".verdict")
    holds(opened)


@pytest.mark.parametrize(
    "state",
    [
        {"k": 0, "f": 1, "context": 1},
        {"alpha": 0.57, "hit_c": 0.66, "b": 2},
        {"backup": "fast", "alpha": 0.9, "b": 1},
        {"backup": "jit", "hit_c": 0.2},
    ],
)
def test_the_copied_command_says_what_the_page_says(opened: Browser, state: dict[str, Any]) -> None:
    for axis, value in state.items():
        move(opened, axis, value)
    holds(opened)
    said, exact = text(opened, ".verdict"), answer(opened)["verdict"]["sentence"]
    assert said.split(":")[0] == exact.split(":")[0]
    opened.evaluate("document.getElementById('copy').click()")
    opened.wait_until("document.getElementById('copy').textContent === 'copied'", 10)


def test_the_state_survives_a_reload_and_a_copied_address(opened: Browser, page: Path) -> None:
    move(opened, "b", 2)
    move(opened, "alpha", 0.65)
    opened.evaluate("document.querySelector('[data-strategy=ar]').click()")
    opened.wait_until("document.documentElement.dataset.followed === 'all'")
    address, sentence, command = opened.evaluate("location.href"), text(opened, ".verdict"), text(opened, "#command")
    for reopen in ("Page.reload", "Page.navigate"):
        opened.send("Page.navigate", url="about:blank")
        opened.send("Page.navigate", url=address)
        opened.wait_until("document.documentElement?.dataset.followed === 'all'")
        if reopen == "Page.reload":
            opened.send(reopen)
        opened.wait_until("document.documentElement?.dataset.followed === 'all'")
        assert (text(opened, ".verdict"), text(opened, "#command")) == (sentence, command)
    assert "--strategies sd,ssd" in command
    assert list(answer(opened)["strategies"]) == ["sd", "ssd"]
    opened.evaluate("document.getElementById('reset').click()")
    opened.wait_until("document.documentElement.dataset.followed === 'all'")
    assert opened.evaluate("location.hash") == ""
    assert text(opened, ".verdict") == predict().verdict.sentence


def test_a_place_outside_of_the_grid_is_said(opened: Browser, page: Path) -> None:
    opened.send("Page.navigate", url="about:blank")
    opened.send("Page.navigate", url=page.as_uri() + "#b=5&alpha=0.99&nothing=1")
    opened.wait_until("location.hash && document.documentElement?.dataset.followed === 'all'")
    said = text(opened, "#notice")
    assert "batch size b (sequences) 5 is outside of this page's grid (1, 4, 16)" in said
    assert "acceptance rate α 0.99 is outside" in said
    assert "does not know nothing" in said
    assert "--b 4 " in text(opened, "#command")
    assert "--alpha 0.95" in text(opened, "#command")  # a rate in the address is given


def test_a_price_counts_every_gpu(opened: Browser) -> None:
    opened.evaluate("""(() => { const price = document.getElementById('price');
        price.value = '2.5'; price.dispatchEvent(new Event('input')); })()""")
    shown = opened.evaluate("""[...document.querySelectorAll('table.strategies tbody tr')].map(
        (row) => Number(row.cells[6].textContent))""")
    exact = [2.5 / 3600 * 1e6 / float(each.per_gpu) for each in predict().estimates.values()]
    assert shown == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 768, 1400])
def test_it_fits_every_width_and_can_be_read_in_both_themes(opened: Browser, width: int, dark: bool) -> None:
    opened.screen(width, 900, dark=dark)
    opened.wait_until(f"document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'", 10)
    opened.wait_until("document.documentElement.dataset.followed === 'all'")
    opened.wait_until(f"document.documentElement.scrollWidth === {width}", 20)
    assert opened.evaluate(FAINT_TEXTS) == []


def test_figures_and_controls_have_names(opened: Browser) -> None:
    unnamed = opened.evaluate("""[...document.querySelectorAll('input, select')].filter(
        (each) => !each.labels.length).map((each) => each.id)""")
    assert unnamed == []
    plots = opened.evaluate("""[...document.querySelectorAll('.plot')].map(
        (plot) => [plot.getAttribute('role'), plot.getAttribute('aria-label'),
            plot.closest('figure').querySelector('h3').textContent])""")
    assert len(plots) == 5
    for role, label, title in plots:
        assert role == "img"
        assert label == title != ""
    scopes = opened.evaluate("[...document.querySelectorAll('table th')].map((each) => each.scope)")
    assert set(scopes) == {"col", "row"}
    assert opened.evaluate("[...document.querySelectorAll('table')].filter((each) => !each.caption).length") == 0


def test_no_request_leaves_the_page(opened: Browser) -> None:
    refused = opened.evaluate("fetch('https://example.org/').then(() => 'answered', () => 'refused')")
    assert refused == "refused"
    assert any("Content Security Policy" in problem for problem in opened.problems)
    opened.problems.clear()
    opened.requests.clear()


def test_two_profiles_stand_side_by_side(browser: Browser, tmp_path: Path) -> None:
    options: dict[str, Any] = {"hardware": ["h100-sxm", "b200-sxm"], "b": [1, 16], "k": [3, 6], "f": [3], "alpha": 0.8}
    explore(hit_c=[0.4], hit_r=0.7, context=[1024], **options).save(tmp_path / "two.html")
    browser.problems.clear()
    browser.screen(1400, 900)
    browser.open(tmp_path / "two.html")
    for number, hardware in enumerate(options["hardware"]):
        exact = predict(hardware=hardware, alpha=0.8, hit_c=0.4, hit_r=0.7).verdict.sentence
        assert text(browser, f"#side-{number} h2") == hardware
        assert text(browser, f"#side-{number} .verdict") == exact
    move(browser, "b", 1)
    exact = predict(hardware="b200-sxm", alpha=0.8, hit_c=0.4, hit_r=0.7, b=16).verdict.sentence
    assert text(browser, "#side-1 .verdict") == exact
    assert browser.evaluate("document.documentElement.scrollWidth") == 1400
    assert browser.problems == []


def test_the_report_of_a_sweep_follows_its_menus(browser: Browser, tmp_path: Path) -> None:
    made = report(
        write_run(tmp_path / "run", {"hit_c": 0.4, "hit_r": 0.7}, {"b": [1, 16], "k": [3, 6], "alpha": [0.7, 0.8]})
    )
    made.save(tmp_path / "report.html")
    browser.problems.clear()
    browser.screen(1400, 900)
    browser.open(tmp_path / "report.html")
    browser.wait_until("document.documentElement.dataset.followed === 'all'")
    assert text(browser, "#side-0 .verdict") == made.sentence
    assert "ssdsim sweep --hit-c 0.4 --hit-r 0.7 --b 1,16 --k 3,6 --alpha 0.7,0.8" in text(browser, "header")
    assert text(browser, "main h2") == "At b 1, K 6, alpha 0.8"
    stays = "stays at these values wherever the controls stand, but for the speedups over b, k and alpha, which follow"
    assert stays in text(browser, ".base")
    move(browser, "b", 1)
    move(browser, "k", 0)
    exact = predict(b=16, k=3, alpha=0.8, hit_c=0.4, hit_r=0.7)
    assert text(browser, "#side-0 .verdict") == exact.verdict.sentence
    assert "--b 16 --k 3 --alpha 0.8" in text(browser, "#command")
    assert "k 3" in text(browser, "#speedup-b .about")
    shown = browser.evaluate("document.querySelector('#rates-0 .plot').data[0].x")
    assert shown == pytest.approx([float(each.per_user) for each in exact.estimates.values()], rel=1e-4)
    assert browser.problems == []
