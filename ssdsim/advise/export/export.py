"""A schedule as a file or as an engine's configuration, with notes on what the engine cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ssdsim import strategies
from ssdsim.advise.candidates import Candidates, candidates
from ssdsim.advise.export import llama_cpp, sglang, ssd_engine, trtllm, vllm
from ssdsim.advise.export.dialect import Dialect
from ssdsim.advise.schedule import PolicyOfK, inputs_behind, of_candidates, policy_of_k
from ssdsim.answers.evidence import condition
from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.option import spelled
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.runtime_catalog import BY_DEFAULT, find_runtime, runtime_of
from ssdsim.question.drafting import drafter_by_options
from ssdsim.question.engines import titles
from ssdsim.question.options import ALL, DEFAULTS
from ssdsim.question.spellings import any_spelling
from ssdsim.question.token_inputs import TokenInput
from ssdsim.serving.batching import KTable
from ssdsim.serving.schedule_file import Schedule
from ssdsim.transformer.operations import DTYPES

if TYPE_CHECKING:
    from ssdsim.question.typed_options import Axes


_FILES: Mapping[str, Callable[[Schedule], str]] = {"json": Schedule.to_json, "csv": Schedule.to_csv}
_ENGINES: Mapping[str, Dialect] = {
    each.name: each
    for each in (vllm.DIALECT, vllm.SERVE, sglang.DIALECT, trtllm.DIALECT, llama_cpp.DIALECT, ssd_engine.DIALECT)
}
FORMATS = (*_FILES, *_ENGINES)
_SHOWN = 12  # lines at the prompt


class Exported(Displayable, Record):
    """``text`` for the engine (or a file); ``notes`` say what it leaves out; ``warnings`` are of the timings.

    ``inputs`` are what its tokens rest on; ``doubts`` those of the notes that say what would change with them.

    Where nothing fits, ``refusal`` says why; an engine's text is then empty, a schedule holds the reason of each cell.
    """

    text: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    inputs: tuple[TokenInput, ...]
    refusal: str | None = None
    doubts: tuple[str, ...] = ()

    @property
    def display(self) -> Display:
        """The first lines of the text, and how much there is to read beside it."""
        first, more = self.text.splitlines()[:_SHOWN], self.text.count("\n") - _SHOWN
        cut = [f"... {more} more lines in .text"] if more > 0 else []
        beside = f"{len(self.notes)} in .notes, {len(self.warnings)} in .warnings"
        return Display(self.refusal or "\n".join([*first, *cut]), sentence=beside)


@any_spelling
def export(
    format: str,
    *,
    seed: int = 0,
    k_table: KTable | str | Sequence[Sequence[int]] | None = None,
    **options: Unpack[Axes],
) -> Exported:
    """The best strategy for every batch and context, as an engine takes it.

    Parameters
    ----------
    format : ``json`` or ``csv``, the whole :class:`ssdsim.Schedule`; ``vllm``, the object of
        ``--speculative-config`` with its table over batch sizes; ``vllm-serve``, ``sglang``, ``trtllm`` and
        ``llama-cpp``, the whole command line of a server; ``ssd``, a ``bench.py`` command line of the SSD paper's
        engine for each batch and context.
    seed : of the draws behind the intervals.
    k_table : of a schedule, that of a table or a policy of K in place of the best (:func:`ssdsim.schedule`).
    options : those of :func:`ssdsim.advise.candidates.candidates`.

    Returns
    -------
    Exported : the ``text``, with notes on what the engine cannot do; a ``refusal`` where nothing fits.

    Raises
    ------
    InputError : an unknown format; an engine that has none of the strategies, or not the models or the drafter; what
        the candidates raise.

    >>> from ssdsim import export
    >>> import json
    >>> head = {"target": "llama-3.1-8b", "drafter": "eagle3", "tp": 1, "strategies": "ar,sd", "engine": "vllm"}
    >>> made = export("vllm", b=[1, 16, 256], k=[2, 4, 6], alpha=0.8, **head)
    >>> json.loads(made.text)["num_speculative_tokens_per_batch_size"]
    [[1, 63, 6], [64, 256, 2]]
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise InputError(f"unknown format '{format}'{nearest(format, FORMATS)} Allowed: {', '.join(FORMATS)}")
    engine = _ENGINES.get(format)
    if k_table is not None:
        if engine is not None:
            raise InputError(f"--k-table is for --format {' and '.join(_FILES)}: {format} is told the best table of K")
        return _of_policy(_FILES[format], policy_of_k(k_table, **options), seed)
    given: dict[str, Any] = {**options}
    notes: list[str] = []
    own: tuple[str, ...] = ()
    asked = given.get("strategies")
    names = ALL["strategies"].checked(strategies.DEFAULT if asked is None else asked)
    if engine is not None:
        engine = engine.priced_on(given)
        given = _on_its_runtime(engine, _fixed(engine, given, notes))
        own = _sharing(engine, engine.among(names, drafter_by_options(given)), given, notes)
        engine.check_tests(given)
        if engine.check is not None:
            engine.check(given)
    possible = candidates(seed=seed, **given)
    inputs = inputs_behind(possible)
    doubts = standing_notes(possible, names if engine is None else own, inputs) if possible.cells else []
    notes += doubts
    if engine is not None:
        notes += _formats(given)
    for (b, context), reason in possible.impossible.items():
        notes.append(f"nothing for batch {b}, context {context}: {reason}")
    refusal = f"nothing fits: {next(iter(possible.impossible.values()))}" if not possible.cells else None
    if engine is None:
        text = _FILES[format](of_candidates(possible))
    else:
        if not refusal and not any(d.shape.strategy in own for each in possible.cells.values() for d in each):
            refusal = f"nothing fits that {engine.title} has: {titles(own, 'or')} cannot run here"
        text = "" if refusal else engine.write(engine, possible, own, notes)
    return Exported(text, tuple(notes), tuple(possible.warnings), inputs, refusal, tuple(doubts))


def _of_policy(write: Callable[[Schedule], str], policy: PolicyOfK, seed: int) -> Exported:
    notes = [
        f"nothing for batch {each.b}, context {each.context}: {each.reason}" for each in policy.cells if each.reason
    ]
    refusal = None if policy.configurations else f"nothing fits: {policy.cells[0].reason}"
    return Exported(write(policy.schedule(seed)), tuple(notes), policy.warnings, policy.inputs, refusal)


def engine_of(runtime: str) -> Dialect | None:
    """The dialect of the engine that a runtime is of, for a command line; None where none is known."""
    of = find_runtime(runtime).engine
    commands = (vllm.SERVE, sglang.DIALECT, trtllm.DIALECT, llama_cpp.DIALECT, ssd_engine.DIALECT)
    engine = next((each for each in commands if find_runtime(each.runtime).engine == of), None)
    return engine and engine.priced_on({"engine": runtime})


def _formats(options: Mapping[str, Any]) -> list[str]:
    """A note if formats were given: an engine reads the weights' format from its checkpoint."""
    asked = [f"{spelled(name)} {options[name]}" for name in ("dtype", "kv_dtype", "draft_dtype") if options.get(name)]
    said = f"priced with {', '.join(asked)}: name checkpoints in these formats, and give the engine the cache's dtype"
    return (
        [said] if any(options.get(name) not in (None, *DTYPES) for name in ("dtype", "kv_dtype", "draft_dtype")) else []
    )


def _sharing(engine: Dialect, names: tuple[str, ...], options: Mapping[str, Any], notes: list[str]) -> tuple[str, ...]:
    """Those of ``names`` that the engine runs with as many devices that share a cache as are asked for."""
    lack, how_far = engine.drafted_by(drafter_by_options(options)).said_of_sharing(names, options.get("dcp"))
    shared = tuple(name for name in names if lack is None or name in engine.runs.dcp)
    if not shared:
        raise InputError(f"--format {engine.name}: {lack}{f'; it has {how_far}' if how_far else ''}")
    notes += [f"--dcp on {engine.title}: {how_far}"] if how_far else []
    return shared


def _on_its_runtime(engine: Dialect, options: dict[str, Any]) -> dict[str, Any]:
    """Priced as the engine itself runs, unless a runtime is given or belongs to the profile."""
    hardware = options.get("hardware") or DEFAULTS["hardware"]
    if options.get("engine") is not None or not isinstance(hardware, str):
        return options
    _, why = runtime_of(find_hardware(hardware), hardware)
    return {**options, "engine": engine.runtime} if why == BY_DEFAULT else options


def _fixed(engine: Dialect, options: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The options with those that the engine fixes, as far as they are given."""
    fixed = dict(options)
    for name, (value, note) in engine.fixed().items():
        if options.get(name) not in (None, value):
            fixed[name] = value
            notes.append(note)
    return fixed


def standing_notes(candidates: Candidates, names: Sequence[str], inputs: Sequence[TokenInput]) -> list[str]:
    """Notes on what ``names`` assume of tokens, and on cells where the choice is not clear."""
    assumed = condition(each for each in inputs if not set(names).isdisjoint(each.read_by))
    notes = [f"{assumed}this is best: measure it and give --pair"] if assumed else []
    cells = candidates.best(names)
    doubtful = [each for each in cells if each.decision.word != "clear"]
    if doubtful:
        worst = max(doubtful, key=lambda each: each.decision.loss.mean)
        notes.append(
            f"at {len(doubtful)} of {len(cells)} cells another choice may be better: at batch {worst.b}, context "
            f"{worst.context} this loses {worst.decision.loss.mean:.0%} on average to the best that could be known"
        )
    return notes
