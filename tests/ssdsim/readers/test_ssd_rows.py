"""Rows of any strategy: its name and its options are columns, and its round has the price that ``predict`` gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calibration.validation.measured import check_rows, validate_rows
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.question.configuration import configure
from ssdsim.readers.priced_row import work_of
from ssdsim.readers.row import Row, read_rows
from tests.refusals import refused

HEAD = "model,draft,hardware,tp,batch,input_tokens,output_tokens,metric,value"
CELLS = "llama-3.1-70b,llama-3.2-1b,h100-sxm,4,16,1024,1,step_ms,25"

ENGINE = find_runtime("ssd-engine")

RUNS: dict[str, dict[str, Any]] = {
    "just in time": {"strategy": "ssd", "k": 7, "f": 3, "backup": "jit", "alpha": 0.8, "hit_c": 0.3},
    "fast": {
        **{"strategy": "ssd", "k": 5, "budget": 24, "backup": "fast", "backup_ms": 0.5, "alpha": 0.8},
        **{"alpha_backup": 0.3, "p_hit": 0.9, "p_hit_backup": 0.7},
    },
    "by position": {"strategy": "ssd", "k": 3, "f": 4, "backup": "jit", "alpha": [0.9, 0.8, 0.7], "draft_gpus": 2},
    "late": {"strategy": "ssd", "k": 12, "f": 20, "backup": "jit", "alpha": 0.9},
    "whichever is faster": {"strategy": "ssd", "k": 7, "f": 3, "alpha": 0.8},
    "SD, its draft elsewhere": {"strategy": "sd", "k": 4, "sd_draft": "separate", "alpha": 0.8},
    "PEARL": {"strategy": "pearl", "k": 5, "alpha": 0.8},
}


def read(tmp_path: Path, told: dict[str, Any], cells: str = CELLS) -> Row:
    """The row of a CSV file with these columns besides."""
    path = tmp_path / "rows.csv"
    values = (f'"{",".join(map(str, each))}"' if isinstance(each, list) else str(each) for each in told.values())
    path.write_text(f"{HEAD},{','.join(told)}\n{cells},{','.join(values)}\n")
    (row,) = read_rows(path)
    return row


@pytest.mark.parametrize("runtime", ["ssd-engine", "kernels"])
@pytest.mark.parametrize("run", RUNS)
def test_a_round_is_priced_as_predict_prices_it(run: str, runtime: str, tmp_path: Path) -> None:
    """At any batch, with any backup, whether the draft is late or not."""
    told = RUNS[run]
    row = read(tmp_path, told)
    models = {"target": "llama-3.1-70b", "draft": "llama-3.2-1b", "hardware": "h100-sxm", "tp": 4}
    options = {name: value for name, value in told.items() if name != "strategy"}
    if told["strategy"] == "sd":
        options |= {"sd_draft": told["sd_draft"]}
    asked = configure(strategies=(told["strategy"],), **models, **options, b=16, context=1024, engine=runtime)
    (scenario,) = asked.scenarios.values()
    (checked,) = check_rows([row], find_runtime(runtime))
    assert checked.predicted == pytest.approx(1e3 * float(scenario.estimate.round_s), rel=1e-6)
    (token,) = check_rows(
        [row.changed(metric="tpot_ms", input_tokens=0.0, output_tokens=2048.0)], find_runtime(runtime)
    )
    assert token.predicted == pytest.approx(1e3 * float(scenario.estimate.tpot_s), rel=1e-6)


ONE = CELLS.replace(",16,", ",1,")


def test_the_draft_of_a_late_round_is_paid_for_and_that_of_another_is_not(tmp_path: Path) -> None:
    in_time, late = (work_of(read(tmp_path, RUNS[run], ONE), ENGINE) for run in ("just in time", "late"))
    assert (in_time.share_of_rounds["pre-speculate"], in_time.share_of_rounds["verify"]) == (0.0, 1.0)
    assert (late.share_of_rounds["pre-speculate"], late.share_of_rounds["verify"]) == (1.0, 0.0)
    assert 0.0 < in_time.share_of_rounds["fallback"] < 1.0


def test_what_a_row_of_ssd_does_not_say_is_said_and_its_interval_is_wider(tmp_path: Path) -> None:
    told = {"strategy": "ssd", "k": 7, "alpha": 0.8}
    (open_,) = check_rows([read(tmp_path, told, ONE)], ENGINE)
    assert " ".join(open_.assumed) == "f 3 backup jit hit_c 0.4 hit_r 0.7 so p_hit 0.82"
    (known,) = check_rows([read(tmp_path, {**told, "f": 3, "backup": "jit", "p_hit": 0.82}, ONE)], ENGINE)
    assert known.assumed == ()
    assert known.predicted == pytest.approx(open_.predicted, rel=0.01)
    assert open_.high / open_.low > 1.05 * known.high / known.low
    assert check_rows([read(tmp_path, {"k": 7, "alpha": 0.8}, ONE)], ENGINE)[0].assumed == ()


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"strategy": "sssd", "k": 7}, "'ssd'"),
        ({"strategy": "ssd"}, "strategy ssd needs k"),
        ({"strategy": "ar", "k": 7}, "drafts nothing"),
        ({"strategy": "ssd", "k": 7, "p_hitt": 0.8}, "did you mean 'p_hit'?"),
        ({"strategy": "ssd", "k": 7, "p_hit": 1.8}, "line 2: p_hit: --p-hit must lie"),
        ({"strategy": "ssd", "k": 7, "p_hit": "much"}, "line 2: p_hit: 'much' is"),
        ({"strategy": "ssd", "k": 7, "backup": "jitt"}, "did you mean 'jit'?"),
        ({"k": 7, "p_hit": 0.9, "alpha": 0.8}, "p_hit is no option of SD"),
        ({"strategy": "ssd", "k": 7, "f": "window"}, "a run had a number"),
    ],
)
def test_a_wrong_column_or_cell_is_refused(told: dict[str, Any], said: str, tmp_path: Path) -> None:
    with refused(said):
        read(tmp_path, told)


def test_tokens_are_told_by_their_length_or_by_acceptance(tmp_path: Path) -> None:
    cells = CELLS.replace("step_ms", "tpot_ms")
    with refused("acceptance_length (or acceptance, alpha, pair)"):
        read(tmp_path, {"strategy": "ssd", "k": 7, "p_hit": 0.9}, cells)
    assert read(tmp_path, {"strategy": "ssd", "k": 7, "p_hit": 0.9, "acceptance_length": 4.0}, cells).k == 7


def test_rows_of_ar_sd_and_ssd_are_one_file(tmp_path: Path) -> None:
    """Their errors are told apart, and so are their series."""
    path = tmp_path / "rows.csv"
    alone = CELLS.replace("llama-3.2-1b", "")
    lines = [f"{HEAD},strategy,k,f,backup,alpha", f"{alone},,,,,", f"{CELLS},sd,6,,,0.8", f"{CELLS},ssd,7,3,jit,0.8"]
    path.write_text("\n".join(lines))
    validated = validate_rows([path])
    assert [each.value for each in validated.summaries if each.axis == "strategy"] == ["ar", "sd", "ssd"]
    assert len({one.row.series_name for one in validated.checked}) == 3
    (shown,) = (one.shown() for one in validated.checked if one.row.run == "ssd")
    assert (shown["strategy"], shown["f"], shown["backup"], shown["alpha"]) == ("ssd", 3, "jit", 0.8)
