"""The pair file that a folder of records makes, and the warnings that stand beside its numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from msgspec import field

from calibration.pairs.analysis import Questions, by_temperature
from calibration.pairs.curves import FEW
from calibration.pairs.records import RecordFolder
from ssdsim import __version__
from ssdsim.base.card import Card
from ssdsim.base.documents import as_record, read_json
from ssdsim.base.files import write_whole
from ssdsim.tokens.pair_file import AtTemperature, Lossless, Pair, PairProvenance, PairSettings, Participant, Role
from ssdsim.tokens.pair_routing import Routing

HOW = "teacher-forced"


class About(Card):
    """The origin of records: on which device, with which libraries, of which files, how many tokens a position."""

    device: str | None = None
    libraries: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    top: int | None = None


_LOSSLESS = "lossless.json"
_ROUTING = "routing.json"


def header_of(
    target: Participant, draft: Participant, settings: PairSettings, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Header of a folder of records."""
    return {
        "target": target.as_dict(),
        "draft": draft.as_dict(),
        "settings": settings.as_dict(),
        "about": dict(about),
    }


def pair_of(
    folder: RecordFolder,
    asked: Questions,
    lossless: Lossless | None = None,
    routing: dict[Role, Routing] | None = None,
) -> Pair:
    """The pair that the records describe; ``lossless`` is what a loop found, ``routing`` what routers chose."""
    header = folder.header
    target, draft = (as_record(Participant, header.get(role), folder.path, role) for role in ("target", "draft"))
    settings = as_record(PairSettings, header.get("settings"), folder.path, "settings")
    about = as_record(About, header.get("about"), folder.path, "about")
    requests = list(folder.requests())
    vocabulary = min(each.vocabulary or 0 for each in (target, draft))
    temperatures = {request.temperature for request in requests}
    pair = Pair(
        target=target,
        draft=draft,
        how=HOW,
        settings=settings.changed(
            temperature=temperatures.pop() if len(temperatures) == 1 else None,
            k=asked.k,
            starts=asked.starts,
            saguaro_width=asked.width,
        ),
        requests=len({request.id for request in requests}),
        tokens=sum(map(len, requests)),
        by_temperature=by_temperature(requests, vocabulary, asked),
        lossless=lossless,
        routing=routing,
        provenance=PairProvenance(
            ssdsim=__version__,
            created=date.today().isoformat(),
            device=about.device,
            libraries=about.libraries,
            files=about.files,
        ),
    )
    said = pair.provenance.changed(warnings=tuple(doubts(pair)))
    return pair.changed(provenance=said)


def keep_lossless(folder: RecordFolder, lossless: Lossless) -> None:
    """Keep the verdict beside the records, for whoever analyses them again."""
    write_whole(folder.path / _LOSSLESS, lossless.as_json(indent=1) + "\n")


def keep_routing(folder: RecordFolder, routings: Mapping[Role, Routing]) -> None:
    """Keep the routing beside the records likewise."""
    said = {role: routing.as_dict() for role, routing in routings.items()}
    write_whole(folder.path / _ROUTING, json.dumps(said, indent=1) + "\n")


def said_of_routing(folder: RecordFolder) -> dict[Role, Routing] | None:
    """The stored routing of the last count; None if there is none."""
    file = folder.path / _ROUTING
    if not file.is_file():
        return None
    document = read_json(file, "finding")
    roles: tuple[Role, ...] = ("target", "draft")
    return {role: as_record(Routing, document[role], file, "finding") for role in roles if role in document}


def said_of_loops(folder: RecordFolder) -> Lossless | None:
    """The stored verdict of the last loops; None if there is none."""
    file = folder.path / _LOSSLESS
    return as_record(Lossless, read_json(file, "finding"), file, "finding") if file.is_file() else None


_DIFFERENT = 0.05
_SIGNIFICANT = 0.001


def doubts(pair: Pair) -> Iterator[str]:
    """Warnings about the pair's numbers, a line each, the worst first within a temperature."""
    target, draft = pair.target.parameters, pair.draft.parameters
    if target is not None and draft is not None and draft > target:
        yield f"the draft has more parameters than the target ({draft:,} and {target:,}): are they exchanged?"
    for at in pair.by_temperature:
        where = "" if at.temperature is None else f"temperature {at.temperature:g}: "
        for doubt in _of(at):
            yield where + doubt


def _of(at: AtTemperature) -> Iterator[str]:
    pooled, mean = at.length.pooled, at.length.mean_of_requests
    if pooled and mean and abs(mean / pooled - 1.0) > _DIFFERENT:
        yield (
            f"tokens a round are {pooled:.2f} over all rounds, {mean:.2f} as the mean of requests: they differ, and a "
            "server's throughput follows the former"
        )
    if at.independence is not None and (at.independence.p or 0.0) < _SIGNIFICANT and at.independence.length and pooled:
        yield (
            f"one acceptance rate does not describe the lengths: it gives {at.independence.length:.2f} tokens a round "
            f"in place of {pooled:.2f}; rates by position are used"
        )
    misfits = [f"after {name}" for name, law in at.hits.laws.items() if law.fits is False]
    if misfits:
        yield f"no power law {', '.join(misfits)}: the measured curves are used"
    few = [i + 1 for i, count in enumerate(at.trials or ()) if count < FEW]
    if few:
        yield f"rates from position {few[0]} on rest on fewer than {FEW:.0f} rounds each"
    for batch in reversed(at.correlation.batch):
        if batch.concentration is not None and batch.p_all_hit is not None and batch.independent is not None:
            yield (
                f"misses cluster: all {batch.b} requests of a batch hit in {batch.p_all_hit:.1%} of rounds, "
                f"independent ones would in {batch.independent:.1%}"
            )
            return
