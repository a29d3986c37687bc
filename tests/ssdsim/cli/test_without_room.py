"""A machine without memory, and numbers with more digits than a number has: one line, as of any other limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibration.importers.silicon import _natural
from calibration.pairs.backups import lookup_named
from ssdsim.base.errors import InputError, short_repr
from ssdsim.cli import predict
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.readers.row import COLUMNS
from tests.refusals import assert_refused, refused
from tests.ssdsim.cli.in_process import asked

DIGITS = "9" * 5000
"""More than Python makes a number of."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 7.5 TiB"),
        ImportError("libarrow.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_memory_that_runs_out_is_one_line(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_memory(*given: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(predict, "predict", without_memory)
    assert_refused(asked("predict", "--t-sd", "0.2"), "memory")


@pytest.mark.parametrize("error", [RuntimeError("of ours"), ImportError("cannot import name 'x'")], ids=str)
def test_another_error_is_shown_whole(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of the program's own is not told as one of the machine."""

    def mistaken(*given: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(predict, "predict", mistaken)
    with pytest.raises(type(error)):
        asked("predict", "--t-sd", "0.2")


def test_an_interrupt_is_no_mistake_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object, **options: object) -> None:
        raise KeyboardInterrupt("the file has what is measured")

    monkeypatch.setattr(predict, "predict", interrupted)
    done = asked("predict", "--t-sd", "0.2")
    assert (done.returncode, done.stderr.strip()) == (130, "interrupted: the file has what is measured")


def test_a_number_of_thousands_of_digits_is_quoted_in_few() -> None:
    assert len(short_repr(10**5000)) < 60
    with refused("--b"):
        from ssdsim import predict

        predict(b=10**5000)


@pytest.mark.parametrize(
    "arguments",
    [
        f"predict --b {DIGITS}",
        f"predict --b {'9' * 4299}k",
        f"predict --engine vllm=={DIGITS}.1",
        f"predict --slo {DIGITS} --adaptive-ms {DIGITS} --fan-out {DIGITS}",
        f"predict --hardware {'x' * 5000}",
        f"recommend --gpus {DIGITS}",
        f"recommend --gpus {DIGITS}xh200",
        f"calibrate --gpus 0-{DIGITS} -o x.json",
        f"predict --target transformer-shaped-{DIGITS}x2",
        f"measure --target a --draft b --prompts c --backup ngram:{DIGITS} -o x.json",
    ],
    ids=lambda arguments: arguments[:24],
)
def test_an_option_of_thousands_of_digits_is_one_line(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = asked(*arguments.split())
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert len(max(done.stderr.split(), key=len)) < 200


@pytest.mark.parametrize("version", [f"{DIGITS}.1", f"0.{DIGITS}", f"v1.{DIGITS}rc1"], ids=lambda v: v[:3])
def test_a_version_of_thousands_of_digits_is_no_version(version: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    row = {"model": "llama-3.1-8b", "hardware": "h100-sxm", "batch": 1, "input_tokens": 100, "output_tokens": 100}
    row |= {"metric": "tpot_ms", "value": 9, "engine": "vllm", "engine_version": version}
    assert row.keys() <= set(COLUMNS)
    path.write_text("\n".join((",".join(row), ",".join(map(str, row.values())))) + "\n")
    done = asked("validate", "rows", str(path), "--engine", "each", "--json")
    assert done.returncode in (0, 1), done.stderr
    json.loads(done.stdout)
    with pytest.raises(InputError):
        find_runtime(f"vllm=={version}")


def test_numbers_inside_of_names_have_a_length() -> None:
    assert _natural(f"1.{DIGITS}") > _natural("1.2")
    with refused("backup"):
        lookup_named(f"ngram:{DIGITS}", 10, 0)
