"""Speeds that ``bench.py`` of the SSD paper's engine prints are rows of AR, SD and SSD, each with what it was told.

The texts are in its format; their numbers are made up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calibration.validation.measured import check_rows, validate_rows
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.readers.result_files import read_measured
from ssdsim.readers.row import Row, read_rows, write_rows
from tests.refusals import refused

START = """\
python -O bench/bench.py --llama --size 70 --draft 1 --gpus {gpus} {flags}--b 4 --numseqs 16 --output_len 256 --temp 0.7
"""
SPEED = """\
Final Prefill Throughput: 5210tok/s
Final Decode Throughput: {speed}tok/s
"""
END = """\
Model: Llama-3.1-70B-Instruct, Mode: CUDA Graphs{mode}, Total: 4096tok, Time: 8.21s, Total Throughput: 498.90tok/s

================================================================================
GENERATIONS:
================================================================================

Prompt 1: 'Name a colour'
Generation: ' Blue.'
----------------------------------------
Engine exited!
"""
ROUNDS = """\
[metrics] Avg Tokens per step (incl recovery): 4.20
[metrics] Avg Fraction of Speculated Tokens Accepted: 0.53
[metrics] Avg target time per full step (ms): 27.31
[metrics] Avg target verify time (ms): 15.40
"""
HITS = """\
[metrics] Avg Cache Hits: 0.83
[metrics] Avg Tokens per step on Cache Hit: 4.30
[metrics] Empirical frequencies of accepted_suffix_lens_on_hit - 1:
  0: 0.150
  1: 0.120
  2: 0.100
  3: 0.100
  4: 0.080
  5: 0.090
  6: 0.360
[metrics] Avg Tokens per step on Cache Miss: 3.71
"""
LISTS = "F=3, fan_out_list={fl}, fan_out_list_miss={flm}, MQ_LEN=21\nDraft runner created on rank 4 (async)!\n"
THREES = [3] * 7

AR = START.format(gpus=4, flags="") + SPEED.format(speed=199) + END.format(mode=" + JIT")
SD = (
    START.format(gpus=4, flags="--spec --k 6 ")
    + "Draft runner created on rank 0 (no async)\n"
    + SPEED.format(speed=480)
    + ROUNDS
    + END.format(mode=" + Speculative(k=6) + JIT")
)


def ssd(flags: str = "", mode: str = " + JIT", flm: list[int] = THREES) -> str:
    """The output of a run of SSD."""
    told = START.format(gpus=5, flags=f"--spec --async --k 6 --f 3 {flags}")
    ran = END.format(mode=f" + Speculative(k=6) + Async{mode}")
    return told + LISTS.format(fl=THREES, flm=flm) + SPEED.format(speed=640) + ROUNDS + HITS + ran


def rows_of(folder: Path, text: str, **given: Any) -> list[Row]:
    path = folder / "run.log"
    path.write_text(text)
    return read_measured(path, **{"hardware": "h100-sxm", **given})


def row_of(folder: Path, text: str, **given: Any) -> Row:
    (row,) = rows_of(folder, text, **given)
    return row


def test_a_run_of_ssd_has_the_columns_of_ssd(tmp_path: Path) -> None:
    row = row_of(tmp_path, ssd())
    assert (row.model, row.draft, row.engine, row.run) == ("llama-3.1-70b", "llama-3.2-1b", "ssd-engine", "ssd")
    assert (row.tp, row.batch, row.k, row.acceptance_length, row.output_tokens) == (4, 4, 6, 4.2, 256.0)
    assert dict(row.options) == {"p_hit": 0.83, "budget": 21, "backup": "jit", "temperature": 0.7}
    assert row.metric == "step_ms"  # a round's time: prompts are not in the speed
    assert row.value == pytest.approx(1e3 * 4 * 4.2 / 640.5)  # the speed is cut down to a whole number


def test_runs_of_ar_and_sd(tmp_path: Path) -> None:
    ar, sd = rows_of(tmp_path, AR + SD)
    assert (ar.run, ar.tp, ar.k, ar.draft, ar.options) == ("ar", 4, None, None, ())
    assert ar.value == pytest.approx(1e3 * 4 / 199.5)
    assert (sd.run, sd.tp, sd.k, sd.acceptance_length, sd.draft) == ("sd", 4, 6, 4.2, "llama-3.2-1b")
    assert dict(sd.options) == {"temperature": 0.7}


def test_what_ran_is_told_by_its_mode_and_its_lists(tmp_path: Path) -> None:
    fast = dict(row_of(tmp_path, ssd(mode="", flm=[15, 5, 1, 0, 0, 0, 0])).options)
    assert (fast["backup"], fast["budget"]) == ("fast", 21)  # outcomes, whose spread is in the hits
    old = ssd().replace(LISTS.format(fl=THREES, flm=THREES), "")
    assert dict(row_of(tmp_path, old).options)["f"] == 3
    head = row_of(tmp_path, ssd("--eagle "))
    assert (head.drafter, head.draft) == ("eagle3", None)
    assert row_of(tmp_path, ssd(mode=" + JIT + X(0.25)")).options == row_of(tmp_path, ssd()).options  # p_hit has it


def test_runs_one_after_another_do_not_mix(tmp_path: Path) -> None:
    """Each is told from its own command line on, in any order."""
    both = rows_of(tmp_path, ssd() + AR + SD + ssd(mode=""))
    assert [row.run for row in both] == ["ssd", "ar", "sd", "ssd"]
    assert both[2] == row_of(tmp_path, SD)
    assert [dict(row.options).get("backup") for row in both] == ["jit", None, None, "fast"]


def test_the_command_line_need_not_be_in_the_text(tmp_path: Path) -> None:
    alone = ssd().partition("\n")[2]
    with refused("run.log: does not say how many sequences were in flight; give them by --batch"):
        row_of(tmp_path, alone)
    row = row_of(tmp_path, alone, batch=4)
    assert (row.tp, row.draft, row.input_tokens, row.output_tokens) == (4, "llama-3.2-1b", 128.0, 512.0)
    assert row_of(tmp_path, "SWEEP [1/2] temp=0.7 b=8\n" + alone).batch == 8
    with refused("does not say the hardware; give its profile by --hardware"):
        row_of(tmp_path, alone, batch=4, hardware=None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ssd().replace("CUDA Graphs", "Eager"), "without CUDA graphs"),
        (ssd()[: ssd().index("Model:")], "the run did not end"),
        (ssd().replace("--draft 1", "--draft /models/mine"), "give its card by --draft"),
        (AR + ssd().replace("CUDA Graphs", "Eager"), "run.log: result 2: ran without"),
        (ssd().replace("Llama-3.1-70B", "Nobodys-3B"), "give one by --model"),
    ],
)
def test_what_cannot_be_a_row_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with refused(said):
        rows_of(tmp_path, text)


def test_a_row_of_the_text_is_a_row_of_a_csv(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, AR + SD + ssd() + ssd(mode="", flm=[15, 5, 1, 0, 0, 0, 0]))
    write_rows(rows, tmp_path / "rows.csv")
    assert read_rows(tmp_path / "rows.csv") == rows


def test_they_are_validated_as_they_come(tmp_path: Path) -> None:
    """Slower rounds are those of more to do, and nothing has to be assumed of what was printed."""
    path = tmp_path / "run.log"
    path.write_text(AR + SD + ssd())
    validated = validate_rows([path], engine=["each"], hardware="h100-sxm")
    assert [each.value for each in validated.summaries if each.axis == "strategy"] == ["ar", "sd", "ssd"]
    assert {one.card.name for one in validated.checked} == {"ssd-engine"}
    (checked,) = check_rows([row_of(tmp_path, ssd())], find_runtime("ssd-engine"))
    assert checked.assumed == ()
