"""Options and answers are typed for those who call ssdsim from Python: an editor and mypy know both."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ssdsim
from site_generator import typed_options
from site_generator.shown import PROJECT

PROGRAM = """
import ssdsim

found = ssdsim.predict(b=16, p_hit=0.85, alpha="0.75:0.85", backup="fast", strategies=["sd", "ssd"])
reveal_type(found)
reveal_type(found.verdict.over["sd"].ratio)
reveal_type(ssdsim.recommend(gpus=8, b=[1, 64], k=range(1, 9)).focus)
reveal_type(ssdsim.serve(rate=[2.0, 4.0], solver="closed", slo="ttft:500", p_hit=0.9).verdict)
ssdsim.sweep(b=[1, 16], alpha=[0.7, 0.8], hit_curve=[(1, 0.6), (2, 0.7)])
reveal_type(ssdsim.explore(b=[1, 16], hardware="h100-sxm").errors)
"""
WRONG = {
    "ssdsim.predict(bach=16)": "Unexpected keyword",
    'ssdsim.predict(k="six")': "incompatible type",
    'ssdsim.predict(backup="quick")': "incompatible type",
    "ssdsim.predict(b=[1, 16])": "incompatible type",
    "ssdsim.predict(p_hit=0.9).verdict.over.ratio": "has no attribute",
    "ssdsim.serve(rate=4.0, b=16)": "Unexpected keyword",
    "ssdsim.explore(bach=[1, 16])": "Unexpected keyword",
    'ssdsim.explore(k="six")': "incompatible type",
    "ssdsim.predicted()": "has no attribute",
}


UNREAD = (
    "anyio click dask distributed httpcore2 httpx2 huggingface_hub jinja2 joblib pandas plotly pyarrow rich "
    "scipy simpy tokenizers torch transformers"
)
"""What no option's type and no answer's, asked for below, is made of: five of six files that mypy would read."""


def typed_sources(folder: Path) -> Path:
    """The sources, with types made of today's option records."""
    for package in ("ssdsim", "calibration"):
        shutil.copytree(PROJECT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.pyi"))
    typed_options.write(folder)
    return folder


@pytest.mark.long
def test_mypy_knows_options_and_answers_in_a_users_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(WRONG) + "\n")
    unread = ",".join(f"{name}.*" for name in UNREAD.split())
    settings = tmp_path / "mypy.ini"
    sections = ("mypy", "strict"), ("mypy-ssdsim.*,calibration.*", "ignore_errors")  # whose bodies are not read then
    read = "".join(f"[{name}]\n{option} = True\n" for name, option in sections)
    settings.write_text(f"{read}[mypy-{unread}]\nfollow_imports = skip\n")
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(tmp_path), str(program)]
    said = subprocess.run(mypy, capture_output=True, text=True, cwd=typed_sources(tmp_path), check=False).stdout
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    assert [re.sub(r"ssdsim\.[\w.]*\.|builtins\.", "", each) for each in revealed] == [
        "Prediction",
        "float",
        "int | None",
        "Advice",
        "tuple[Error, ...]",
    ]
    first = len(PROGRAM.splitlines()) + 1
    errors = dict(re.findall(r"^.*program\.py:(\d+): error: (.*)$", said, flags=re.MULTILINE))
    assert set(errors) == {str(line) for line in range(first, first + len(WRONG))}, said
    for line, expected in enumerate(WRONG.values(), first):
        assert expected in errors[str(line)]


def test_every_option_has_a_type() -> None:
    assert (PROJECT / "ssdsim/py.typed").is_file()
    for option in typed_options.ALL.values():
        assert typed_options.annotation(option)


def test_an_answer_shows_itself_at_the_prompt_and_in_a_notebook() -> None:
    predict = ssdsim.predict(t_sd=0.2, alpha=0.9, k=5, p_hit=0.85)
    title, header, *rows = repr(predict).splitlines()
    assert title == "Unit-free (T_v = 1): T_SD 0.2, T_p 0.2, T_b 0.2; batch 1, K 5, alpha 0.9, jit backup"
    assert header.split()[:2] == ["tokens/T_v", "per"]
    assert [row.split()[0] for row in rows[:3]] == ["AR", "SD", "SSD"]
    assert rows[3].startswith("SSD is the fastest")
    page = predict._repr_html_()
    assert page.startswith("<table>")
    assert "<td>SSD</td><td>4.549</td>" in page
    plan = ssdsim.schedule(b=[1, 16], k=[2, 6], f=3)
    assert [line.split()[2] for line in repr(plan).splitlines()[2:]] == ["SSD", "SSD"]


@pytest.mark.long
def test_every_answer_shows_itself_on_one_screen() -> None:
    """A configuration had a million characters of its profile's coefficients."""
    configuration = ssdsim.configure(b=16, p_hit=0.85)
    scenario = configuration.scenarios["ssd"]
    answers = (
        configuration,
        scenario,
        ssdsim.predict(b=16, p_hit=0.85).verdict,
        ssdsim.simulate(scenario, rounds=20, solver="mc"),
        ssdsim.export("vllm", b=[1, 64], k=[2, 4], f=3, alpha=0.9),
        ssdsim.export("json", b=[1, 64], k=[2, 4], f=3, alpha=0.9),
        ssdsim.serve(rate=2.0, solver="closed", p_hit=0.9),
        ssdsim.find_hardware("h100-sxm"),
    )
    for answer in answers:
        assert len(repr(answer)) < 1500, type(answer)
        assert len(repr(answer).splitlines()) <= 16, type(answer)
        assert answer._repr_html_().startswith(("<table>", "<pre>"))
    assert repr(configuration).splitlines()[-1].split() == ["SSD", "5"]
