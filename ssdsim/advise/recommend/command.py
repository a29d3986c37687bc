"""What to paste for an engine: one way to start it that serves every batch, with a K for each; of one batch its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ssdsim import strategies
from ssdsim.advise.candidates import choices, fixed_options
from ssdsim.advise.export.dialect import Dialect
from ssdsim.advise.export.export import engine_of, export
from ssdsim.advise.recommend.deployment import INDIFFERENT, Deployment, score
from ssdsim.advise.recommend.recommendation import BatchAnswer
from ssdsim.advise.recommend.request import SearchRequest
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.question.options import DEFAULTS
from ssdsim.serving.schedule_file import Cell
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.protocols.axes import LOOKAHEAD
from ssdsim.transformer.forward import DATA_PARALLEL

_DEARER = 0.02  # of the score: what another placement must bring at a batch to be told of
SPECULATIVE_CONFIG = "speculative-config"
"""The name of vLLM's object, whose whole command line is that of the engine."""


class Command(Record):
    """Command to paste for the engine, with notes on what it cannot say."""

    text: str
    notes: tuple[str, ...]

    @property
    def with_notes(self) -> str:
        """The command with its notes as comments."""
        return "".join(f"# {note}\n" for note in self.notes) + self.text


class Launch(Record):
    """One placement that serves all batches: the deployment at each, and the command; None where no engine is named."""

    by_batch: Mapping[int, Deployment]
    command: Command | None


def launch(answers: Sequence[BatchAnswer], request: SearchRequest, what: str | None = None) -> Launch | None:
    """How to start an engine once for all batches that fit: where the least is lost over all; None where none fits.

    ``what`` to write: a runtime's engine, a file (``json``, ``csv``), or vLLM's ``speculative-config``; by default the
    engine of ``request``.
    """
    by_batch = together(answers)
    if not by_batch:
        return None
    named = what or request.options.get("engine")
    if named is None:
        return Launch(by_batch, None)
    form = {SPECULATIVE_CONFIG: "vllm", "json": "json", "csv": "csv"}.get(named)
    dialect = None if form is not None else engine_of(named)
    if dialect is not None and dialect.one is not None:
        return Launch(by_batch, _of_each(by_batch, dialect, request))
    if dialect is None and form is None:
        return Launch(by_batch, None)
    notes = [*_not_run(answers, request), *_other_placements(answers, by_batch)]
    return Launch(by_batch, _of_all(by_batch, form or dialect.name, request, tuple(notes)))  # type: ignore[union-attr]


def together(answers: Sequence[BatchAnswer]) -> dict[int, Deployment]:
    """The deployment at each batch, all of the placement that loses the least over them.

    Without a draft the target stays where it is. A batch at which that placement loses too much to be drawn, or has no
    room, is left out.
    """
    fitting = [answer for answer in answers if answer.best is not None]
    places = dict.fromkeys(_place(answer.best) for answer in fitting if answer.best is not None)
    found = [{answer.batch: _at(answer, place) for answer in fitting} for place in places]
    chosen = min(found, key=lambda at: sum(loss for _, loss in at.values()), default={})
    return {batch: deployment for batch, (deployment, _) in chosen.items() if deployment is not None}


_Place = tuple[Any, ...]


def _place(d: Deployment) -> _Place:
    return d.shape.tp, d.shape.ep, d.shape.data_parallel, d.shape.strategy, d.shape.devices.draft, d.shape.targets


def _at(answer: BatchAnswer, place: _Place) -> tuple[Deployment | None, float]:
    """What a placement serves a batch with, and what that loses."""
    assert answer.decision is not None
    losses, chosen = answer.decision.losses, answer.decision.chosen

    def serves(d: Deployment) -> bool:
        return _place(d) == place or (d.shape.strategy == Autoregressive.name and _place(d)[:3] == place[:3])

    if serves(chosen):
        return chosen, losses[chosen]
    own = [d for d in losses if serves(d)]
    best = min(own, key=losses.__getitem__, default=None)
    return best, 1.0 if best is None else losses[best]


def _not_run(answers: Sequence[BatchAnswer], request: SearchRequest) -> Iterator[str]:
    """A note on the strategy that the engine does not have and that would be worth the most."""
    worth: dict[str, dict[int, float]] = {}
    for answer in answers:
        for name, each in answer.unsupported.items():
            if request.engine.lacks(name) is not None and each.worth > 1.0 + INDIFFERENT:
                worth.setdefault(name, {})[answer.batch] = each.worth
    if worth:
        name, at = max(worth.items(), key=lambda of: max(of[1].values()))
        title, rates = strategies.ALL.named(name).title, [f"{each:.2f}" for each in sorted(at.values())]
        slower = "-".join(dict.fromkeys((rates[0], rates[-1])))
        where = f"{title} at {', '.join(map(str, at))} in flight"
        yield f"{request.engine.called} has no {title}: this is the best that it runs, {slower}x slower than {where}"


def _other_placements(answers: Sequence[BatchAnswer], by_batch: Mapping[int, Deployment]) -> Iterator[str]:
    """Notes on batches at which another placement is the better."""
    for answer in answers:
        best, here = answer.best, by_batch.get(answer.batch)
        if best is None or answer.decision is None:
            continue
        if here is None:
            yield f"not for {answer.batch} in flight: the answer there is {best.name}"
            continue
        more = answer.decision.losses[here] - answer.decision.loss.mean
        if more > _DEARER:
            yield f"at {answer.batch} in flight {best.name} is best; this command loses {100 * more:.0f} % more there"


def _of_all(by_batch: Mapping[int, Deployment], form: str, request: SearchRequest, notes: tuple[str, ...]) -> Command:
    """The text with a K for every batch up to the largest of a copy's; where one was asked for, with the K there."""
    every = list(by_batch.values())
    like = max(every, key=lambda d: (d.shape.strategy != Autoregressive.name, score(d, "user")))
    point = like.shape.point(request.options, like.copy_batch)
    names = set(fixed_options()) - {"strategies"}
    options = {name: value for name, value in point.items() if name in names}
    if like.shape.data_parallel:
        options["attention"] = DATA_PARALLEL
    try:
        text = export(
            form,
            context=[int({**DEFAULTS, **request.options}["context"])],
            seed=request.seed,
            **_looked_at(every, like, request),
            **options,
        )
    except InputError as error:
        return Command("", (str(error),))
    copies = max(d.copies for d in every)
    started = f"start it {copies} times, each on GPUs of its own, behind a router"
    own_notes = (note for note in text.notes if note not in text.doubts)  # the answer has said how sure it is
    return Command(text.text, (*([started] if copies > 1 else []), *notes, *own_notes))


def _looked_at(every: Sequence[Deployment], like: Deployment, request: SearchRequest) -> dict[str, Any]:
    """What the text chooses among: with or without drafts, K and the like, at every batch up to the largest.

    Of one batch it is as it was chosen there.
    """
    own = like.shape.strategy
    if len(every) == 1:
        settings = {name: [value] for name, value in like.shape.speculation if name in choices()}
        return {"strategies": [own], "b": [like.copy_batch], **settings}
    batches = {d.copy_batch for d in every}
    batches |= {1 << n for n in range(max(batches).bit_length())}
    ks = {
        axis.option: list(values or ()) for axis, values in request.axes[own].items() if axis.option == LOOKAHEAD.option
    }
    return {"strategies": list(dict.fromkeys([Autoregressive.name, own])), "b": sorted(batches), **ks}


def _of_each(by_batch: Mapping[int, Deployment], dialect: Dialect, request: SearchRequest) -> Command:
    """A command a batch, of exactly its deployment."""
    assert dialect.one is not None
    lines = []
    try:
        if dialect.check is not None:
            dialect.check(request.options)
        for batch, each in by_batch.items():
            lines += [f"# {batch} in flight: {each.name}"] * (len(by_batch) > 1)
            lines.append(dialect.one(_cell(each), request.options))
    except InputError as error:
        return Command("", (str(error),))
    return Command("\n".join(lines) + "\n", ())


def _cell(d: Deployment) -> Cell:
    settings, strategy = d.scenario.settings, strategies.ALL.named(d.shape.strategy)
    deployed = {**dict(d.shape.speculation), **{name: settings.get(name) for name in strategy.deployed}}
    return Cell(
        b=d.copy_batch,
        context=settings["context"],
        strategy=strategy.name,
        settings={name: value for name, value in deployed.items() if value is not None},
        gpus=d.shape.gpus,
    )
