"""What a fit makes of rows of several versions of an engine, and of rows of one's own."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.runtimes.fit import fit_runtime
from calibration.runtimes.solution import features, values_of
from calibration.runtimes.versions import fitted, merged
from ssdsim.hardware.engine_versions import ByVersion, Deviation
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.readers.priced_row import seconds_of, value_of, work_of
from ssdsim.readers.row import Row
from tests.ssdsim.readers.engines import served

NUMBER = "per_expert_layer_s"
HIDDEN = find_runtime("vllm-0.9").changed(four_bits=None, by_version=None, name="hidden")
ADDS = {"0.16.0": 5e-5, "0.17.0": 4e-5, "0.18.0": -5e-6, "0.19.0": 0.0}
BATCHES = (1, 4, 16, 64)


def a_row(version: str, adds: float, batch: int, off_by: float = 1.0, **others: object) -> Row:
    row = served("gpt-oss-120b", batch, tp=2, engine="vllm", engine_version=version, metric="step_ms", **others)
    card = HIDDEN.with_numbers({NUMBER: HIDDEN.numbers[NUMBER] + adds})
    return row.changed(value=off_by * value_of(row, work_of(row, card).cost.seconds))


def rows_of(versions: dict[str, float], noise: float = 0.01) -> list[Row]:
    rng = np.random.default_rng(0)
    off = (float(np.exp(noise * rng.standard_normal())) for _ in range(1000))
    return [a_row(version, adds, batch, next(off)) for version, adds in versions.items() for batch in BATCHES]


def fit(rows: list[Row], base: Runtime = HIDDEN, several: bool | None = None) -> Runtime:
    return fit_runtime(rows, base, "mine", "vllm", (NUMBER,), own_errors=False, several_versions=several).card


def test_rows_of_several_versions_say_what_each_adds() -> None:
    card = fit(rows_of(ADDS))
    assert card.by_version is not None
    found = {each.version: card.numbers[NUMBER] + each.adds[NUMBER] for each in card.by_version.known}
    true = {version: HIDDEN.numbers[NUMBER] + adds for version, adds in ADDS.items()}
    assert found == pytest.approx(true, abs=6e-6)
    assert 1.5e-5 < card.by_version.spread[NUMBER] < 5e-5
    new = a_row("0.17.0", ADDS["0.17.0"], 32)
    assert work_of(new, card).cost.seconds == pytest.approx(seconds_of(new), rel=0.02)
    assert work_of(new, fit(rows_of(ADDS), several=False)).cost.seconds < 0.95 * seconds_of(new)


def test_rows_without_a_version_are_as_the_card_is() -> None:
    card = fit([*rows_of({"": 1e-5}), *rows_of({"0.17.0": 4e-5})])
    assert card.by_version is not None
    assert [each.version for each in card.by_version.known] == ["0.17.0"]
    assert card.numbers[NUMBER] == pytest.approx(HIDDEN.numbers[NUMBER] + 1e-5, abs=5e-6)


def test_five_rows_of_ones_own_version_settle_it() -> None:
    base = fit(rows_of(ADDS))
    own = rows_of({"0.21.0": 7e-5})
    own.append(a_row("0.21.0", 7e-5, 8))
    card, asked = fit(own, base), a_row("0.21.0", 7e-5, 32)
    assert card.by_version is None or not card.by_version.spread.get(NUMBER)
    before, after = (work_of(asked, each).cost for each in (base, card))
    assert before.seconds < 0.9 * seconds_of(asked)
    assert after.seconds == pytest.approx(seconds_of(asked), rel=0.02)
    assert after.log_sd < before.log_sd


@pytest.mark.parametrize("version", ["0.16.0", "0.18.0"])
def test_five_rows_of_a_known_version_are_what_the_card_then_says(version: str) -> None:
    """What the version was known to add is in the numbers that are fitted: it is not added to them again."""
    base = fit(rows_of(ADDS))
    own = rows_of({version: ADDS[version]}, noise=0.0)
    card = fit(own, base)
    for row in own:
        assert work_of(row, card).cost.seconds == pytest.approx(seconds_of(row), rel=0.01)


def test_what_a_version_adds_is_told_by_a_model_that_ran_on_another_too() -> None:
    """Else it would be the model's: of two models, each on a version of its own, nobody knows which is slower."""
    rows = rows_of(ADDS)
    first = rows[0].engine_version
    apart = [row.changed(model="qwen3-30b-a3b") if row.engine_version == first else row for row in rows]
    told, found = (features(each, HIDDEN).by_version((NUMBER,), None) for each in (rows, apart))
    assert {version for version, _ in told.versions} == set(ADDS)
    assert first not in {version for version, _ in found.versions}


def test_a_fit_of_other_numbers_keeps_what_versions_add() -> None:
    base = fit(rows_of(ADDS))
    card = fit_runtime(rows_of(ADDS), base, "mine", "vllm", ("attention",), own_errors=False).card
    assert card.by_version == base.by_version


def test_what_two_fits_know_of_a_version_is_what_the_surer_one_says() -> None:
    def of(adds: float, left: float) -> ByVersion:
        known = Deviation(version="1.0", adds={NUMBER: adds}, open={NUMBER: left})
        return ByVersion(spread={NUMBER: left}, known=(known,))

    both = merged((of(1.0, 0.2), None, of(2.0, 0.1)))
    assert both is not None
    assert (both.spread, both.known) == ({NUMBER: 0.2}, of(2.0, 0.1).known)
    assert fitted(of(1.0, 0.2), None, (NUMBER,)) is None


@pytest.mark.parametrize("metric", ["tpot_ms", "tokens_per_s", "latency_s"])
@pytest.mark.parametrize("model", ["gpt-oss-120b", "llama-3.1-8b"])
def test_the_price_is_linear_in_the_numbers_where_prompts_join_passes(model: str, metric: str) -> None:
    """What the solver takes a row's price to be is its price, also of other numbers."""
    card = HIDDEN.changed(mixes_prompts=True)
    row = served(model, 64, tp=2, metric=metric)
    made = features([row], card)
    other = {"attention": 1.3, "overlap": 0.3, "experts_4_bit": 1.1, "prompt_experts_4_bit": 0.7, "per_layer_s": 2e-5}
    for each in (card, card.with_numbers(other)):  # but for kernels that are shorter than what could be hidden
        assert made.predicted(values_of(each))[0] == pytest.approx(work_of(row, each).cost.seconds, rel=3e-3)
