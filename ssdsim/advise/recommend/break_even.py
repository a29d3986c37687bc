"""Break-even points: from which hit rate, acceptance rate or link, and up to which batch, the subject wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.advise.recommend.deployment import Deployment, Shape
from ssdsim.advise.recommend.search import (
    STEPS,
    Search,
    coarse_grid,
    combinations,
    placements,
    setting_choices,
    settings_around,
    with_settings,
)
from ssdsim.base.checks import Array
from ssdsim.base.errors import Shortage
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import called, find_hardware
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.question.configuration import configure
from ssdsim.question.options import DEFAULTS, changed
from ssdsim.question.place import find_link
from ssdsim.question.question import effective
from ssdsim.strategies.protocols.axes import SearchAxis, Values
from ssdsim.tokens.acceptance import moved_to, pooled_rate
from ssdsim.tokens.hit_rates import backup_in_proportion

_SECTIONS = 10  # of the range, and then of the section that holds the crossing
_FINER = 2  # times
_LARGEST_BATCH = 4096
_NEAR_BEST = 0.8  # rivals' placements worth another look
_CLOSE = 0.9  # the subject's tokens/s over its best rival's, in coarse steps of both
_NETWORK = "draft_link_gbs"
"""The option of the link between target and draft where it is no link of a node."""
_NEVER_RISES = 0.95  # of tokens/s of a sequence from batch to batch: fitted timings fall a little here and there


class BreakEven(Record):
    """``value`` is the bound on ``what``; ``always``, ``never`` where the subject leads or trails over the whole range.

    ``unknown`` says why there is no answer in ``note``. ``present`` is the value asked about.
    """

    what: str
    unit: str
    bound: Literal["at least", "at most", "always", "never", "unknown"]
    value: float | None = None
    present: float | None = None
    note: str = ""


class _Contenders(Record):
    """The subject's and the rivals' shapes that may win near the answer, in their copies; its placement is held."""

    search: Search
    batch: int
    cases: tuple[tuple[Shape, int], ...]

    @cached_property
    def _known(self) -> dict[tuple[Shape, int], dict[int, float]]:
        """Tokens/s per user of each case at the batches asked so far."""
        return {}

    def leads(self, changes: Sequence[Mapping[str, Any]]) -> Array:
        """The subject's tokens/s per user over its best rival's under each change of options; 0 where it has no room.

        Settings follow the change: each side is the best of its own shapes there.
        """
        return self._over(self._rates(changes))

    def leads_at(self, batch: int) -> bool:
        """Say whether the subject is ahead at another batch."""
        return self._lead_at(batch) > 1.0

    def _lead_at(self, batch: int) -> float:
        return float(self._over(self._as_asked(batch)[None])[0])

    def _over(self, rates: Array) -> Array:
        """The subject's best over its rivals' in each row of ``rates``."""
        subjects = self._subjects
        subject = rates[:, subjects].max(axis=1, initial=0.0)
        rival = rates[:, ~subjects].max(axis=1, initial=0.0)
        return np.asarray(np.divide(subject, rival, out=np.where(subject > 0, np.inf, 0.0), where=rival > 0))

    def narrowed(self, low: int, high: int) -> _Contenders:
        """The contest among the cases that may be a side's best at a batch from ``low`` to ``high``.

        They are near its best at one of the two; and since a sequence gets no more tokens/s in a larger batch, they
        have at ``low`` as much as the best has at ``high``, where they have room there.
        """
        self.look_at([low, high])
        at_low, at_high = self._as_asked(low), self._as_asked(high)
        near = np.zeros(len(self.cases), dtype=bool)
        for side in (self._subjects, ~self._subjects):
            ends = [(rates, rates[side].max(initial=0.0)) for rates in (at_low, at_high)]
            good, best = (
                np.any([(rates > 0) & (rates >= share * most) for rates, most in ends], axis=0)
                for share in (_NEAR_BEST, 1.0)
            )
            reaches = (at_low == 0) | (at_low >= _NEVER_RISES * ends[1][1])
            near |= side & ((good & reaches) | best)
        return replace(self, cases=tuple(case for case, kept in zip(self.cases, near, strict=True) if kept))

    def is_close_at(self, batch: int) -> bool:
        """Say whether other settings than those of a first look might decide there."""
        return _CLOSE < self._lead_at(batch) < 1.0 / _CLOSE

    def refined(self, batch: int) -> _Contenders:
        """The contest with the settings around each side's best at a batch, as far as they get better."""
        finer = self
        for step in chain(STEPS, repeat(STEPS[-1])):
            rates, more = finer._as_asked(batch), dict.fromkeys(finer.cases)
            for side in (finer._subjects, ~finer._subjects):
                if rates[side].any():
                    shape, copies = finer.cases[int(np.argmax(rates * side))]
                    more |= {(each, copies): None for each in settings_around(self.search.request, shape, step)}
            if step == STEPS[-1] and len(more) == len(finer.cases):
                break
            finer = replace(finer, cases=tuple(more))
        return finer

    @property
    def _subjects(self) -> NDArray[np.bool_]:
        return np.array([shape.strategy == self.search.request.subject for shape, _ in self.cases])

    def _as_asked(self, batch: int) -> Array:
        """Each case's tokens/s per user at a batch without a change, looked up where it is known."""
        self.look_at([batch])
        return np.array([self._known[case][batch] for case in self.cases])

    def look_at(self, batches: Iterable[int]) -> None:
        """Work out, all in one call, what is not known yet of the cases at these batches."""
        new = [
            (case, batch, size)
            for batch in batches
            for case, size in zip(self.cases, self._at(batch).tolist(), strict=True)
            if batch not in self._known.setdefault(case, {})
        ]
        rates = iter(self.search.rates([(shape, size) for (shape, _), _, size in new if size]).tolist())
        for case, batch, size in new:
            self._known[case][batch] = next(rates) / size if size else 0.0

    def _at(self, batch: int) -> NDArray[np.int64]:
        """The sequences of each case's fullest target; 0 where there are more targets than sequences."""
        targets = [copies * shape.targets for shape, copies in self.cases]
        return np.array([-(-batch // each) if each <= batch else 0 for each in targets])

    def _rates(self, changes: Sequence[Mapping[str, Any]]) -> Array:
        """Tokens/s per user, shape ``(changes, cases)``; 0 where there is no room."""
        options, sizes = self.search.request.options, self._at(self.batch)
        filled = np.flatnonzero(sizes)
        points = [
            self.cases[case][0].point(changed(options, change), int(sizes[case]))
            for change in changes
            for case in filled
        ]
        rates = np.zeros((len(changes), len(self.cases)))
        rates[:, filled] = self.search.tokens_per_second(points).reshape(len(changes), len(filled)) / sizes[filled]
        return rates

    def why_not(self, batch: int) -> str | None:
        """Why the subject cannot run at a batch, of the shape that could longest; None where it can."""
        sizes = self._at(batch) * self._subjects
        own = np.flatnonzero(sizes)
        if any(self._known.get(self.cases[case], {}).get(batch, 0.0) > 0.0 for case in own):
            return None
        before = self._as_asked(batch - 1)
        points = [self.cases[case][0].point(self.search.request.options, int(sizes[case])) for case in own]
        errors = [each for each in self.search.evaluator.fastest(points).results if isinstance(each, str)]
        if not points or len(errors) < len(points):
            return None
        longest = int(np.argmax(before[own] > 0))
        return self.search.request.within(errors[longest], self.cases[own[longest]][0].devices)


def break_evens(search: Search, batch: int, by_strategy: Mapping[str, Deployment]) -> list[Callable[[], BreakEven]]:
    """Each bound at ``batch`` that means something for the subject, if it and a rival fit there, to be found.

    ``by_strategy`` are the best of each. The last bound takes as long as all others.
    """
    deployments = search.deployments(batch)
    subject = by_strategy.get(search.request.subject)
    if subject is None or len(by_strategy) < 2:
        return []
    shapes = [by_strategy[name].shape for name in _order(search) if name in by_strategy]
    contest = _contest(search, batch, deployments, subject, shapes)
    point = subject.shape.point(search.request.options, subject.copy_batch)
    strategy = strategies.ALL.named(subject.shape.strategy)
    bounds: list[Callable[[], BreakEven]] = []
    if strategy.miss_state is not None:
        bounds.append(partial(_hits, contest, point))
    if strategy.drafts:
        bounds.append(partial(_alpha, contest, point))
    if subject.shape.devices.draft:
        bounds.append(partial(_link, contest, point))
    return [*bounds, partial(_largest_batch, _over_batches(search, batch, subject))]


def _order(search: Search) -> list[str]:
    """The subject first."""
    request = search.request
    return sorted(request.strategies, key=lambda name: name != request.subject)


def _contest(
    search: Search,
    batch: int,
    deployments: Sequence[Deployment],
    subject: Deployment,
    tops: Sequence[Shape],
) -> _Contenders:
    """The subject placed where it is best, and the rivals where they are good, each at many lookaheads.

    Settings that any number may have (cached outcomes) are held in proportion to the lookahead.
    """
    request = search.request

    def tried(axis: SearchAxis, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        have = [top.settings for top in tops if axis.option in top.settings]
        near = [value for top in have for value in axis.near(values, before, top, 1.0)]
        wide = axis.coarse(values, before) if values is not None else ()
        return dict.fromkeys([*near, *wide])

    cases: dict[tuple[Shape, int], None] = {}
    for name in _order(search):
        settings = combinations(setting_choices(request, name), tried)
        own = [d for d in deployments if d.shape.strategy == name]
        bar = _NEAR_BEST * max((d.per_user for d in own), default=0.0)
        good = [subject] if name == request.subject else [d for d in own if d.per_user >= bar]
        for like, copies in {(d.shape.placement, d.copies): (d.shape, d.copies) for d in good}.values():
            cases |= dict.fromkeys((with_settings(like, each), copies) for each in settings)
    return _Contenders(search, batch, tuple(cases))


def _over_batches(search: Search, batch: int, subject: Deployment) -> _Contenders:
    """The subject as it is placed, and the rivals in any placement and number of copies; all in coarse steps.

    None of it depends on the batch that is asked about.
    """
    request = search.request
    rivals = (
        (shape, copies)
        for name in request.ranked
        if name != request.subject
        for shape in placements(request, name)
        if request.engine.lacks_devices(shape.devices.draft, shape.targets) is None
        for copies in range(1, request.copies(shape.devices) + 1)
    )
    placed = [(subject.shape, subject.copies), *rivals]
    return _Contenders(search, batch, tuple((each, n) for like, n in placed for each in coarse_grid(request, like)))


def _least(
    what: str,
    unit: str,
    contest: _Contenders,
    change: Callable[[float], Mapping[str, Any]],
    low: float,
    high: float,
    present: float,
    spaced: Callable[[float, float, int], Array] = np.linspace,
) -> BreakEven:
    """The smallest value from which on the subject leads, up to the present one (beyond it where it trails now)."""

    def sections(low: float, high: float) -> Array:
        return np.asarray(spaced(low, high, _SECTIONS + 1), dtype=float)

    def leads(values: Array) -> NDArray[np.bool_]:
        return contest.leads([change(float(value)) for value in values]) > 1.0

    values = sections(low, high)
    ahead = leads(values)
    if ahead.all():
        return BreakEven(what, unit, "always", present=present)
    if not ahead.any():
        return BreakEven(what, unit, "never", present=present)
    rises = np.flatnonzero(ahead[1:] & ~ahead[:-1])
    if rises.size == 0:  # ahead at the low end only: more of it does not help the subject against its rivals
        last = int(np.flatnonzero(ahead)[-1])
        return BreakEven(what, unit, "at most", float(values[last]), present)
    at = int(rises[np.abs(values[rises] - present).argmin()])
    for _ in range(_FINER):
        values = sections(float(values[at]), float(values[at + 1]))
        at, above = 0, _SECTIONS
        while above - at > 1:  # it trails at the one and leads at the other
            middle = (at + above) // 2
            at, above = (at, middle) if leads(values[[middle]])[0] else (middle, above)
    return BreakEven(what, unit, "at least", float(values[at + 1]), present)


def _hits(contest: _Contenders, point: Mapping[str, Any]) -> BreakEven:
    """Break-even of hit rates after a primary speculation; misses after one by the backup change in proportion."""
    settings = configure(**point).settings
    if settings.get("p_hit") is None:
        return BreakEven("hit rate p_hit", "", "unknown", note="hits do not follow from one rate here")
    present = float(settings["p_hit"])
    after_backup = settings.get("p_hit_backup", present)

    def change(p_hit: float) -> Mapping[str, Any]:
        return {"p_hit": p_hit, "p_hit_backup": backup_in_proportion(p_hit, present, after_backup)}

    return _least("hit rate p_hit", "", contest, change, 0.0, 1.0, present)


def _alpha(contest: _Contenders, point: Mapping[str, Any]) -> BreakEven:
    """Break-even of acceptance; where rates go by position, the odds at each change by one factor."""
    what, settings = "acceptance rate alpha", effective(point)
    rates = settings["alpha"]
    if "acceptance" in point:
        return BreakEven(what, "", "unknown", note="a log of lengths has no rate to change")
    if isinstance(rates, int | float):
        return _least(what, "", contest, lambda x: {"alpha": x}, 0.0, 0.99, float(rates))
    k, spread = settings["k"], settings["alpha_concentration"]

    def change(alpha: float) -> Mapping[str, Any]:
        return {"alpha": tuple(moved_to(alpha, rates, k).tolist()), "alpha_concentration": spread}

    least = _least(what, "", contest, change, 0.0, 0.99, pooled_rate(rates, k))
    return replace(least, note="the odds at every position by the same factor")


def _link(contest: _Contenders, point: Mapping[str, Any]) -> BreakEven:
    """Break-even of a link between target and draft (its latency held); the target's own collectives are left alone."""
    over_network = point.get(_NETWORK)
    if over_network is not None:
        return _bandwidth(contest, lambda gigabytes: {_NETWORK: gigabytes}, float(over_network))
    role = "draft_link" if point.get("draft_link") else "draft_hardware"
    hardware = point.get(role, point.get("hardware", DEFAULTS["hardware"]))
    profile = (find_link if role == "draft_link" else find_hardware)(hardware)
    link = profile.link
    if link is None:
        return BreakEven("link bandwidth", "GB/s", "unknown", note=f"profile {profile.name} has no link")

    made = list[HardwareProfile]()  # which are found as long as they are here

    def change(gigabytes: float) -> Mapping[str, Any]:
        slower = profile.changed(link=link.changed(bandwidth=gigabytes * 1e9))
        made.append(slower)
        return {role: called(f"{hardware}, link of {gigabytes:.6g} GB/s", slower)}

    return _bandwidth(contest, change, link.bandwidth / 1e9)


def _bandwidth(contest: _Contenders, change: Callable[[float], Mapping[str, Any]], present: float) -> BreakEven:
    leads = contest.leads([change(present * factor) for factor in (1e-3, 1.0)])
    if min(leads) > 1.0:
        return BreakEven("link bandwidth", "GB/s", "always", present=present, note="down to a thousandth of it")
    if max(leads) <= 1.0:
        return BreakEven("link bandwidth", "GB/s", "never", present=present, note="latency and drafting remain")
    return _least("link bandwidth", "GB/s", contest, change, present * 1e-3, present, present, np.geomspace)


def _largest_batch(contest: _Contenders) -> BreakEven:
    """The largest batch up to which the subject leads; one batch later it trails, or has no room, as the note says.

    It is looked for from one sequence on, so it is the same for the same deployment, whichever batch is asked about.
    """
    ladder = [1 << n for n in range(_LARGEST_BATCH.bit_length())]

    def leads_at(batch: int) -> bool:
        nonlocal contest
        if contest.is_close_at(batch):
            contest = contest.refined(batch)
        return contest.leads_at(batch)

    contest.look_at(batch for batch in ladder if batch <= contest.batch)  # which the search has priced
    low = next((batch for batch in (*ladder, contest.batch) if leads_at(batch)), None)
    if low is None:
        return BreakEven("batch", "sequences", "never", present=contest.batch)
    high = next((batch for batch in ladder if batch > low and not leads_at(batch)), None)
    if high is None:
        return BreakEven("batch", "sequences", "always", present=contest.batch, note=f"up to {ladder[-1]}")
    low = max([low, *(batch for batch in ladder if batch < high)])
    near = closer = contest.refined(low).refined(high).narrowed(low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if closer.leads_at(middle) else (low, middle)
        closer = closer.narrowed(low, high)
    reason = near.why_not(high)
    limit = "its room" if isinstance(reason, Shortage) else "what it can run"
    note = "" if reason is None else f"the limit of {limit}, not of its speed: {reason}"
    return BreakEven("batch", "sequences", "at most", low, contest.batch, note)
