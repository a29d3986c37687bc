"""A strategy that is registered and nothing else is recommended, scheduled, and refused by engines that lack it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ssdsim import InputError, evaluate, export, recommend, schedule
from ssdsim.answers.recommend.as_json import as_json
from ssdsim.answers.schedule.file import Schedule
from ssdsim.cli.render_recommendation import print_recommendation
from tests.answers.toy import Toy, registered


@pytest.fixture(autouse=True)
def toy() -> Iterator[Toy]:
    with registered() as toy:
        yield toy


def test_it_is_searched_over_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    found = recommend(gpus=5, b=4, tp=4, strategies="ar,sd,toy", subject="toy", k=[4, 6])
    (answer,) = found.answers
    chosen = answer.by_strategy["toy"]
    settings = chosen.shape.settings
    assert (settings["pace"], chosen.shape.devices.draft, chosen.name) == ("even", 1, "Toy TP 4 + 1")
    assert chosen.settings == f"R {settings['reach']}, even"
    every = evaluate({"strategies": "toy", "b": 4, "tp": 4, "reach": reach} for reach in range(1, 7))
    assert chosen.rate.tokens_per_second == pytest.approx(every["toy_tokens_per_second"].max(), rel=1e-3)
    assert [versus.what for versus in (answer.equal.over if answer.equal else ())] == ["SD, TP 4 as Toy", "AR"]
    assert [bound.what for bound in found.break_evens] == ["acceptance rate alpha", "link bandwidth", "batch"]
    assert {"target pass time T_v", "draft pass time T_d", "acceptance rate alpha"} <= {
        e.what for e in found.elasticities if e.gain > 0
    }
    assert json.loads(json.dumps(as_json(found)))["answers"][0]["by_strategy"]["toy"]["settings"] == settings
    print_recommendation(found, None, quiet=True)
    shown = capsys.readouterr().out
    assert "Toy against all else that as many GPUs can do" in shown
    assert "SSD TP" not in shown


def test_it_is_a_rival_of_others() -> None:
    found = recommend(gpus=5, b=4, tp=4, strategies=["sd", "ssd", "toy"], k=4, draft_gpus=1, reach=4)
    assert found.request.subject == "ssd"
    (answer,) = found.answers
    assert answer.equal is not None
    assert {versus.what for versus in answer.equal.over} == {"SD, TP 4 as SSD", "Toy"}
    assert set(answer.by_strategy) == {"sd", "ssd", "toy"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strategies": "toy", "k": 4}, "--k has no effect with --strategies toy"),
        ({"reach": 4}, "--reach has no effect with --strategies ar,sd,ssd"),
        ({"strategies": "toy", "reach": 0}, "--reach must be a whole number of at least 1, got 0"),
        ({"strategies": "toy", "pace": "evn"}, "did you mean 'even'"),
        ({"strategies": "ar,toy", "subject": "sd"}, "--subject sd is not among --strategies ar,toy"),
    ],
)
def test_what_does_not_concern_it_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        recommend(gpus=5, **given)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        schedule(**given)  # type: ignore[arg-type]


def test_it_is_scheduled_and_written_down() -> None:
    made = schedule(b=[1, 16], reach=[2, 4], strategies="ar,toy")
    assert [cell.strategy for cell in made.cells] == ["toy", "toy"]
    for cell in made.cells:
        points = [{"strategies": "toy", "b": cell.b, "reach": reach, "pace": "even"} for reach in (2, 4)]
        rates = list(evaluate(points)["toy_tokens_per_second"])
        assert cell.settings == {"reach": (2, 4)[rates.index(max(rates))], "pace": "even"}
        assert cell.tokens_per_second == pytest.approx(max(rates))
    assert Schedule.parse(made.to_json()) == Schedule.parse(made.to_csv()) == made
    assert made.assumptions["strategies"] == ["ar", "toy"]


@pytest.mark.parametrize(
    ("format_", "has"), [("vllm", "AR and SD"), ("sglang", "AR, SD and Tree SD"), ("ssd", "AR, SD and SSD")]
)
def test_an_engine_without_it_says_so_in_one_line(format_: str, has: str) -> None:
    with pytest.raises(InputError, match=f"has no Toy; it has {has}$") as refused:
        export(format_, b=1, reach=4, strategies="toy")
    assert "\n" not in str(refused.value)
    beside = export(format_, b=1, k=4, reach=4, strategies="sd,toy")
    assert any("has no Toy: at 1 of 1 cells Toy is best" in note for note in beside.notes)
    assert beside.text == export(format_, b=1, k=4, strategies="sd").text


def test_a_file_of_a_strategy_that_is_gone_is_refused(toy: Toy) -> None:
    text = schedule(b=1, reach=4, strategies=toy.name).to_json()
    with pytest.raises(InputError, match=r"cells\.0\.strategy: unknown strategy 'tooy'; did you mean 'toy'"):
        Schedule.parse(text.replace('"strategy": "toy"', '"strategy": "tooy"'))
