"""Replay what was published of drafters: rounds over K, chains and trees from rates, rounds from their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, of_one_length
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.question.configuration import configure
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.sd import Speculative
from ssdsim.tokens.acceptance import accepted_length_pmf, expected_tokens_of_pmf
from ssdsim.tokens.trees.drafted import RANKS, Drafted, DynamicTrees, RankModel, StaticTree
from ssdsim.tokens.trees.shape import Tree

Positive = Annotated[float, Meta(ge=1e-9, le=1e9)]
Lookahead = Annotated[int, Meta(ge=0, le=1000)]
Values = tuple[Positive, ...]
Rate = Annotated[float, Meta(ge=0.0, le=1.0)]
Level = Annotated[tuple[Rate, ...], Meta(min_length=1)]
Levels = Annotated[tuple[Level, ...], Meta(min_length=1)]
Path = Annotated[str, Meta(pattern=r"\A[1-9]+\Z", description="must be the ranks from the root on, such as 13")]
"""Of a node of a tree."""
_ROUNDING = 1e-9  # of a sum of rates


class Replayed(Record):
    """Published values with what is predicted of them, ``within`` which relative error they should lie.

    ``judged`` are the rows that nothing was fitted to, all where nothing was; ``fitted`` says what was.
    """

    about: str
    unit: str
    labels: tuple[str, ...]
    published: Array
    predicted: Array
    within: float
    judged: tuple[bool, ...]
    fitted: str = ""

    @property
    def errors(self) -> Array:
        return np.asarray(self.predicted / self.published - 1.0)

    @property
    def worst(self) -> float:
        return float(np.abs(self.errors).max())


class PublishedRounds(Card, tag_field="kind", tag="rounds"):
    """Rounds of an engine over its lookahead: ``ms`` a token times the ``tokens`` of a round. ``k`` 0 is AR.

    A cost a draft step is fitted beside the priced passes, and with ``round_too`` a cost a round, to ``fitted_k`` (all
    by default): so that the worst relative error is least, since rows differ by what else is in them.

    ``ar_ms`` are a token's without speculation, of the same requests: what it is above the least of them is the
    prompt's share of a token, which every token of a round has, and is left out.
    """

    about: str
    target: str
    drafter: str
    hardware: str
    tp: Annotated[int, Meta(ge=1, le=1024)]
    runtime: str
    context: Annotated[int, Meta(ge=1, le=10**7)]
    dtype: str | None = None
    draft_dtype: str | None = None
    k: Annotated[tuple[Lookahead, ...], Meta(min_length=2)]
    tokens: Values
    ms: Values
    ar_ms: Values = ()
    round_too: bool = False
    fitted_k: tuple[Lookahead, ...] = ()
    within: Positive

    def __post_init__(self) -> None:
        of_one_length(self, "k", "tokens", "ms")
        if len(self.ar_ms) not in (0, len(self.k)):
            raise ValueError("ar_ms must have a value a row, or none")
        if not set(self.fitted_k) <= set(self.k):
            raise ValueError(f"fitted_k must be some of k, got {max(set(self.fitted_k) - set(self.k))}")

    def replay(self) -> Replayed:
        prompt_ms = np.array(self.ar_ms) - min(self.ar_ms) if self.ar_ms else 0.0
        seen = 1e-3 * np.array(self.tokens) * (np.array(self.ms) - prompt_ms)
        ks, priced = np.array(self.k), np.array([self._priced_s(k) for k in self.k])
        fitted = np.isin(ks, self.fitted_k or self.k)
        terms = np.column_stack([ks, np.ones(ks.size)] if self.round_too else [ks])
        costs = least_worst(terms[fitted], priced[fitted], seen[fitted])
        names = ("a draft step", "a round")[: costs.size]
        said = " and ".join(f"{1e3 * cost:+.2f} ms {name}" for cost, name in zip(costs, names, strict=True))
        return Replayed(
            self.about,
            "ms a round",
            tuple(f"K {k}" for k in self.k),
            1e3 * seen,
            1e3 * (priced + terms @ costs),
            self.within,
            tuple((~fitted).tolist() if self.fitted_k else [False] * ks.size),
            f"{said}, beside the passes in the runtime {self.runtime}",
        )

    def _priced_s(self, k: int) -> float:
        name = Speculative.name if k else Autoregressive.name
        options: dict[str, Any] = {"dtype": self.dtype}
        if k:
            options |= {"k": k, "drafter": self.drafter, "alpha": 0.5, "draft_dtype": self.draft_dtype}
        scenario = configure(
            strategies=(name,), target=self.target, hardware=self.hardware, tp=self.tp, engine=self.runtime,
            context=self.context, **options,
        ).scenarios[name]  # fmt: skip
        return float(scenario.estimate.round_s)


class _Named(Card):
    """Rows with names, and the tokens of their rounds."""

    about: str
    names: tuple[str, ...]
    tokens: Values
    within: Positive

    def _replayed(self, unit: str, published: Sequence[float], predicted: ArrayLike, fitted: str = "") -> Replayed:
        judged, seen = (not fitted,) * len(published), np.array(published)
        return Replayed(self.about, unit, self.names, seen, np.asarray(predicted), self.within, judged, fitted)


class Chains(_Named, tag_field="kind", tag="chains"):
    """Mean tokens of rounds, from rates by position: nothing is fitted."""

    rates: Levels

    def __post_init__(self) -> None:
        of_one_length(self, "names", "tokens", "rates")

    def replay(self) -> Replayed:
        predicted = [expected_tokens_of_pmf(accepted_length_pmf(rates, len(rates))) for rates in self.rates]
        return self._replayed("tokens a round", self.tokens, predicted)


class Parts(_Named, tag_field="kind", tag="parts"):
    """Milliseconds a token of SD, from those of K draft steps and of a verification, and the tokens of a round."""

    drafting_ms: Values
    verify_ms: Values
    ms: Values

    def __post_init__(self) -> None:
        of_one_length(self, "names", "tokens", "drafting_ms", "verify_ms", "ms")

    def replay(self) -> Replayed:
        parts = zip(self.drafting_ms, self.verify_ms, self.tokens, strict=True)
        predicted = [(drafting + verify) / tokens for drafting, verify, tokens in parts]
        return self._replayed("ms a token", self.ms, predicted)


class Trees(_Named, tag_field="kind", tag="trees"):
    """Mean tokens of rounds with trees, from rates of a head's guesses.

    ``rates`` are those of the likeliest guess by depth. Where it is wrong the guess of rank r >= 2 is right with
    probability ``x (1 - x)^(r - 2)``: x is ``share``, or one number for all rows, fitted. Or ``ranks`` are the rates of
    each guess by depth, and nothing is fitted. The tree is that of ``paths``, each the ranks from the root on (``13``:
    the third child of the first), or EAGLE-2's: a tree for each round, of so many ``nodes`` on ``depth`` levels.
    """

    rates: tuple[Level, ...] = ()
    share: Annotated[float, Meta(gt=0.0, lt=1.0)] | None = None
    ranks: tuple[Levels, ...] = ()
    paths: tuple[Path, ...] = ()
    nodes: tuple[Lookahead, ...] = ()
    depth: Annotated[int, Meta(ge=1, le=64)] = 6
    beam: Annotated[int, Meta(ge=1, le=256)] = 10

    def __post_init__(self) -> None:
        if bool(self.paths) == bool(self.nodes) or bool(self.rates) == bool(self.ranks):
            raise ValueError("trees need paths or nodes, and rates or ranks")
        lengths = {len(each) for each in (self.names, self.tokens, self.rates or self.ranks)}
        if len(lengths) > 1 or len(self.nodes) not in (0, len(self.names)):
            raise ValueError("names, tokens, rates or ranks, and nodes must be lists of one length")
        nodes = set(self.paths)
        if len(nodes) < len(self.paths):
            raise ValueError(f"paths: {next(each for each in nodes if self.paths.count(each) > 1)} is there twice")
        orphan = next((path for path in self.paths if path[:-1] and path[:-1] not in nodes), None)
        if orphan is not None:
            raise ValueError(f"paths: {orphan} has no parent, {orphan[:-1]}")
        self._check_ranks(max((int(rank) for path in self.paths for rank in path), default=1))
        levels, least = max(map(len, self.paths), default=self.depth), min(map(len, self.rates or self.ranks))
        if least < levels:
            raise ValueError(f"rates or ranks must have {levels} levels in each row, as deep as the tree, got {least}")

    def _check_ranks(self, last: int) -> None:
        """Raise ValueError where rates of one level make more than 1 together, or where there are none of a rank."""
        for level in (level for levels in self.ranks for level in levels):
            if sum(level) > 1.0 + _ROUNDING:
                raise ValueError(f"ranks: rates of one level must make at most 1 together, got {sum(level):g}")
        widest = min((max(map(len, levels)) for levels in self.ranks), default=RANKS)
        if last > widest:
            raise ValueError(f"paths: there is a guess of rank {last}, but ranks has rates of {widest} in a row")

    def replay(self) -> Replayed:
        if self.share is not None or self.ranks:
            return self._replayed("tokens a round", self.tokens, self._found(self.share))
        from scipy.optimize import minimize_scalar

        published = np.array(self.tokens)

        def worst(share: float) -> float:
            return float(np.abs(self._found(share) / published - 1.0).max())

        share = float(minimize_scalar(worst, bounds=(0.05, 0.95), method="bounded").x)
        said = f"the share x of a wrong guess's rate that its next sibling has: {share:.2f}, one number for all rows"
        return self._replayed("tokens a round", self.tokens, self._found(share), said)

    def _found(self, share: float | None) -> Array:
        if share is None:
            models = [RankModel.of_levels(ranks) for ranks in self.ranks]
        else:
            siblings = np.asarray(share * (1.0 - share) ** np.arange(RANKS - 1), dtype=float)
            models = [RankModel(np.array(rates), siblings) for rates in self.rates]
        pmfs = [self._drafted(row).accepted_pmf(model) for row, model in enumerate(models)]
        return np.array([1.0 + float(pmf @ np.arange(pmf.size)) for pmf in pmfs])

    def _drafted(self, row: int) -> Drafted:
        if self.paths:
            return StaticTree(Tree.of_paths(tuple(map(int, path)) for path in self.paths))
        return DynamicTrees(self.nodes[row], self.depth, self.beam)


Rows = PublishedRounds | Chains | Parts | Trees


class PublishedRows(Card):
    """Rows of a paper or of an engine's benchmark, and the setting in which they were measured."""

    name: str
    citation: str
    setting: str
    rows: Annotated[tuple[Rows, ...], Meta(min_length=1)]


def least_worst(terms: Array, base: Array, seen: Array) -> Array:
    """``x`` for which the largest of ``|base + terms x - seen| / seen`` is least: a linear program.

    Raises
    ------
    InputError : its numbers are too far apart to be solved.
    """
    from scipy.optimize import linprog

    count = terms.shape[1]
    scaled, off = terms / seen[:, None], (seen - base) / seen
    bound = np.ones((seen.size, 1))
    solution = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=np.block([[scaled, -bound], [-scaled, -bound]]),
        b_ub=np.concatenate([off, -off]),
        bounds=[(None, None)] * count + [(0.0, None)],
    )
    if solution.x is None:
        raise InputError("no cost of a draft step fits the published rounds: their tokens and ms are too far apart")
    return np.asarray(solution.x[:count])
