"""Blocks of the gallery are run, and figures with sliders hold what ssdsim's functions say."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from site_generator.gallery import gallery, of_commands, of_python
from site_generator.touch import touched
from site_generator.touch.fan_out import fan_out
from site_generator.touch.window import window
from ssdsim.answers.predict import predict
from ssdsim.base.errors import InputError
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.hit_models import PowerLawHits, geometric_fan_out, hit_rate

pytestmark = pytest.mark.long


def test_a_block_of_commands_is_run_and_its_figure_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = (
        "ssdsim sweep --t-sd 0.2 --p-hit 0.85 --b 1,8 \\\n  -o run\nssdsim report run --figure all-hit -o all-hit.svg\n"
    )
    page = gallery(f"# Page\n\n## Hits\n\n```sh\n{block}```\n\nThe end.\n", "")
    assert (
        page.index("ssdsim report run")
        < page.index("figure-says")
        < page.index('class="figure"')
        < page.index("The end")
    )
    assert "All sequences of SSD hit in 85% of rounds at batch 1" in page
    assert "plotly.min.js" in page


def test_python_ends_in_its_figure() -> None:
    plot = of_python("from ssdsim import figures, predict\nfigures.figure(predict(t_sd=0.3, p_hit=0.9), 'all-hit')\n")
    assert plot.data[-1].name == "SSD"
    with pytest.raises(InputError, match="must end in a figure"):
        of_python("x = 1\n")


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("ssdsim sweep --b 0 -o run\nssdsim report run --figure pareto\n", "--b must be a whole number of at least 1"),
        ("ssdsim sweep --t-sd 0.2 --b 1,2 -o run\nssdsim report run\n", "must end in ssdsim report RUN --figure NAME"),
    ],
)
def test_a_block_that_fails_stops_the_build(
    block: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=re.escape(message)):
        of_commands(block)


def test_a_mark_becomes_sliders_and_a_figure() -> None:
    page = touched("before\n\n[touch: all-hit]\n\nafter\n", "../")
    assert "before" in page
    assert page.count('type="range"') == 3
    assert 'aria-live="polite"' in page
    assert '<script src="../assets/touch.js">' in page


def test_every_position_has_its_sentence_and_points() -> None:
    slides = fan_out()
    matched = re.search(r'<script type="application/json">(.*)</script>', slides.html("fan-out"))
    assert matched is not None
    data = json.loads(matched.group(1))
    places = 1
    for slider in slides.sliders:
        places *= len(slider.values)
    assert len(data["frames"]) == len(data["sentences"]) == places
    h = PowerLawHits(c=0.4, r=1.5)
    shape = geometric_fan_out(64, 7, 0.95, 1.5, h)
    assert data["frames"][-1][1]["y"] == list(map(int, shape))  # the last of every slider
    assert f"hits in {hit_rate(shape, accepted_length_pmf(0.95, 7), h):.1%}" in data["sentences"][-1]


def test_the_window_says_whether_drafting_is_hidden() -> None:
    draw = window().draw
    for k, f, b in ((6, 4, 4), (12, 32, 64)):
        _, said = draw(float(k), float(f), float(b))
        breakdown = predict(k=k, f=f, b=b, backup="fast").estimates["ssd"].breakdown_s
        waits = re.search(r"waits ([\d.]+) ms", unescape(said))
        assert (waits is not None) == (breakdown["draft"] > 0.0), said
