"""Files of an engine -> a pair: one set of requests a file, or the sets that are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from ssdsim import __version__
from ssdsim.base.documents import read_printed
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import transformer_called
from ssdsim.readers.acceptance import llama_cpp, sglang, ssd_engine, trtllm, vllm, vllm_counters
from ssdsim.readers.acceptance.counts import EngineLog, ImportOptions, Source, each_file
from ssdsim.readers.acceptance.findings import ImportFindings, findings_of
from ssdsim.readers.acceptance.statistics import read_aiperf
from ssdsim.readers.acceptance.traces import read_traces
from ssdsim.readers.agreement import agreed_model, check_temperature
from ssdsim.readers.facts import Facts
from ssdsim.tokens.pair_file import AtTemperature, Pair, PairProvenance, PairSettings, Participant


class LogReader(Record):
    """``read`` makes a log of the files of one set; files that are ``together`` are never sets of their own."""

    title: str
    read: Callable[[Sequence[Source], ImportOptions], EngineLog]
    together: Callable[[str], bool] = lambda text: False


ENGINES: Mapping[str, LogReader] = {
    "vllm": LogReader("vLLM", vllm.read, vllm_counters.is_snapshot),
    "sglang": LogReader("SGLang", each_file(sglang.read_one)),
    "aiperf": LogReader("AIPerf", read_aiperf),
    "ssd": LogReader("the SSD engine", ssd_engine.read),
    "trtllm": LogReader("TensorRT-LLM", each_file(trtllm.read_one)),
    "llama-cpp": LogReader("llama.cpp", each_file(llama_cpp.read_one)),
    "transformers": LogReader("transformers", read_traces),
}
_ALSO = {"llama.cpp": "llama-cpp", "llamacpp": "llama-cpp", "hf": "transformers", "tensorrt-llm": "trtllm"}
_ALSO |= {"trace": "transformers", "ssd-engine": "ssd"}

NO_HITS = "hit rates stay unknown: an engine without a speculation cache cannot log them (ssdsim measure can)"


class PairLabels(Record):
    """Words of the user about the pair that its files lack; None where they do."""

    target: str | None = None
    draft: str | None = None
    temperature: float | None = None
    acceptance_rule: str | None = None


def engine_named(name: str) -> LogReader:
    """The engine of that name or of another spelling of it."""
    engine = ENGINES.get(_ALSO.get(name.lower(), name.lower()))
    if engine is None:
        raise InputError(f"unknown engine '{name}'{nearest(name, ENGINES)} Allowed: {', '.join(ENGINES)}")
    return engine


def import_acceptance(
    engine: str,
    files: Sequence[Path],
    sets: Mapping[str, Sequence[Path]],
    asked: ImportOptions,
    named: PairLabels,
    created: str | None = None,
) -> Pair:
    """The pair that an engine's files tell of.

    Parameters
    ----------
    engine : one of :data:`ENGINES`.
    files : a set each, called by its name; snapshots of counters are one set together.
    sets : files of sets with names of their own.
    asked : tokens a round, and how files are to be read.
    named : the models and the temperature, where no file says them.
    created : a date, for the provenance.
    """
    reader = engine_named(engine)
    logs = {name: reader.read(sources, asked) for name, sources in _sets(reader, files, sets).items()}
    by_name = {name: findings_of(log.counts, name, asked.k, asked.adaptive) for name, log in logs.items()}
    whole = _whole(logs, by_name, asked)
    first = next(iter(logs.values()))
    facts = [log.facts for log in logs.values()]
    served, drafted, temperature = (_said(name, facts) for name in ("model", "draft", "temperature"))
    where = ", ".join(path.name for path in (*files, *(path for paths in sets.values() for path in paths)))
    check_temperature(temperature, named.temperature, where)
    temperature = temperature if named.temperature is None else named.temperature
    findings = whole.findings.changed(cache=first.cache) if len(logs) == 1 else whole.findings
    warnings = [*dict.fromkeys(w for each in (whole, *by_name.values()) for w in each.warnings)]
    warnings += [warning for log in logs.values() for warning in log.warnings]
    paths = (*files, *(path for paths in sets.values() for path in paths))
    if temperature is None:
        warnings.append("the temperature is not in the files: give it by --temperature")
    if named.target is None and served is not None and transformer_called(served) is None:
        warnings.append(f"no card is called '{served}', as the model was served: say which it is by --target")
    return Pair(
        target=Participant(id=agreed_model(served, named.target, "target", where)),
        draft=Participant(id=agreed_model(drafted, named.draft, "draft", where)),
        how=first.how,
        settings=PairSettings(temperature=temperature, k=whole.k, acceptance_rule=named.acceptance_rule),
        requests=findings.count,
        by_temperature=(
            AtTemperature(
                **asdict(findings),
                temperature=temperature,
                sets={name: each.findings for name, each in by_name.items()} if len(by_name) > 1 else {},
            ),
        ),
        provenance=PairProvenance(
            ssdsim=__version__,
            created=created,
            engine=reader.title,
            files=tuple(path.name for path in paths),
            warnings=tuple(_without_folders(warning, paths) for warning in warnings),
            notes=(
                *(_without_folders(note, paths) for log in logs.values() for note in log.notes),
                *([] if any(log.cache for log in logs.values()) else [NO_HITS]),
            ),
        ),
    )


def _said(name: str, facts: Iterable[Facts]) -> Any:
    """What the first of the logs that does says."""
    return next((said for each in facts if (said := getattr(each, name)) is not None), None)


def _without_folders(text: str, paths: Iterable[Path]) -> str:
    """A pair is given away: where its files lay is nobody's business."""
    for path in paths:
        text = text.replace(str(path), path.name)
    return text


def _sets(reader: LogReader, files: Sequence[Path], sets: Mapping[str, Sequence[Path]]) -> dict[str, list[Source]]:
    """The files of each set, read."""
    sources: dict[str, list[Source]] = {}
    alone = [_source(path) for path in files]
    if alone and all(reader.together(source.text) for source in alone):
        sources[alone[-1].path.name] = alone
    else:
        for source in alone:
            name = source.path.stem if source.path.stem not in sources else source.path.name
            if name in sources:
                raise InputError(f"{source.path}: two files are called {name}: name their sets by --set NAME=FILE")
            sources[name] = [source]
    for name, paths in sets.items():
        if name in sources:
            raise InputError(f"--set {name} is there twice")
        sources[name] = [_source(path) for path in paths]
    if not sources:
        raise InputError("nothing to import: name a file, or --set NAME=FILE")
    return sources


def _source(path: Path) -> Source:
    return Source(path, read_printed(path, "log of an engine"))


def _whole(
    logs: Mapping[str, EngineLog], by_name: Mapping[str, ImportFindings], asked: ImportOptions
) -> ImportFindings:
    """All sets together, for the smallest lookahead of theirs."""
    if len(by_name) == 1:
        return next(iter(by_name.values()))
    k = min((each.k for each in by_name.values() if each.k is not None), default=None)
    counts = [counts for log in logs.values() for counts in log.counts]
    together = findings_of(counts, "all sets", k, asked.adaptive)
    return ImportFindings(together.findings, k, together.warnings)
