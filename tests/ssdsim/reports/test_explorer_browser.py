"""The page of ssdsim explore in a real browser: sliders, sentence, figures, address, command, widths, themes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdsim.answers.predict import Prediction, predict
from ssdsim.base.intervals import quantiles
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
    """The page at K 6 and F 3, freshly loaded; afterwards nothing may have gone wrong or been asked of a network."""
    with loaded(browser, f"{page.as_uri()}#k=6&f=3", 1400, 1000):
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


def tick(browser: Browser, axis: str) -> None:
    browser.evaluate(f"document.getElementById('known-{axis}').click()")
    browser.wait_until("document.documentElement.dataset.followed === 'all'")


def answer(browser: Browser) -> Prediction:
    """What the page's command says when it is run."""
    command = shlex.split(text(browser, "#command"))
    assert command[:2] == ["ssdsim", "predict"]
    words = dict(zip(command[2::2], command[3::2], strict=True))
    ranges = words.pop("--ranges", "")
    options: dict[str, Any] = {flag[2:].replace("-", "_"): plain(word) for flag, word in words.items()}
    if ranges:
        of = [re.split("[=:]", each) for each in ranges.split(",")]
        options["ranges"] = [(name, float(low), float(high)) for name, low, high in of]
    assert asked(*command[1:], "--quiet").returncode == 0
    return predict(**options)


def plain(word: str) -> Any:
    return word.split(",") if "," in word else json.loads(word) if word[0].isdigit() else word


def holds(browser: Browser, within: float = 0.015) -> None:
    """The page shows what its command answers: the median of its draws, and the range of 80 of 100."""
    exact = answer(browser)
    assert exact.draws is not None
    shown = browser.evaluate("""[...document.querySelectorAll('table.strategies tbody tr')].map(
        (row) => [...row.cells].map((cell) => cell.textContent))""")
    for (_, rate, likely, *_), (name, each) in zip(shown, exact.estimates.items(), strict=True):
        draws = exact.draws[name]
        middle = float(each.tokens_per_second) * float(np.median(draws.joint / draws.timings))
        assert float(rate.replace(",", "")) == pytest.approx(middle, rel=within + 0.005)
        ends = [float(end.replace(",", "")) for end in likely.split(" to ")]
        assert ends == pytest.approx([float(end) for end in quantiles(draws.joint, 0.1, 0.9)], rel=within + 0.01)


def test_it_opens_at_the_verdict_of_predict(opened: Browser, made: Explorer) -> None:
    exact = predict(context=1024, k=6, f=3).verdict
    assert text(opened, ".verdict") == exact.sentence
    assert exact.sure.split(";")[0][1:] in text(opened, ".standing-line")
    assert "Not measured: alpha 0.79 (0.31 to 0.94)" in text(opened, ".standing-line")
    assert "--alpha" not in text(opened, "#command")
    holds(opened)
    opened.evaluate("document.getElementById('reset').click()")
    opened.wait_until("document.documentElement.dataset.followed === 'all'")
    assert text(opened, ".verdict") == made.sentence
    assert "--k" not in text(opened, "#command")  # each strategy at its own best


def test_a_slider_moves_its_own_doubt_and_ends_none(opened: Browser) -> None:
    """One slider that moved by 0.01 made acceptance and hits all given, and "Undecided" became "Yes"."""
    move(opened, "b", 1)
    _, before, likely, *_ = opened.evaluate("""[...document.querySelectorAll('table.strategies tbody tr')].map(
        (row) => [...row.cells].map((cell) => cell.textContent))[2]""")
    move(opened, "alpha", 0.8)
    assert text(opened, "#range-alpha") == "0.32 to 0.95"
    assert "Measured" not in text(opened, ".standing-line").replace("Not measured", "")
    _, after, moved, *_ = opened.evaluate("""[...document.querySelectorAll('table.strategies tbody tr')].map(
        (row) => [...row.cells].map((cell) => cell.textContent))[2]""")
    assert float(after) == pytest.approx(float(before), rel=0.05)
    for one, other in zip(likely.split(" to "), moved.split(" to "), strict=True):
        assert float(one.replace(",", "")) == pytest.approx(float(other.replace(",", "")), rel=0.06)
    holds(opened)


def test_a_tick_ends_the_doubt_of_its_input_alone_and_keeps_its_value(opened: Browser) -> None:
    """To take the tick back threw the slider's value away."""

    def width() -> float:
        likely = opened.evaluate("document.querySelector('table.strategies tbody tr:last-child').cells[2].textContent")
        low, high = (float(end.replace(",", "")) for end in likely.split(" to "))
        return high / low

    wide = width()
    move(opened, "alpha", 0.6)
    tick(opened, "alpha")
    assert text(opened, "#range-alpha") == ""
    assert text(opened, "#range-hit_c") == "0.05 to 1"
    assert "Measured: alpha 0.6." in text(opened, ".standing-line")
    assert "--alpha 0.6" in text(opened, "#command")
    assert "--hit-c" not in text(opened, "#command")
    assert width() < wide
    holds(opened)
    tick(opened, "alpha")
    assert text(opened, "#at-alpha-value") == "0.6"
    assert text(opened, "#range-alpha") == "0.3 to 0.75"  # the slider begins at 0.3
    holds(opened)
    for axis in ("alpha", "hit_c", "hit_r"):
        tick(opened, axis)
    assert "Not measured" not in text(opened, ".standing-line")
    holds(opened)


def test_between_stops_there_are_numbers_and_at_stops_the_sentence(opened: Browser) -> None:
    sentence = text(opened, ".verdict")
    move(opened, "alpha", 0.6)
    numbers = text(opened, ".verdict")
    assert re.fullmatch(
        r"SSD is [\d.]+x SD \(likely [\d.]+–[\d.]+, faster in \d+ of 100 draws\), [\d.]+x AR \(likely .*\)\.", numbers
    )
    move(opened, "alpha", 0.79)
    assert text(opened, ".verdict") == sentence


def test_each_strategy_has_a_best_k_of_its_own(opened: Browser) -> None:
    """Both were held at one K, which is a bad one for one of them."""
    rates: dict[str, list[float]] = {"SD": [], "SSD": []}
    for number in range(1, len(STOPS["k"]) + 1):
        choose(opened, "k", number)
        for name, each in rates.items():
            each.append(rate_of(opened, name))
    choose(opened, "k", 0)
    for name, each in rates.items():
        assert rate_of(opened, name) >= max(each) * 0.98
    assert " at K " in opened.evaluate("document.querySelector('table.strategies tbody tr:last-child th').textContent")


def choose(browser: Browser, axis: str, number: int) -> None:
    browser.evaluate(f"""(() => {{
        const menu = document.getElementById('at-{axis}');
        menu.selectedIndex = {number};
        menu.dispatchEvent(new Event('input'));
    }})()""")
    browser.wait_until("document.documentElement.dataset.followed === 'all'")


def rate_of(browser: Browser, title: str) -> float:
    shown = browser.evaluate(f"""[...document.querySelectorAll('table.strategies tbody tr')].find(
        (row) => row.cells[0].textContent.split(' ')[0] === {json.dumps(title)}).cells[1].textContent""")
    return float(shown.replace(",", ""))


def test_the_title_of_the_ratio_is_no_firmer_than_the_draws(opened: Browser) -> None:
    """It said "ahead at every batch" where the bands left it open."""
    sure = []
    move(opened, "alpha", 0.76)
    for stop in range(len(STOPS["b"])):
        move(opened, "b", stop)
        (faster,) = re.findall(r"x SD \(.*?faster in (\d+) of", text(opened, "#side-0 .verdict"))
        sure.append(int(faster) >= 95)
    title = text(opened, "#ratio-0 h3")
    assert title.startswith("SSD against SD: ")
    assert ("either may be faster" in title) == (not all(sure)), (sure, title)
    assert ("SSD is faster" in title) == any(sure), (sure, title)


def test_a_slider_moves_by_keyboard_and_all_follows(opened: Browser) -> None:
    before = text(opened, "#round-0 h3")
    opened.evaluate("document.getElementById('at-b').focus()")
    press(opened, "ArrowRight")
    assert text(opened, "#at-b-value") == "4"
    assert opened.evaluate("document.getElementById('at-b').getAttribute('aria-valuetext')") == "4"
    assert text(opened, ".verdict") == predict(b=4, k=6, f=3).verdict.sentence
    assert text(opened, "#round-0 h3") != before
    plot = "document.querySelector('#{}-0 .plot')"
    sizes = opened.evaluate(f"{plot.format('ratio')}.data.at(-1).marker.size")
    assert [size > 10 for size in sizes] == [False, True, False]
    estimates = predict(b=4, k=6, f=3).estimates
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
    assert not opened.evaluate("document.getElementById('known-alpha').checked")
    holds(opened)


@pytest.mark.parametrize(
    "state",
    [
        {"b": 1, "context": 1},
        {"alpha": 0.57, "hit_c": 0.66, "b": 2},
        {"alpha": 0.9, "b": 1},
        {"hit_c": 0.2},
    ],
)
def test_the_copied_command_says_what_the_page_says(opened: Browser, state: dict[str, Any]) -> None:
    for axis, value in state.items():
        move(opened, axis, value)
    holds(opened, 0.03)
    opened.evaluate("document.getElementById('copy').click()")
    opened.wait_until("document.getElementById('copy').textContent === 'copied'", 10)


def test_the_state_survives_a_reload_and_a_copied_address(opened: Browser, made: Explorer) -> None:
    move(opened, "b", 2)
    move(opened, "alpha", 0.65)
    tick(opened, "hit_r")
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
    assert list(answer(opened).estimates) == ["sd", "ssd"]
    opened.evaluate("document.getElementById('reset').click()")
    opened.wait_until("document.documentElement.dataset.followed === 'all'")
    assert opened.evaluate("location.hash") == ""
    assert text(opened, ".verdict") == made.sentence


def test_a_place_outside_of_the_grid_is_said(opened: Browser, page: Path) -> None:
    opened.send("Page.navigate", url="about:blank")
    opened.send("Page.navigate", url=page.as_uri() + "#b=5&alpha=0.99&nothing=1")
    opened.wait_until("location.hash && document.documentElement?.dataset.followed === 'all'")
    said = text(opened, "#notice")
    assert "batch size b (sequences) 5 is outside of this page's grid (1, 4, 16)" in said
    assert "acceptance rate α 0.99 is outside" in said
    assert "does not know nothing" in said
    assert "--b 4 " in text(opened, "#command")
    assert "--alpha 0.95" in text(opened, "#command")


def test_what_every_object_has_is_not_known_to_the_page(opened: Browser, page: Path) -> None:
    """Such an address stopped it."""
    opened.send("Page.navigate", url="about:blank")
    opened.send("Page.navigate", url=page.as_uri() + "#toString=1&__proto__=1&measured=toString,constructor&b=4")
    opened.wait_until("location.hash && document.documentElement?.dataset.followed === 'all'", 20)
    assert text(opened, "#notice") == "this page does not know toString; this page does not know __proto__"
    assert "--b 4 " in text(opened, "#command")


def test_a_price_counts_every_gpu(opened: Browser) -> None:
    opened.evaluate("""(() => { const price = document.getElementById('price');
        price.value = '2.5'; price.dispatchEvent(new Event('input')); })()""")
    shown = opened.evaluate("""[...document.querySelectorAll('table.strategies tbody tr')].map(
        (row) => Number(row.cells[6].textContent))""")
    per_gpu = opened.evaluate("""[...document.querySelectorAll('table.strategies tbody tr')].map(
        (row) => Number(row.cells[4].textContent))""")
    assert shown == pytest.approx([2.5 / 3600 * 1e6 / each for each in per_gpu], rel=0.01)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 768, 1400])
def test_it_fits_every_width_and_can_be_read_in_both_themes(opened: Browser, width: int, dark: bool) -> None:
    opened.screen(width, 900, dark=dark)
    opened.wait_until(f"document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'", 10)
    opened.wait_until("document.documentElement.dataset.followed === 'all'")
    opened.wait_until(f"document.documentElement.scrollWidth === {width}", 20)
    cut = opened.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
    )
    assert cut == []
    assert opened.evaluate(FAINT_TEXTS) == []


def test_on_a_phone_the_verdict_comes_before_the_controls(opened: Browser) -> None:
    top = "document.querySelector('{}').getBoundingClientRect().top"
    for width, first in ((390, True), (1400, False)):
        opened.screen(width, 844)
        opened.wait_until(f"document.documentElement.scrollWidth === {width}", 20)
        assert opened.evaluate(f"{top.format('.verdict')} < {top.format('#controls')}") == first


def test_what_fits_everywhere_is_said_once(opened: Browser) -> None:
    """It was "AR at every batch, SD at every batch, SSD at every batch"."""
    assert text(opened, "#memory-0 h3").startswith("Everything fits: the fullest GPU takes up to ")


def test_figures_and_controls_have_names(opened: Browser) -> None:
    unnamed = opened.evaluate("""[...document.querySelectorAll('input, select')].filter(
        (each) => !each.labels.length && !each.ariaLabel).map((each) => each.id)""")
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
    browser.open(f"{(tmp_path / 'two.html').as_uri()}#k=6")
    for number, hardware in enumerate(options["hardware"]):
        exact = predict(hardware=hardware, k=6, f=3, alpha=0.8, hit_c=0.4, hit_r=0.7).verdict.sentence
        assert text(browser, f"#side-{number} h2") == hardware
        assert text(browser, f"#side-{number} .verdict") == exact
    move(browser, "b", 1)
    exact = predict(hardware="b200-sxm", k=6, f=3, alpha=0.8, hit_c=0.4, hit_r=0.7, b=16).verdict.sentence
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
    choose(browser, "k", 1)
    exact = predict(b=16, k=3, alpha=0.8, hit_c=0.4, hit_r=0.7)
    assert text(browser, "#side-0 .verdict") == exact.verdict.sentence
    assert "--b 16 --k 3 --alpha 0.8" in text(browser, "#command")
    assert "k 3" in text(browser, "#speedup-b .about")
    assert browser.problems == []
