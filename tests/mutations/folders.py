"""Folders that a user gives: runs of every verb that keeps one, records of a measurement, models; with mistakes."""

from __future__ import annotations

import io
import json
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from random import Random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from calibration.pairs.measured import header_of
from calibration.pairs.records import RecordFolder
from ssdsim.cli.main import cli
from ssdsim.tokens.pair_file import PairSettings, Participant
from tests.mutations.files import changed_json, changed_parquet, changed_toml
from tests.mutations.input import Input, command
from tests.mutations.values import changed_bytes, changed_log, odd
from tests.ssdsim.reports.run_folders import write_measurements, write_run

Files = Mapping[str, bytes]

_SWEEP = "sweep --t-sd 0.2 --p-hit 0.8 --k 2,4 --alpha 0.7,0.9 -o run"
SERVE = (
    "plan --rate 2 --requests 40 --input-len 200 --output-len 40 --strategies ar,sd --target llama-3.1-8b --tp 1 "
    "--engine kernels --slo tpot:6 --quiet -o run"
)
_RECOMMEND = "recommend --gpus 2 --target llama-3.1-8b --k 2,3 --tp 1 --quiet -o run"
_MEASURED = "validate rows rows.csv -o run"


def _files_of(folder: Path, name: str) -> Files:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(".lock"))
    return {f"{name}/{path.relative_to(folder)}": path.read_bytes() for path in paths}


@lru_cache
def sweep() -> Files:
    """A small sweep's folder with a validation's log and traces."""
    with tempfile.TemporaryDirectory() as made:
        folder = write_run(Path(made) / "run", {"t_sd": 0.2, "p_hit": 0.8}, {"k": [2, 4], "alpha": [0.7, 0.9]})
        write_measurements(folder)
        verdict = {"schema": 1, "verdict": {"sentence": "By tokens/s per user: SSD."}}
        (folder / "recommendation.json").write_text(json.dumps(verdict))
        (folder / "trace.json").write_bytes((folder / "measured_trace.json").read_bytes())
        return _files_of(folder, "run")


@lru_cache
def _made_by(arguments: str) -> Files:
    """What a verb leaves."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "run"
        done = CliRunner().invoke(cli, [*arguments.split()[:-1], str(folder)])
        assert done.exception is None, done.exception
        return {name: content for name, content in _files_of(folder, "run").items() if not name.endswith(".html")}


@lru_cache
def records_folder() -> Files:
    """The answers of a small measurement."""
    from tests.calibration.measure.chains import VOCABULARY, answer, chain_pair

    about = {"device": "cpu", "libraries": {"torch": "2"}, "files": ["p.jsonl"], "top": 64}
    models = Participant(id="big", vocabulary=VOCABULARY), Participant(id="small", vocabulary=VOCABULARY)
    with tempfile.TemporaryDirectory() as made:
        folder = RecordFolder(Path(made) / "pair")
        folder.open(header_of(*models, PairSettings(max_new_tokens=30, seed=0), about))
        for seed in range(4):
            folder.add(answer(chain_pair(), 30, 1.0, seed))
        return _files_of(folder.path, "pair")


def _with_a_changed_file(files: Files, rng: Random) -> dict[str, bytes]:
    name = rng.choice(sorted(files))
    return {**files, name: _changed(name, files[name], rng)}


def _changed(name: str, content: bytes, rng: Random) -> bytes:
    if content.startswith(b"PAR1"):
        return _changed_arrays(content, rng) if "/t" in name else changed_parquet(_frame(content), rng)
    if name.endswith(".toml"):
        return changed_toml(tomllib.loads(content.decode()), rng)
    if name.endswith(".jsonl"):
        return _changed_json_lines(content, rng)
    if name.endswith(".json"):
        return changed_json(json.loads(content), rng)
    return changed_bytes(content, rng)


def _frame(content: bytes) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(content))


def _changed_arrays(content: bytes, rng: Random) -> bytes:
    """A table with metadata, of which a column, a number or the metadata is another; or bytes that differ."""
    table = pq.read_table(io.BytesIO(content))
    at = rng.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    changes: list[Callable[[], pa.Table]] = [
        lambda: table.drop_columns([name]),
        lambda: table.rename_columns([f"{each}x" if each == name else each for each in table.column_names]),
        lambda: table.slice(0, rng.choice((0, 1, 2, 7))),
        lambda: table.set_column(at, name, column.cast(pa.float32()) if pa.types.is_integer(column.type) else column),
        lambda: table.replace_schema_metadata({"request": json.dumps({"id": odd(rng)}, default=str)}),
        lambda: pa.concat_tables([table, table]),
    ]
    made = io.BytesIO()
    pq.write_table(rng.choice(changes)(), made)
    return changed_bytes(made.getvalue(), rng) if rng.random() < 0.3 else made.getvalue()


def _changed_json_lines(content: bytes, rng: Random) -> bytes:
    """A line that is corrupted in the middle of a log, or one with other values."""
    if rng.random() < 0.4:
        return changed_log(content.decode(), rng)
    lines = content.splitlines()
    at = rng.randrange(max(1, len(lines) - 1))  # the last one is torn
    lines[at] = changed_json(json.loads(lines[at]), rng)
    return b"\n".join(lines)


def run_folder(rng: Random) -> Input:
    """A report of a folder with one changed file, of each verb that leaves one."""
    kinds = (sweep, sweep, lambda: _made_by(SERVE), lambda: _made_by(_RECOMMEND))
    return command("run folder", ["report", "run"], _with_a_changed_file(rng.choice(kinds)(), rng))


def resumed(rng: Random) -> Input:
    """A verb that finds a folder of its own, or of another's, with one changed file."""
    verb, files = rng.choice(
        (
            (_SWEEP, sweep),
            (_SWEEP, sweep),
            (SERVE, lambda: _made_by(SERVE)),
            (_RECOMMEND, lambda: _made_by(_RECOMMEND)),
            (SERVE, sweep),
            (_SWEEP, lambda: _made_by(SERVE)),
        )
    )
    return command("resumed run", verb.split(), _with_a_changed_file(files(), rng))


def records(rng: Random) -> Input:
    """A measurement that is analysed again."""
    arguments = "measure --resume pair --k 1:3 --f 1:4 --quiet".split()
    return command("records", arguments, _with_a_changed_file(records_folder(), rng))


@lru_cache
def model() -> Files:
    from tests.calibration.measure.test_broken_models import small_llama

    with tempfile.TemporaryDirectory() as made:
        small_llama(Path(made) / "model")
        return {**_files_of(Path(made) / "model", "model"), **_files_of(Path(made) / "model", "draft")}


def model_folder(rng: Random) -> Input:
    """A pair of models of which one has a changed file."""
    files = _with_a_changed_file(model(), rng)
    files["prompts.jsonl"] = b'{"text": "1 2 3 4"}\n' * 2
    arguments = "measure --target model --draft draft --prompts prompts.jsonl --requests 2 --max-new-tokens 4".split()
    return command("model folder", [*arguments, *"--k 1:2 --f 1:2 --quiet --device cpu -o pair.json".split()], files)
