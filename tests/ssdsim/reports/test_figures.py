"""One figure at a time: the same from a page, the command and Python, and in a form that a grey copy keeps."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ssdsim
from ssdsim import figures
from ssdsim.base.errors import InputError
from ssdsim.base.extras import install
from ssdsim.reports.build import report
from ssdsim.reports.drawers import drawers, one_figure
from ssdsim.reports.figure import KINDS, bare
from ssdsim.reports.serving import AUTO_COLOUR, mark_crossings
from ssdsim.reports.study import Study
from ssdsim.reports.style import PALETTE, log_ticks
from ssdsim.reports.theme import DARK, LIGHT, Theme, for_print, height_for_print
from ssdsim.runs.report_folder import RunFolder, read_run_folder
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.reports.run_folders import LINKED, write_measurements, write_run

pytestmark = pytest.mark.long

PAIR = str(Path(__file__).parents[3] / "models" / "pairs" / "smollm2-135m-20-layers.json")
FREE = {"t_sd": 0.3, "t_p": 0.7, "p_hit": 0.85}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_run(tmp_path_factory.mktemp("run"), dict(FREE), {"b": [1, 4, 16], "k": [3, 6]})
    write_measurements(made)
    return made


def test_a_page_and_python_draw_the_very_same(folder: Path) -> None:
    for each in report(folder).figures:
        alone = figures.figure(folder, each.key)
        assert alone.data == each.plot.data, each.key


def test_a_prediction_is_an_answer_as_its_folder_is(tmp_path: Path) -> None:
    options = {"t_sd": 0.2, "b": 4, "f": 2}
    of_folder = figures.figure(write_run(tmp_path, options, {}), "all-hit")
    assert figures.figure(ssdsim.predict(**options), "all-hit").data == of_folder.data


def test_a_word_that_was_given_is_kept() -> None:
    """``window`` and ``auto`` are settled by a prediction; the figure asks again with the word."""
    given = {"f": "window", "backup": "auto", "b": 2}
    assert ssdsim.predict(**given).configuration.given_options == given


def test_a_prediction_draws_the_figures_of_its_hardware() -> None:
    answer = ssdsim.predict(b=2, target="llama-3.1-8b", tp=1)
    for name in ("boundary", "hit-rate", "all-hit", "roofline", "timeline", "pareto", "speedup-alpha", "fallback"):
        assert figures.figure(answer, name).data, name


def test_an_answer_of_serve_is_checked() -> None:
    with pytest.raises(InputError, match="the answer: "):
        figures.figure({"points": 3}, "serving-tpot")


@given(name=st.text(st.characters(codec="utf-8")).filter(lambda text: not re.search("<br>|</?(extra|sup)>", text)))
@example(LINKED)
@example('\\<a href="x">\\u003ca href="x">')
def test_a_name_is_text_in_a_plot(name: str) -> None:
    """Plotly reads <a>, <b>, <span> and entities in all that it writes; hover labels are made of <br> and <extra>."""
    hover = f"{name}<br>%{{y}}<extra>{name}</extra>"
    plot = go.Figure(go.Scatter(x=[name], text=[name], name=name, hovertemplate=hover), {"title": {"text": name}})
    drawn = bare(plot)
    (trace,), title = drawn["data"], drawn["layout"]["title"]["text"]
    for each in (trace["x"][0], trace["text"][0], trace["name"], title):
        assert re.search("<[^=]", each) is None
        assert each.replace("&lt;", "<").replace("&amp;", "&") == name
    assert re.search("<[^=]", re.sub("<br>|</?(extra|sup)>", "", trace["hovertemplate"])) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("speedup-bb", "there is no figure 'speedup-bb'; did you mean 'speedup-b'? This run may have: speedup-b, "),
        ("roofline", "this run has no figure 'roofline': unit-free: no hardware, so no roofs"),
        ("verification", "this run has no figure 'verification': it does not concern this run"),
        ("cache-shapes", "this run has no figure 'cache-shapes': it does not concern this run"),
        ("hit-rate", "this run has no figure 'hit-rate': --p-hit gives the hit rate"),
    ],
)
def test_a_figure_that_is_not_there_says_why(folder: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        figures.figure(folder, name)


def test_no_other_figure_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    named = dict(drawers(Study(RunFolder(Path(), FREE))))
    for name in set(named) - {"all-hit"}:
        monkeypatch.setitem(named, name, pytest.fail)
    assert one_figure(named, "all-hit").key == "all-hit"


# what they show


def test_the_boundary_is_that_of_the_sweep(folder: Path) -> None:
    figure = one_figure(drawers(Study(found_in(folder))), "boundary")
    results = pd.read_parquet(folder / "results.parquet")
    table = figure.table.merge(results, on=["b", "k"])
    assert len(table) == 6
    assert table["SSD / SD"].tolist() == pytest.approx(table["ssd_over_sd"].tolist(), rel=1e-12)
    assert "at every point" in figure.title


def test_where_the_rival_wins_the_boundary_says_so() -> None:
    figure = one_figure(drawers(Study(RunFolder(Path(), {"target": "llama-3.1-8b", "tp": 1}))), "boundary")
    lost = figure.table["SSD / SD"] < 1.0
    assert 0.0 < lost.mean() < 1.0
    assert f"at {1 - lost.mean():.0%} of the points" in figure.title
    contours = (trace for trace in figure.plot.data if trace.type == "contour")
    shaded = {trace.name: trace.contours.operation for trace in contours if trace.contours.operation}
    assert set(shaded) == {"SSD is predicted faster", "SD is predicted faster"}


def test_all_hit_is_the_power_of_the_hit_rate(folder: Path) -> None:
    table = one_figure(drawers(Study(found_in(folder))), "all-hit").table.set_index("b")
    assert table.loc[8, "SSD: all hit"] == pytest.approx(0.85**8)
    assert table.loc[16, "SSD: one hits"] == pytest.approx(0.85)


def test_shapes_of_the_cache_are_those_of_predictions() -> None:
    options: dict[str, Any] = {"t_sd": 0.3, "pair": PAIR, "temperature": 1.0, "f": 3, "backup": "jit"}
    table = one_figure(drawers(Study(RunFolder(Path(), options))), "cache-shapes").table
    at = table.set_index(["temperature", "policy"])
    assert set(table["temperature"]) == {0.0, 0.7, 1.0}
    for policy in ("uniform", "optimal"):
        expected = ssdsim.predict(**{**options, "temperature": 0.7, "fan_out_policy": policy})
        assert at.loc[(0.7, policy), "hit rate"] == pytest.approx(expected.estimates["ssd"].p_hit)
        assert at.loc[(0.7, policy), "speedup"] == pytest.approx(expected.verdict.over["ar"].ratio)


def test_the_window_is_over_one_option() -> None:
    frame = ssdsim.window(k=[2, 4])
    passes = next(trace for trace in figures.figure(frame, "window").data if trace.name.startswith("draft passes"))
    assert list(passes.y) == frame["passes"].tolist()
    for several in (ssdsim.window(k=[2, 4], b=[1, 2]), ssdsim.window(k=2)):
        with pytest.raises(InputError, match="over one option"):
            figures.figure(several, "window")


def test_a_figure_of_another_answer_is_named() -> None:
    with refused("windows", "window"):
        figures.figure(ssdsim.window(k=[2, 4]), "windows")


def test_marks_of_two_crossings_do_not_overlap() -> None:
    crossings = [
        {"rate": rate, "over": "sd", "basis": basis, "low": None} for rate, basis in ((9, "gpu"), (10, "replica"))
    ]
    plot = go.Figure()
    mark_crossings(plot, {"crossings": crossings, "replicas": 1})
    first, second = plot.layout.annotations
    assert {(first.y, first.yanchor), (second.y, second.yanchor)} == {(1.0, "top"), (0.0, "bottom")}


@pytest.mark.parametrize(("low", "high"), [(11.0, 18.0), (3.4, 27.0), (30.0, 2300.0), (0.02, 900.0)])
def test_a_logarithmic_axis_has_ticks_that_can_be_read(low: float, high: float) -> None:
    inside = [tick for tick in log_ticks([low, high, 0.0, float("nan")]) if low <= tick <= high]
    assert 2 <= len(inside) <= 8


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_lines_stand_out_on_both_themes(theme: Theme) -> None:
    """WCAG asks 3 of what is drawn."""
    for colour in (*PALETTE, AUTO_COLOUR):
        low, high = sorted((luminance(colour), luminance(theme.card)))
        assert (high + 0.05) / (low + 0.05) >= 2.9, colour


# files


def found_in(folder: Path) -> RunFolder:
    return read_run_folder(folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "fig.svg"], "fig.svg: a report is a page (.html); one figure of it is written by --figure NAME"),
        (["--figure", "pareto", "-o", "fig.html"], "fig.html: a figure is written as .svg, .pdf, .png"),
        (["--figure", "pareto", "-o", "fig"], "fig: a figure is written as .svg, .pdf, .png"),
        (["--columns", "2"], "--columns has no effect without --figure"),
    ],
)
def test_a_wrong_ending_is_refused(folder: Path, words: list[str], message: str) -> None:
    done = asked("report", str(folder), *words)
    assert done.returncode == 2
    assert done.stderr == f"error: {message}\n"


def test_what_a_file_needs_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssdsim.reports.figure.find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape(install("figures"))) as caught:
        figures.save(go.Figure(layout={"height": 300}), tmp_path / "x.svg")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_without_a_browser_the_same_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import kaleido
    from choreographer.errors import ChromeNotFoundError

    def none(*words: object, **more: object) -> bytes:
        raise ChromeNotFoundError

    monkeypatch.setattr(kaleido, "calc_fig_sync", none)
    with pytest.raises(InputError, match="apt install chromium"):
        figures.save(go.Figure(layout={"height": 300}), tmp_path / "x.svg")


@pytest.mark.skipif(not find_spec("kaleido"), reason="no exporter here (pip install 'ssdsim[figures]')")
def test_a_browser_that_ends_is_one_line(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was said to be missing, after a line of its own."""
    browser = tmp_path / "browser"
    browser.write_text("#!/bin/sh\nexit 1\n")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER_PATH", str(browser))
    done = asked("report", str(folder), "--figure", "speedup-k", "-o", str(tmp_path / "x.svg"))
    assert done.returncode == 2
    assert re.fullmatch("error: the browser ended before it drew the figure: .*\n", done.stderr)


# print


def drawn(name: str, answer: Any) -> go.Figure:
    return for_print(figures.figure(answer, name), 1)


@pytest.fixture(scope="module")
def many(folder: Path) -> dict[str, go.Figure]:
    """Figures of several answers, laid out for print."""
    priced = ssdsim.predict(b=4, target="llama-3.1-8b", tp=1, strategies=("ar", "sd", "ssd", "pearl"))
    of_pair = ssdsim.predict(t_sd=0.3, pair=PAIR, temperature=1.0, f=3)
    names = {
        "speedup-b": priced, "fallback": priced, "all-hit": priced, "roofline": priced, "pareto": priced,
        "validation": folder, "hit-rate": priced, "pair-hits": of_pair, "cache-shapes": of_pair,
    }  # fmt: skip
    return {name: drawn(name, answer) for name, answer in names.items()}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def lightness(colour: str) -> float:
    """CIE L*: how light a grey copy shows it."""
    y = luminance(colour)
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


def looks(trace: Any) -> tuple[Any, ...]:
    """What a grey copy keeps of a trace but for its lightness."""
    symbol = trace.marker.symbol if trace.mode and "markers" in trace.mode else None
    dash = trace.line.dash or "solid" if trace.mode and "lines" in trace.mode else None
    return (tuple(symbol) if isinstance(symbol, tuple | list) else symbol, dash, trace.marker.size)


def test_a_grey_copy_tells_every_line_apart(many: dict[str, go.Figure]) -> None:
    for name, plot in many.items():
        lines = [trace for trace in plot.data if trace.type == "scatter" and trace.fill is None and trace.name]
        by_group = {(trace.legendgroup or trace.name): trace for trace in lines}
        for one, other in combinations(by_group.values(), 2):
            colours = [trace.line.color or trace.marker.color for trace in (one, other)]
            apart = (
                all(isinstance(c, str) for c in colours) and abs(lightness(colours[0]) - lightness(colours[1])) >= 15
            )
            assert looks(one) != looks(other) or apart, (name, one.name, other.name)


def test_strategies_of_the_paper_differ_in_lightness(many: dict[str, go.Figure]) -> None:
    colours = {trace.name: trace.line.color for trace in many["speedup-b"].data if trace.name}
    assert abs(lightness(colours["SSD / SD"]) - lightness(colours["SD / AR"])) >= 15


def test_type_and_widths_are_those_of_a_paper(many: dict[str, go.Figure]) -> None:
    plot = many["speedup-b"]
    assert plot.layout.template.layout.font.size * 2 / 3 * 0.75 == pytest.approx(8.0, abs=0.05)  # points
    assert plot.layout.width * 2 / 3 / 96 * 25.4 == pytest.approx(85, abs=0.3)  # mm
    assert for_print(plot, 2).layout.width * 2 / 3 / 96 * 25.4 == pytest.approx(178, abs=0.3)
    assert plot.layout.template.layout.paper_bgcolor == "#ffffff"
    assert height_for_print(many["pair-hits"], 1) > many["pair-hits"].layout.height - 200


@pytest.mark.browser
@pytest.mark.skipif(not find_spec("kaleido"), reason="no exporter here (pip install 'ssdsim[figures]')")
def test_svg_pdf_and_png_are_really_made(folder: Path, tmp_path: Path) -> None:
    svg, pdf, png = (tmp_path / f"figure.{kind}" for kind in KINDS)
    assert asked("report", str(folder), "--figure", "all-hit", "-o", str(svg)).returncode == 0
    text = svg.read_text()
    assert 'width="321' in text  # 85 mm
    assert "P(all hit)" in text
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", text)
    done = asked("report", str(folder), "--figure", "timeline", "-o", str(pdf), "--json")
    assert json.loads(done.stdout)["figures"][0]["key"] == "timeline"
    width, height = re.search(rb"MediaBox ?\[ ?0 0 ([\d.]+) ([\d.]+)", pdf.read_bytes()).groups()  # type: ignore[union-attr]
    assert float(width) == pytest.approx(178 / 25.4 * 72, abs=1)  # wide: two columns
    assert float(height) > 100
    figures.save(figures.figure(folder, "all-hit"), png)
    content = png.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(content[16:20], "big") == pytest.approx(85 / 25.4 * 300, abs=2)
