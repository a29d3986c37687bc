"""``pair.json``: what is written is read again, what is not known stays unknown, a mistake is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim.tokens.pair_file import AtTemperature, Findings, HitLaw, Hits, Length, Mean, Pair, Participant, load_pair
from tests.refusals import refused

PAIR = Pair(
    target=Participant(id="big", vocabulary=512),
    draft=Participant(id="small"),
    how="teacher-forced",
    requests=64,
    tokens=10_240,
    by_temperature=(
        AtTemperature(
            temperature=0.0,
            alpha=Mean(mean=0.7, low=0.68, high=0.72),
            alpha_k=(0.7, 0.72, None),
            survival=(0.7, 0.504, None),
            length=Length(pooled=2.2, histogram=(3, 2, 5), rounds=10, k=2),
            hits=Hits(
                rejected=HitLaw(curve=((1, 0.4, 0.3, 0.5), (3, 0.7, None, None)), c=0.6, r=0.6, r2=0.99, max_error=0.01)
            ),
            sets={"code": Findings(alpha=Mean(mean=0.8))},
        ),
        AtTemperature(temperature=1.0),
    ),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    PAIR.save(tmp_path / "pair.json")
    assert load_pair(tmp_path / "pair.json") == PAIR
    data = json.loads((tmp_path / "pair.json").read_text())
    assert (data["schema"], data["kind"]) == (1, "pair")
    assert data["by_temperature"][1]["alpha"] == {"mean": None, "low": None, "high": None}


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "pair.json"
    PAIR.save(path)
    load_pair(path)
    PAIR.changed(how="loop").save(path)
    assert load_pair(path).how == "loop"


def test_rates_end_where_they_are_not_known() -> None:
    assert PAIR.by_temperature[0].rates == (0.7, 0.72)
    assert PAIR.by_temperature[1].rates == ()


@pytest.mark.parametrize(
    ("r2", "error", "fits"), [(0.99, 0.01, True), (0.97, 0.01, False), (0.99, 0.04, False), (None, 0.01, None)]
)
def test_a_law_fits_or_misfits_or_nobody_knows(r2: float | None, error: float, fits: bool | None) -> None:
    assert HitLaw(c=0.5, r=0.5, r2=r2, max_error=error).fits is fits


def _written(tmp_path: Path, **changed: Any) -> Path:
    path = tmp_path / "pair.json"
    path.write_text(json.dumps(json.loads(PAIR.to_json()) | changed))
    return path


def _with_curve(curve: list[Any]) -> dict[str, Any]:
    return {"hits": {"rejected": {"curve": curve}}}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"kind": "profile"}, 'not a pair: it must be a JSON object with "kind": "pair"'),
        ({"schema": 2}, "schema"),
        ({"by_temperature": []}, "by_temperature"),
        ({"by_temperature": [{"temperature": 0}, {"temperature": 0}]}, "each temperature must be there once"),
        ({"by_temperature": [{"alfa": {}}]}, "unknown key 'alfa'; did you mean 'alpha'?"),
        ({"by_temperature": [{"alpha_k": [1.5]}]}, "by_temperature.0.alpha_k.0"),
        ({"by_temperature": [{"length": {"histogram": [1, 2], "rounds": 4}}]}, "counts 3 rounds, but there are 4"),
        ({"by_temperature": [_with_curve([[3, 0.5, None, None], [1, 0.6, None, None]])]}, "fan-outs must increase"),
        ({"by_temperature": [_with_curve([[1, 0.5, None, None], [3, 0.4, None, None]])]}, "hit rates must not fall"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    path = _written(tmp_path, **changed)
    with refused("pair.json") as error:
        load_pair(path)
    assert says in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with refused("ssdsim measure"):
        load_pair(tmp_path / "none.json")
