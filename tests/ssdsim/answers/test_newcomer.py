"""A strategy that is registered and nothing else is recommended, scheduled, and refused by engines that lack it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ssdsim import InputError, evaluate, export, recommend, schedule, strategies
from ssdsim.advise.recommend.launch_plan import as_json
from ssdsim.cli.render_recommendation import print_recommendation
from ssdsim.serving.schedule_file import Schedule
from tests.refusals import refused
from tests.ssdsim.strategies.wary import Wary


@pytest.fixture(autouse=True)
def wary() -> Iterator[Wary]:
    wary = Wary()
    strategies.ALL.register(wary)
    yield wary
    strategies.ALL.forget(wary.name)


@pytest.mark.long
def test_it_is_searched_over_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    recommendation = recommend(gpus=5, b=4, tp=4, strategies="ar,sd,wary", subject="wary", k=[4, 6])
    (answer,) = recommendation.answers
    chosen = answer.by_strategy["wary"]
    settings = chosen.shape.settings
    assert (chosen.shape.devices.draft, chosen.name) == (0, "Wary SD TP 4")
    assert chosen.settings == f"W {settings['wary_k']}"
    (again,) = evaluate([{"strategies": "wary", "b": 4, "tp": 4, **settings}]).to_dict("records")
    assert chosen.rate.tokens_per_second == pytest.approx(again["wary_tokens_per_second"], rel=1e-9)
    assert [bound.what for bound in recommendation.break_evens] == ["acceptance rate alpha", "batch"]
    assert {"target pass time T_v", "draft pass time T_d", "acceptance rate alpha"} <= {
        e.what for e in recommendation.elasticities if e.gain > 0
    }
    assert json.loads(json.dumps(as_json(recommendation)))["answers"][0]["by_strategy"]["wary"]["settings"] == settings
    print_recommendation(recommendation, None, every=True)
    shown = capsys.readouterr().out
    assert "Wary SD " in shown
    assert "SSD TP" not in shown


@pytest.mark.long
def test_it_is_a_rival_of_others() -> None:
    recommendation = recommend(gpus=5, b=4, tp=4, strategies=["sd", "ssd", "wary"], k=4, draft_gpus=1, wary_k=4)
    assert recommendation.request.subject == "ssd"
    (answer,) = recommendation.answers
    assert set(answer.by_strategy) == {"sd", "ssd", "wary"}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"strategies": "wary", "k": 4}, "--k, --strategies wary"),
        ({"wary_k": 4}, "--wary-k, --strategies ar,sd,ssd"),
        ({"strategies": "wary", "wary_k": 0}, "--wary-k, got 0"),
        ({"strategies": "ar,wary", "subject": "sd"}, "--subject sd, --strategies ar,wary"),
    ],
)
def test_what_does_not_concern_it_is_refused(given: dict[str, object], names: str) -> None:
    with refused(*names.split(", ")):
        recommend(gpus=5, **given)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        schedule(**given)  # type: ignore[arg-type]


def test_it_is_scheduled_and_written_down() -> None:
    made = schedule(b=[1, 16], wary_k=[1, 4], strategies="ar,wary", alpha=0.8)
    assert [cell.strategy for cell in made.cells] == ["wary", "wary"]
    for cell in made.cells:
        points = [{"strategies": "wary", "b": cell.b, "wary_k": wary_k, "alpha": 0.8} for wary_k in (1, 4)]
        rates = list(evaluate(points)["wary_tokens_per_second"])
        assert cell.settings == {"wary_k": (1, 4)[rates.index(max(rates))]}
        assert cell.tokens_per_second == pytest.approx(max(rates))
    assert Schedule.parse(made.to_json()) == Schedule.parse(made.to_csv()) == made
    assert made.assumptions["strategies"] == ["ar", "wary"]


@pytest.mark.parametrize(
    ("format_", "has"), [("vllm", "AR and SD"), ("sglang", "AR, SD and Tree SD"), ("ssd", "AR, SD and SSD")]
)
def test_an_engine_without_it_says_so_in_one_line(format_: str, has: str) -> None:
    with pytest.raises(InputError, match=f"has no Wary SD; it has {has}$") as refused:
        export(format_, b=1, wary_k=4, strategies="wary")
    assert "\n" not in str(refused.value)
    beside = export(format_, b=1, k=1, wary_k=4, strategies="sd,wary")
    assert any("has no Wary SD: at 1 of 1 cells Wary SD is best" in note for note in beside.notes)
    assert beside.text == export(format_, b=1, k=1, strategies="sd").text


def test_a_file_of_a_strategy_that_is_gone_is_refused(wary: Wary) -> None:
    text = schedule(b=1, wary_k=4, strategies=wary.name).to_json()
    assert text.count('"cells"') == 1
    with refused("cells.0.strategy", "wray", "wary"):
        Schedule.parse(text.replace('"strategy": "wary"', '"strategy": "wray"'))
