"""Every reader, and every fact: what changes in a file changes the answer, or is refused, or tells nothing of a run.

A reader is held to this by its sample alone (``told/``, and ``SAMPLES`` of logs): nothing here names one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.base.documents import is_json, parse_records
from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from ssdsim.readers.acceptance.counts import ImportOptions
from ssdsim.readers.acceptance.read import PairLabels, import_acceptance
from ssdsim.readers.agreement import row_of
from ssdsim.readers.facts import Facts
from ssdsim.readers.result_files import formats
from tests.ssdsim.readers.acceptance.test_pasted import SAMPLES
from tests.ssdsim.readers.test_facts import ASKED, FILES, heard, told

IDLE = re.compile(
    r"""(?xi) date | build | cpu_info | ggml | device\ | schema_version | guidellm_version | dataset | num_prompts
    | failed | median | p99 | itl | inter-token\ latency | ttft | request_latency | throughput | rate\b | request_rate
    | _length\.unit | \.count$ | concurrency:\ +<1 | duration | retokenized | position\ | excl\. | avg_ts | n_kv
    | t_pp | split_mode | model_type | \bmodel:\ \| | engine\.dtype | num_draft_tokens | \|\ +pp\d | ± | \bb=<
    | total:\ | time:\ | mode:\ <CUDA | ^prompt | fraction | \(ms\) | on\ cache | frequencies | ^\ +(\d:\ )?<[\d.]+>$
    | --(size|draft|gpus|k|f|numseqs|temp)\ <[\d.]+>$ | ^F= | rank\ <0>"""
)
"""What tells nothing of the speed or the setting of a run: other statistics, counts of requests, the machine's date;
and what is of no matter beside another fact (the dtype of quantised weights, the tests of prompts alone, a command's
options that the engine then prints as it took them)."""
FACTS_OF_LOGS = re.compile(
    r"(?i)(num_spec_tokens|model(_name)?|speculative_num_steps|temp|n_draft|\.engine)\W*(<.*>)?$"
)
"""Names in a log of what is a fact, and no count."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where numbers and texts are in a record."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from leaves(each, (*path, at))
    elif value is not None and not isinstance(value, bool):
        yield path


def changed(value: Any) -> list[Any]:
    """Something else than a value: more and less than a number."""
    if isinstance(value, str):
        return [4.0 if value == "inf" else "another"]
    return [3 * value + 1, value // 7] if isinstance(value, int) else [1.7 * value + 0.3, value / 7.0]


WORD = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?=\D|$)|(?<=[:=] )[A-Za-z][\w./-]+|(?<=[=']')[\w./-]+")


def changes_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """What a file says, one after another, each with the files that say something else there."""
    if not is_json(text):
        first = text.splitlines()[0]
        table = first if first.count(",") > 3 else next((line for line in text.splitlines() if line[:1] == "|"), "")
        sign = "," if table == first else "|"
        for match in WORD.finditer(text):
            start, word = text.rfind("\n", 0, match.start()) + 1, match[0]
            line, whole = text[start : match.start()], text[start:].splitlines()[0]
            in_table = table and whole.count(sign) >= table.count(sign)
            title = f"{table.split(sign)[line.count(sign)].strip()}: {whole}" if in_table else line
            value: Any = float(word) if re.fullmatch(r"\d+\.\d+", word) else int(word) if word.isdigit() else word
            others = [text[: match.start()] + str(each) + text[match.end() :] for each in changed(value)]
            yield f"{title}<{word}>", others
        return
    records = parse_records(text, "sample")
    for place in (place for place in leaves(records) if place[0] == len(records) - 1):
        copied = json.loads(json.dumps(records))
        inner = copied
        for key in place[:-1]:
            inner = inner[key]
        others = []
        for other in changed(inner[place[-1]]):
            inner[place[-1]] = other
            others.append("\n".join(json.dumps(each) for each in copied))
        yield ".".join(str(key) for key in place if not isinstance(key, int)), others


def unheard(text: str, answer: Callable[[str], Any]) -> list[str]:
    """What may change in a file without a change of the answer."""
    before = answer(text)
    return [name for name, others in changes_of(text) if all(answer(other) == before for other in others)]


@pytest.mark.parametrize("name", FILES)
def test_every_number_and_name_in_a_benchmarks_file_is_heard(name: str, tmp_path: Path) -> None:
    _, given = told(FILES[name])

    def answer(text: str) -> Any:
        (tmp_path / name).write_text(text)
        return heard(tmp_path / name, **given)

    assert [name for name in unheard(FILES[name].read_text(), answer) if not IDLE.search(name)] == []


@pytest.mark.parametrize(("engine", "place"), [(name, at) for name, each in SAMPLES.items() for at in range(len(each))])
def test_every_number_and_name_in_a_log_is_heard(engine: str, place: int, tmp_path: Path) -> None:
    def answer(text: str) -> Any:
        (tmp_path / "log.txt").write_text(text)
        asked = ImportOptions(sampled=True, since_start=True)
        try:
            return import_acceptance(engine, [tmp_path / "log.txt"], {}, asked, PairLabels()).as_dict()
        except InputError as error:
            return str(error)

    silent = unheard(SAMPLES[engine][place], answer)
    assert [name for name in silent if FACTS_OF_LOGS.search(name) and not IDLE.search(name)] == []


FACTS: dict[str, list[Any]] = {
    "engine": ["another"],
    "engine_version": ["99.9"],
    "model": ["Qwen/Qwen3-32B"],
    "parameters": [3.2e10, 1e9],
    "weights": ["Q8_0", "F32", "NVFP4"],
    "kv_dtype": ["float32", "q4_0", "f16/q8_0"],
    "gpu": ["Tesla V100-SXM2-16GB", "Apple M2 Ultra"],
    "gpus": [7],
    "stages": [2],
    "backend": ["another", "cpu"],
    "gpu_layers": [1, 0],
    "batch": [77],
    "speculated": [True, False],
    "k": [9],
    "acceptance_length": [1.05],
    "drafter": ["medusa", "ngram"],
    "draft": ["qwen3-0.6b"],
    "temperature": [0.9],
    "options": [{"alpha": 0.123}],
}
"""Other facts than those of any sample."""
RUNS = {
    f"{form.name} {number}": (form, run)
    for form in formats()
    for path in FILES.values()
    if re.sub(r"\W+", "-", path.stem) == re.sub(r"\W+", "-", form.name)
    for text in [path.read_text()]
    for number, record in enumerate(parse_records(text, path) if is_json(text) else form.told_in(text, str(path)))
    for run in form.runs_of(record, str(path))
}
OF_DRAFTS = ("k", "acceptance_length", "drafter", "draft", "options")


@pytest.mark.parametrize("name", RUNS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_fact_changes_in_silence(name: str, data: st.DataObject) -> None:
    """Against unchanged options, whatever the reader; of a run without drafts nothing of drafts is a fact."""
    _, (facts, measured) = RUNS[name]
    options = {key.replace("-", "_"): value for key, value in ASKED.items()} | {"tp": 2}

    def row(facts: Facts, without: set[str]) -> Any:
        given = {key: value for key, value in options.items() if key not in without}
        try:
            return row_of(facts, measured, given, "file")
        except InputError as error:
            return str(error)

    agreed: set[str] = set()
    while isinstance(before := row(facts, agreed), str):  # what the file says itself need not be given
        said = re.search(r"--([\w-]+) says", before)
        assert said is not None, before
        agreed.add(said[1].replace("-", "_"))
    field = data.draw(st.sampled_from([each for each in FACTS if facts.speculated or each not in OF_DRAFTS]))
    value = data.draw(st.sampled_from(FACTS[field]))
    after = row(replace(facts, **{field: value}), agreed)
    known = getattr(facts, field) == value or (field == "speculated" and value and facts.speculated is None)
    assert after != before or known, (field, value)
