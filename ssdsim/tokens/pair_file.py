"""``pair.json``: what was measured of a target and its draft, or read from an engine's log.

A field that a source cannot know is None, never a default: an engine's counters know no hit rates, its log no
temperature. ``ssdsim measure`` and ``ssdsim import acceptance`` write it; ``--pair`` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from os.path import expanduser, isfile
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from ssdsim.base.bundled import Shelf
from ssdsim.base.card import Card, Finite, NotNegative
from ssdsim.base.conversion import FieldError
from ssdsim.base.documents import as_record, read_json
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.files import while_unchanged, write_whole
from ssdsim.tokens.pair_routing import Routing

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Number = Annotated[int, Meta(ge=0, le=10**15)]
Bounds = tuple[Finite, Finite]
"""Low and high of a 95 % interval."""
Point = tuple[Annotated[int, Meta(ge=1)], Share, Share | None, Share | None]
"""A fan-out, its hit rate, and the bounds of that."""

LEAST_R2, MOST_ERROR = 0.98, 0.03
"""A power law whose R^2 (log-log) or largest error of a hit rate is worse misfits: the curve itself is used."""


def survival_of(rates: Sequence[float | None]) -> tuple[float | None, ...]:
    """The running product of conditional rates by position; None from the first on that is not known."""
    survival: list[float | None] = []
    reached: float | None = 1.0
    for rate in rates:
        reached = None if rate is None or reached is None else reached * rate
        survival.append(reached)
    return tuple(survival)


class Participant(Card):
    """A model of the pair; ``id`` is a Hugging Face id, a folder, a file, or the name that an engine served it by."""

    id: str | None = None
    revision: str | None = None
    config_sha256: str | None = None
    tokenizer_sha256: str | None = None
    vocabulary: Number | None = None
    parameters: Number | None = None
    dtype: str | None = None


class Mean(Card):
    """A mean with its 95 % interval."""

    mean: Finite | None = None
    low: Finite | None = None
    high: Finite | None = None


class Length(Card):
    """Tokens a round, bonus included: over all rounds, and as the mean of the requests' own means.

    ``histogram[j]`` counts rounds in which j drafted tokens were accepted, of ``rounds`` in all; ``k`` were drafted.
    ``undrafted`` more, in which nothing was drafted, yielded a token each and are rounds of ``pooled`` alone.
    """

    pooled: NotNegative | None = None
    pooled_low: NotNegative | None = None
    pooled_high: NotNegative | None = None
    mean_of_requests: NotNegative | None = None
    histogram: tuple[Number, ...] | None = None
    rounds: Number | None = None
    k: Annotated[int, Meta(ge=1)] | None = None
    drafted: Number | None = None
    accepted: Number | None = None
    undrafted: Number | None = None

    @property
    def drafted_share(self) -> float | None:
        """The share of rounds in which anything was drafted; None where it is not known."""
        if self.undrafted is None or not self.rounds:
            return None
        return self.rounds / (self.rounds + self.undrafted)

    def __post_init__(self) -> None:
        if self.histogram is not None and self.rounds is not None and sum(self.histogram) != self.rounds:
            raise ValueError(f"the histogram counts {sum(self.histogram)} rounds, but there are {self.rounds}")


class RequestSpread(Card):
    """Differences of requests: a Beta of acceptance rates, ``concentration`` its a + b; None where they are alike."""

    beta_mean: Share | None = None
    concentration: NotNegative | None = None
    low: NotNegative | None = None
    high: NotNegative | None = None
    alike: bool | None = None
    rates: tuple[Share, ...] | None = None


class HitLaw(Card):
    """P(the bonus token is among F guesses): the measured curve, and the power law ``1 - c F^-r`` fitted to it."""

    curve: tuple[Point, ...] | None = None
    c: Share | None = None
    r: NotNegative | None = None
    c_interval: Bounds | None = None
    r_interval: Bounds | None = None
    r2: Finite | None = None
    max_error: NotNegative | None = None
    by_k: tuple[Share | None, ...] | None = None
    trials: NotNegative | None = None

    def __post_init__(self) -> None:
        for before, after in pairwise(self.curve or ()):
            if after[0] <= before[0]:
                raise FieldError("curve", f"fan-outs must increase, but {after[0]} follows {before[0]}")
            if after[1] < before[1]:
                fall = f"{after[1]:g} at {after[0]} follows {before[1]:g}"
                raise FieldError("curve", f"hit rates must not fall, but {fall}")

    @property
    def fits(self) -> bool | None:
        """Say whether the law describes the curve; None where either is not known."""
        if self.c is None or self.r is None or self.r2 is None or self.max_error is None:
            return None
        return self.r2 >= LEAST_R2 and self.max_error <= MOST_ERROR


class Hits(Card):
    """Hit curves by what the round before did: after a rejection, after all K accepted, after each backup by name."""

    rejected: HitLaw | None = None
    all_accepted: HitLaw | None = None
    after_backup: dict[str, HitLaw] = field(default_factory=dict)

    @property
    def laws(self) -> dict[str, HitLaw]:
        """Known laws of hits, by what comes before: a rejection, all accepted, a backup of that name."""
        first = {"a rejection": self.rejected, "all accepted": self.all_accepted}
        return {name: law for name, law in first.items() if law is not None} | self.after_backup


class Saguaro(Card):
    """Acceptance and hits with the draft's top F tokens scaled by C."""

    c: Share
    f: Annotated[int, Meta(ge=1)]
    k: Annotated[int, Meta(ge=1)] | None = None
    alpha: Share | None = None
    tokens: NotNegative | None = None
    hit_rejected: Share | None = None
    p_hit: Share | None = None


class Backup(Card):
    """A backup's speculation: how often it has one (``coverage``), how many tokens a round it yields."""

    coverage: Share | None = None
    alpha: Share | None = None
    alpha_k: tuple[Share | None, ...] | None = None
    length: NotNegative | None = None
    k: Annotated[int, Meta(ge=1)] | None = None


class Batch(Card):
    """Rounds of ``b`` requests in lockstep: P(all hit), with a 95 % interval over requests (``low``, ``high``).

    Beside it p^b of the same rounds, and the mean product of the requests' own rates. ``concentration`` is that of a
    Beta shared by the batch, of mean p, whose b-th moment is P(all hit): None where p^b lies in the interval or above.
    """

    b: Annotated[int, Meta(ge=1)]
    p_all_hit: Share | None = None
    low: Share | None = None
    high: Share | None = None
    independent: Share | None = None
    by_request: Share | None = None
    concentration: NotNegative | None = None


class Correlation(Card):
    """Correlation of rounds: those of a request (``lag1`` of accepts, ``lag1_hits``, ``icc`` of hits), of a batch."""

    lag1: Finite | None = None
    lag1_hits: Finite | None = None
    icc: Finite | None = None
    batch: tuple[Batch, ...] = ()


class Independence(Card):
    """Chi-square test of the lengths against one rate at all positions, and the length that the rate alone gives."""

    chi2: NotNegative | None = None
    p: Share | None = None
    length: NotNegative | None = None


class Cache(Card):
    """Figures that an engine logged of its speculation cache; lengths are tokens a round, bonus included."""

    p_hit: Share | None = None
    length: NotNegative | None = None
    length_on_hit: NotNegative | None = None
    length_on_miss: NotNegative | None = None
    f: Annotated[int, Meta(ge=1)] | None = None


class Findings(Card):
    """Findings about the pair on one set of requests at one temperature.

    ``alpha_k[i]`` is P(position i + 1 accepted | those before it are), with ``alpha_k_bounds`` and ``trials`` (rounds
    that came so far); ``survival[i]`` is P(at least i + 1 accepted), the running product of ``alpha_k``. ``overlap`` is
    the mean of sum min(p, q), a second estimate of ``alpha``.
    """

    alpha: Mean = field(default_factory=Mean)
    overlap: Share | None = None
    alpha_k: tuple[Share | None, ...] | None = None
    alpha_k_bounds: tuple[Bounds | None, ...] | None = None
    trials: tuple[NotNegative, ...] | None = None
    survival: tuple[Share | None, ...] | None = None
    length: Length = field(default_factory=Length)
    requests: RequestSpread = field(default_factory=RequestSpread)
    hits: Hits = field(default_factory=Hits)
    saguaro: tuple[Saguaro, ...] = ()
    backups: dict[str, Backup] = field(default_factory=dict)
    correlation: Correlation = field(default_factory=Correlation)
    independence: Independence | None = None
    cache: Cache | None = None
    count: Number | None = None
    tokens: Number | None = None

    @property
    def rates(self) -> tuple[float, ...]:
        """The conditional rates by position, as far as they are known; 0 at those that no round came to."""
        known: list[float] = []
        for rate in self.alpha_k or ():
            if rate is None and 0.0 not in known:
                break
            known.append(0.0 if rate is None else rate)
        return tuple(known)


class AtTemperature(Findings):
    """All requests at one temperature (None where the source does not say it), and each data set apart."""

    temperature: NotNegative | None = None
    sets: dict[str, Findings] = field(default_factory=dict)


class PairSettings(Card):
    """Settings that the tokens were made with."""

    temperature: NotNegative | None = None
    top_p: NotNegative | None = None
    top_k: Number | None = None
    processors: dict[str, Any] | None = None
    draft_sampling: Literal["same", "raw"] | None = None
    acceptance_rule: str | None = None
    saguaro_width: Literal["F", "F+1"] | None = None
    starts: str | None = None
    max_new_tokens: Number | None = None
    k: Annotated[int, Meta(ge=1)] | None = None
    seed: int | None = None
    dtype: str | None = None
    chat_template: str | None = None


class Greedy(Card):
    """A real greedy loop against the target alone: requests with the same tokens, and where near ties decided."""

    requests: Number | None = None
    identical: Number | None = None
    near_ties: Number | None = None
    bugs: Number | None = None
    largest_gap: NotNegative | None = None
    tolerance: NotNegative | None = None


class Sampling(Card):
    """Tokens sampled by a real loop against the target's distribution."""

    chi2: NotNegative | None = None
    degrees: Number | None = None
    p: Share | None = None
    passed: bool | None = None


class Lossless(Card):
    """Verdict on a real loop: whether it kept the target's tokens."""

    greedy: Greedy | None = None
    sampling: Sampling | None = None


class PairProvenance(Card):
    """Origin of the numbers: who wrote the file when, from which files, and what was said about them."""

    ssdsim: str | None = None
    created: str | None = None
    engine: str | None = None
    files: tuple[str, ...] = ()
    device: str | None = None
    libraries: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Role = Literal["target", "draft"]


class Pair(Card):
    """The file. ``how`` is ``teacher-forced``, ``loop``, or the log that was read (``vllm-metrics``, ...).

    ``routing`` is of the models that are mixtures of experts.
    """

    schema_: Literal[1] = field(default=1, name="schema")
    kind: Literal["pair"] = "pair"
    target: Participant = field(default_factory=Participant)
    draft: Participant = field(default_factory=Participant)
    how: str
    settings: PairSettings = field(default_factory=PairSettings)
    requests: Number | None = None
    tokens: Number | None = None
    by_temperature: Annotated[tuple[AtTemperature, ...], Meta(min_length=1)]
    lossless: Lossless | None = None
    routing: dict[Role, Routing] | None = None
    provenance: PairProvenance = field(default_factory=PairProvenance)

    def __post_init__(self) -> None:
        temperatures = [each.temperature for each in self.by_temperature]
        if len(set(temperatures)) < len(temperatures):
            raise FieldError("by_temperature", f"each temperature must be there once, got {temperatures}")

    @property
    def temperatures(self) -> tuple[float | None, ...]:
        return tuple(each.temperature for each in self.by_temperature)

    def to_json(self) -> str:
        """One JSON object, schema 1; everything that is not known is null."""
        return json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(path, self.to_json())


def load_pair(path: str | Path) -> Pair:
    """The bundled pair of that name, or the pair in a file; read again only when it has changed."""
    at = Path(expanduser(str(path)))
    if isfile(at):
        return _read(at)
    named = PAIRS.bundled(str(path).lower().removesuffix(PAIRS.suffix))
    if named is None:
        bundled = f"{nearest(at.stem, PAIRS.names())} Bundled: {', '.join(PAIRS.names())}"
        raise InputError(f"{path}: no pair there{bundled}; 'ssdsim measure' or 'ssdsim import acceptance' writes one")
    return named


@while_unchanged
def _read(path: Path) -> Pair:
    data = read_json(path, "pair")
    if not isinstance(data, dict) or data.get("kind") != "pair":
        raise InputError(f'{path}: not a pair: it must be a JSON object with "kind": "pair"')
    return as_record(Pair, data, path, "pair")


PAIRS = Shelf("pair", "pairs", ".json", _read)
"""The bundled pairs."""
