"""The pair's file, made of a folder of records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any

from pydantic import Field

from calibration.pairs.analysis import by_temperature
from calibration.pairs.doubts import doubts
from calibration.pairs.questions import Questions
from calibration.pairs.records import RecordFolder
from ssdsim import __version__
from ssdsim.base.documents import as_record, read_json
from ssdsim.base.files import write_whole
from ssdsim.base.records import FROM_LIST, Card
from ssdsim.tokens.pair_file import Lossless, Pair, Participant, Provenance, Role, Settings
from ssdsim.tokens.pair_routing import Routing

HOW = "teacher-forced"


class About(Card):
    """The origin of records: on which device, with which libraries, of which files, how many tokens a position."""

    device: str | None = None
    libraries: dict[str, str] = Field(default_factory=dict)
    files: Annotated[tuple[str, ...], FROM_LIST] = ()
    top: int | None = None


_LOSSLESS = "lossless.json"
_ROUTING = "routing.json"


def header_of(target: Participant, draft: Participant, settings: Settings, about: Mapping[str, Any]) -> dict[str, Any]:
    """Header of a folder of records."""
    return {
        "target": target.model_dump(mode="json"),
        "draft": draft.model_dump(mode="json"),
        "settings": settings.model_dump(mode="json"),
        "about": dict(about),
    }


def pair_of(
    folder: RecordFolder,
    asked: Questions,
    lossless: Lossless | None = None,
    routing: dict[Role, Routing] | None = None,
) -> Pair:
    """The pair that the records speak of; ``lossless`` is what a loop found, ``routing`` what routers chose."""
    header = folder.header
    target, draft = (as_record(Participant, header.get(role), folder.path, role) for role in ("target", "draft"))
    settings = as_record(Settings, header.get("settings"), folder.path, "settings")
    about = as_record(About, header.get("about"), folder.path, "about")
    requests = list(folder.requests())
    vocabulary = min(each.vocabulary or 0 for each in (target, draft))
    temperatures = {request.temperature for request in requests}
    pair = Pair(
        target=target,
        draft=draft,
        how=HOW,
        settings=settings.model_copy(
            update={
                "temperature": temperatures.pop() if len(temperatures) == 1 else None,
                "k": asked.k,
                "starts": asked.starts,
                "saguaro_width": asked.width,
            }
        ),
        requests=len({request.id for request in requests}),
        tokens=sum(map(len, requests)),
        by_temperature=by_temperature(requests, vocabulary, asked),
        lossless=lossless,
        routing=routing,
        provenance=Provenance(
            ssdsim=__version__,
            created=date.today().isoformat(),
            device=about.device,
            libraries=about.libraries,
            files=about.files,
        ),
    )
    said = pair.provenance.model_copy(update={"warnings": tuple(doubts(pair))})
    return pair.model_copy(update={"provenance": said})


def keep_lossless(folder: RecordFolder, lossless: Lossless) -> None:
    """Keep the verdict beside the records, for whoever analyses them again."""
    write_whole(folder.path / _LOSSLESS, lossless.model_dump_json(indent=1) + "\n")


def keep_routing(folder: RecordFolder, routings: Mapping[Role, Routing]) -> None:
    """Keep the routing beside the records likewise."""
    said = {role: routing.model_dump(mode="json") for role, routing in routings.items()}
    write_whole(folder.path / _ROUTING, json.dumps(said, indent=1) + "\n")


def said_of_routing(folder: RecordFolder) -> dict[Role, Routing] | None:
    """Read what routers chose when texts were last counted; None where they never were."""
    file = folder.path / _ROUTING
    if not file.is_file():
        return None
    document = read_json(file, "finding")
    roles: tuple[Role, ...] = ("target", "draft")
    return {role: as_record(Routing, document[role], file, "finding") for role in roles if role in document}


def said_of_loops(folder: RecordFolder) -> Lossless | None:
    """Read what was found when loops were last run; None where they never were."""
    file = folder.path / _LOSSLESS
    return as_record(Lossless, read_json(file, "finding"), file, "finding") if file.is_file() else None
