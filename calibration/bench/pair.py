"""Rows of a server that speculated, as the pair of models that they tell of."""

from __future__ import annotations

from collections.abc import Sequence

from ssdsim import __version__
from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from ssdsim.readers.acceptance.counts import Counts, of_positions, of_totals, pooled
from ssdsim.readers.acceptance.findings import findings_of
from ssdsim.readers.acceptance.read import NO_HITS
from ssdsim.readers.row import Row
from ssdsim.tokens.pair_file import AtTemperature, Pair, PairProvenance, PairSettings, Participant


def pair_of(rows: Sequence[Row], temperature: float, file: str, created: str) -> Pair:
    """All rounds of the rows together; they must be of one target, one drafter and one K."""
    told = [row for row in rows if row.rounds]
    if not told:
        raise InputError(f"{file}: no row counts rounds of speculation, so there is no pair")
    if len({(row.model, row.draft, row.drafter) for row in told}) > 1:
        raise InputError(f"{file}: rows of several pairs; keep those of one for --pair")
    counts = pooled(file, [_counts(row, f"{file}, batch {row.batch}") for row in told])
    k = min(row.k for row in told if row.k is not None)
    findings = findings_of([counts], file, None if counts.varied else k)
    return Pair(
        target=Participant(id=told[0].model),
        draft=Participant(id=told[0].draft),
        how="bench",
        settings=PairSettings(temperature=temperature, k=findings.k),
        by_temperature=(AtTemperature(**dict(findings.findings), temperature=temperature),),
        provenance=PairProvenance(
            ssdsim=__version__,
            created=created,
            engine=" ".join(filter(None, (told[0].engine, told[0].engine_version))),
            files=(file,),
            warnings=findings.warnings,
            notes=(NO_HITS,),
        ),
    )


def _counts(row: Row, where: str) -> Counts:
    assert row.rounds
    drafted = None if row.drafted_per_round is None else row.drafted_per_round * row.rounds
    if row.accepted_by_position is not None:
        survived = [share * row.rounds for share in row.accepted_by_position]
        counts = of_positions(where, row.rounds, sum(survived), drafted, survived)
    else:
        steps = row.rounds + (row.undrafted_rounds or 0.0)
        accepted = ((row.acceptance_length or 1.0) - 1.0) * steps
        counts = of_totals(where, row.rounds, accepted, drafted, row.k)
    return replace(counts, undrafted=row.undrafted_rounds)
