"""One road from options to an answer: each step once, what was read known by reading, newcomers known by every verb."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ssdsim import compare, configure, evaluate, predict, roofline, strategies, window
from ssdsim.base.kinds import SHARE
from ssdsim.base.option import Group, Option
from ssdsim.question import checked_options as checks
from ssdsim.question import place, price
from ssdsim.question.options import ALL
from ssdsim.question.question import Question
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked as command
from tests.ssdsim.strategies.wary import Wary

GUESSED = Option(
    name="guessed",
    kind=SHARE,
    default=0.5,
    about="P(the newcomer's guess is right)",
    axis="hit rate of the newcomer",
    groups=(Group.ACCEPTANCE,),
    plausible=(0.2, 0.7),
)


class Guesser(Wary):
    """A newcomer whose rounds rest on a hit rate of its own."""

    name = "guesser"
    title = "Guesser"
    options = (*Wary.options, GUESSED)

    def kernel(self, settings: Any, drafter: Any) -> Any:
        settings.settle("alpha", settings["guessed"], "its own")
        return super().kernel(settings, drafter)


@pytest.fixture
def guesser() -> Iterator[Guesser]:
    try:
        yield strategies.ALL.register(Guesser())
    finally:
        strategies.ALL.forget("guesser")


def test_each_step_is_taken_once() -> None:
    held: dict[str, Any] = {"b": 16, "k": 6, "p_hit": 0.85}
    predict(**held)  # which imports what is imported on demand
    steps = {checks.checked.__code__, place.site_of.__code__, price.price.__code__}
    taken: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in steps:
            taken[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        predict(**held)
    finally:
        sys.setprofile(None)
    assert taken == {"checked": 1, "site_of": 1, "price": 4}  # AR, SD, SSD with either fallback


@pytest.mark.long
@pytest.mark.parametrize("given", [{}, {"t_sd": 0.2}, {"drafter": "ngram"}])
@pytest.mark.parametrize("name", ["ar", "sd", "ssd", "tree"])
def test_what_is_shown_shapes_the_answer_and_may_be_given(name: str, given: dict[str, Any]) -> None:
    """What is no default here is derived; the rest is not refused where a user says it."""
    if name in ("ar", "tree") and "drafter" in given:
        pytest.skip("it drafts nothing, or trees")
    shown = configure(strategies=name, **given).settings
    for option in shown:
        if option not in ("strategies", "pair") and shown.source(option) == "default":
            assert (
                predict(strategies=name, **given, **{option: shown[option]}).configuration.settings[option] is not None
            )


def test_autoregressive_decoding_is_shown_without_speculation() -> None:
    shown = configure(strategies="ar")
    assert not {"k", "alpha", "f", "hit_c", "backup", "sd_draft"} & set(shown.settings)
    assert shown.shape == "batch 1"
    with refused("--k", "--strategies ar"):
        predict(strategies="ar", k=5)


def test_fan_outs_that_are_given_hide_the_fan_out() -> None:
    assert "f" not in configure(fl=[2] * 7).settings


def test_strategies_do_not_settle_each_others_options() -> None:
    together = configure(strategies="ar,sd,ssd,tree,treessd", b=4, f="window").scenarios
    for name, scenario in together.items():
        alone = configure(strategies=name, b=4, **({"f": "window"} if name in ("ssd", "treessd") else {}))
        assert dict(scenario.settings) == {
            **alone.scenarios[name].settings,
            "strategies": scenario.settings["strategies"],
            "f": scenario.settings["f"],
        }


def test_a_newcomer_is_known_by_answers_about_passes(guesser: Guesser) -> None:
    frame = roofline(strategies="guesser", wary_k=3)
    assert list(dict.fromkeys(frame["pass"])) == ["draft step", "verify", "verify one"]


@pytest.mark.parametrize("answer", [roofline, window])
def test_an_option_of_one_who_has_no_part_is_refused_by_answers_about_passes(answer: Any) -> None:
    with refused("--ngram-lookup-us", "--drafter"):
        answer(ngram_lookup_us=5.0)


def test_a_newcomers_flag_is_there_at_once(guesser: Guesser) -> None:
    for verb in ("predict", "roofline"):
        done = command(verb, "--strategies", "guesser", "--wary-k", "3", "--json", "--quiet")
        assert done.returncode == 0, done.stderr
    assert "--wary-k" in command("sweep", "--help-all").stdout


@pytest.mark.long
def test_a_newcomers_flag_works_in_a_process_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "from ssdsim import strategies\nfrom ssdsim.cli.main import main\n"
        "from tests.ssdsim.strategies.wary import Wary\n"
        "strategies.ALL.register(Wary())\nmain()\n"
    )
    asks = [sys.executable, str(script), "predict", "--strategies", "ar,wary", "--wary-k", "3", "--json"]
    done = subprocess.run(asks, capture_output=True, text=True, env={"PYTHONPATH": str(Path(__file__).parents[3])})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scenario"]["wary_k"] == {"value": 3, "source": "given"}


def test_a_newcomers_hit_rate_is_an_input_of_a_comparison(guesser: Guesser) -> None:
    comparison = compare(gpus=4, b=4, strategies="ar,guesser", tp=4)
    inputs = {each.name: each for each in comparison.inputs}
    assert inputs["guessed"].standing == "placeholder"
    assert inputs["guessed"].within == ALL["guessed"].plausible
    assert inputs["guessed"].read_by == ("guesser",)


def test_answers_and_their_scenarios_can_be_sent_to_another_process() -> None:
    for given in ({}, {"t_sd": 0.2}):
        document = pickle.loads(pickle.dumps(predict(**given, strategies="ar,sd,ssd")))
        assert document.verdict.sentence == predict(**given, strategies="ar,sd,ssd").verdict.sentence


def test_a_site_is_equal_to_itself_and_tells_its_options() -> None:
    first, second = (configure(b=2, strategies="sd").site for _ in range(2))
    assert first is not None
    assert first == second
    assert first.options["b"] == 2
    assert "tp" in dict(first.options)


@pytest.mark.long
def test_what_a_step_asks_of_an_options_origin_is_remembered_too() -> None:
    """A head's hits differ: a concentration that is given is refused, one that a pair knows is not."""
    pair = "models/pairs/smollm2-135m-20-layers.json"
    known = {"pair": pair, "strategies": ("ssd",), "b": 8, "k": 4, "drafter": "eagle3"}
    given = {**known, "hit_concentration": configure(**known).settings["hit_concentration"]}
    alone = evaluate([known]), evaluate([given])
    for points in ([known, given], [given, known]):
        errors = list(evaluate(points)["error"])
        assert errors == [alone[point is given]["error"][0] for point in points]


def test_points_note_what_each_of_their_scenarios_reads() -> None:
    (scenario,) = Question.of({"strategies": ("sd",)}).scenarios("sd")
    assert {"alpha", "sd_k", "k"} <= scenario.reads
    assert "hit_c" not in scenario.reads


def test_the_ten_lines_of_the_architecture_page_stand_in_the_code() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "architecture.md").read_text()
    block = page.partition("## How an answer is made")[2].partition("```python\n")[2].partition("```")[0]
    sources = [*(root / "ssdsim" / "question").glob("*.py"), root / "ssdsim" / "answers" / "predict.py"]
    code = {line.strip() for source in sources for line in source.read_text().splitlines()}
    lines = [line.partition("  #")[0].strip() for line in block.splitlines()]
    assert len(lines) == 10
    assert not set(lines) - code
