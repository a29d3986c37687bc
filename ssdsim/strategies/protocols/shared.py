"""A draft whose devices serve several targets, each with a batch of its own: the option, and who does what when."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ssdsim.base.errors import CannotRun
from ssdsim.base.kinds import OneOf, Whole
from ssdsim.base.option import Needs, Option, choice
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.rounds.actor import Actor, Program, Stoppable
from ssdsim.strategies.protocols.axes import Scope, SearchAxis, Values

MOST_TARGETS = 256

TARGETS = choice(
    name="targets",
    kind=Whole(most=MOST_TARGETS),
    default=1,
    about="targets that share the draft's devices, each with a batch of its own",
    axis="targets of a draft",
    symbol="N",
    doubling=True,
    varied_by=("recommend",),
)

_TOGETHER, _IN_TURN = "together", "in-turn"

SERVICE_ORDER = choice(
    name="draft_serves",
    kind=OneOf(("auto", _TOGETHER, _IN_TURN)),
    default="auto",
    about="how one draft serves several targets: in-turn, together (one pass for all that wait), or auto (the faster)",
    axis="how a draft serves targets",
    varied_by=("recommend",),
    needs=Needs((TARGETS.name,), "(how many share the draft)"),
)

SHARED_DRAFT_OPTIONS = (TARGETS, SERVICE_ORDER)
"""The options of a strategy whose draft may serve several targets."""


class TargetsAxis(SearchAxis, kw_only=True):
    """Numbers of targets that share a draft: searched on request only, since no released engine shares one."""

    def concerns(self, scope: Scope) -> bool:
        return False

    def possible(self, scope: Scope) -> Values:
        return tuple(range(1, scope.gpus + (scope.drafts is not None)))

    def coarse(self, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        """One where the draft is beside its target."""
        return (1,) if before.get("sd_draft") == "colocated" else values or ()


TARGETS_AXIS = TargetsAxis(
    option=TARGETS.name,
    about="numbers of targets that may share a draft's devices, such as 1,2,4 [default: 1]",
    placing=True,
    bounded=True,
)


def sharing_of(own: Sequence[Option], options: Mapping[str, Any]) -> tuple[int, bool]:
    """The targets that share a strategy's draft, by options of its ``own``, and whether they are served together."""
    shares = any(option is TARGETS for option in reversed(own))  # which most name last
    targets = int(options[TARGETS.name]) if shares else 1
    return targets, targets > 1 and options[SERVICE_ORDER.name] == _TOGETHER


def served_by(own: Sequence[Option], options: Mapping[str, Any]) -> tuple[int, bool]:
    """The batches that a draft on its own devices serves: those of its targets, each in microbatches."""
    targets, together = sharing_of(own, options)
    return targets * min(options["pp"], options["b"]), together


def check_shared(settings: Settings, drafter: Drafter) -> None:
    """Raise :class:`CannotRun` where several targets are to share the device of a drafter that needs none."""
    if settings[TARGETS.name] > 1 and settings["pp"] > 1:
        raise CannotRun("--targets: several targets over pipeline stages (--pp) are not described")
    if settings[TARGETS.name] > 1 and not drafter.needs_device:
        raise CannotRun(f"{drafter.title} needs no device that {settings[TARGETS.name]} targets could share")


def in_each_way(settings: Settings) -> list[Settings]:
    """Settings for each order of service, where the faster is asked for."""
    if settings[TARGETS.name] == 1 or settings[SERVICE_ORDER.name] != "auto":
        return [settings]
    choices = []
    for word in (_TOGETHER, _IN_TURN):
        choice = settings.copy()
        choice.settle(SERVICE_ORDER.name, word, "auto: more tokens/s than the other")
        choices.append(choice)
    return choices


def drafting_at(site: Site, own: Sequence[Option]) -> Site:
    """The site with the batch of a draft pass: that of all targets, if they are served together."""
    targets, together = sharing_of(own, site.options)
    return site.with_batch(targets * site.batch) if together else site


def alternating(targets: int, together: bool) -> dict[str, Program]:
    """Programs of targets that wait for a shared draft, which serves outcomes in order or all that have come."""
    drafts = _drafts_together if together else _drafts_in_turn
    return {**_of_each(targets, _verifies), "draft": partial(drafts, targets)}


def ahead(targets: int, together: bool) -> dict[str, Program]:
    """Programs of a shared draft that pre-speculates: work that a target waits for comes first, nothing is broken off.

    Its host looks outcomes up while they work.
    """
    return {
        **_of_each(targets, _verifies_meanwhile),
        "cache": _looks_up,
        "draft": partial(_works, targets if together else None),
    }


def cannot_share(own: Sequence[Option], options: Mapping[str, Any], caches: bool) -> str | None:
    """The reason why real ranks cannot run a draft that several targets share; None where they can."""
    targets, together = sharing_of(own, options)
    if targets == 1:
        return None
    if caches:
        return "the host of a shared draft looks outcomes up while its device works, which one rank cannot"
    if together:
        return "ranks serve a shared draft's targets one after the other: give --draft-serves in-turn"
    return "a target that shares a draft has one rank" if options["tp"] > 1 else None


def _of_each(targets: int, program: Any) -> dict[str, Program]:
    return {_name(number): partial(program, number) for number in range(1, targets + 1)}


def _name(number: int) -> str:
    return f"target {number}"


def _verifies(number: int, me: Actor) -> Generator[Any, Any, None]:
    """Verify. Each outcome asks for the next speculation, so that nothing is drafted after the last one."""
    for verified in me.rounds():
        if verified > 0:
            me.post("draft", "outcome", number, takes="outcome")
        yield me.receive("speculation")
        yield me.do("verify")
        yield me.do("sample")
        me.end_round()


def _drafts_in_turn(targets: int, me: Actor) -> Generator[Any, Any, None]:
    """Draft for each target in turn; at first nobody has anything to verify."""
    for served in me.rounds():
        number = served + 1 if served < targets else (yield me.receive("outcome"))
        yield me.do("draft")
        me.post(_name(number), "speculation", number, takes="speculation")


def _drafts_together(targets: int, me: Actor) -> Generator[Any, Any, None]:
    """Draft for all that wait; at first one after the other, as groups of constant passes never part."""
    waiting = deque(range(1, targets + 1))
    for number in me.rounds():
        waiting.extend((yield from me.look("outcome")))
        if not waiting:
            waiting.append((yield me.receive("outcome")))
            waiting.extend((yield from me.look("outcome")))
        served = _next_served(waiting, together=number >= targets)
        yield me.do("draft")
        for number in served:
            me.post(_name(number), "speculation", number, takes="speculation")


def _next_served(waiting: deque[int], together: bool) -> list[int]:
    """Pop those whom the draft serves next."""
    return [waiting.popleft() for _ in range(len(waiting) if together else 1)]


def _verifies_meanwhile(number: int, me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        me.post("draft", "job", (number, False))
        yield me.do("verify")
        yield me.do("sample")
        me.post("cache", "outcome", (number, me.any_to("miss")), takes="outcome")
        yield me.receive("speculation")
        me.end_round()


def _looks_up(me: Actor) -> Generator[Any, Any, None]:
    """Look up an outcome as soon as its target's speculations are there (``prepared``)."""
    missed: dict[int, bool] = {}
    prepared: set[int] = set()
    for _ in me.rounds():
        number, news = yield me.receive("outcome")
        if news is None:
            prepared.add(number)
        else:
            missed[number] = news
        if number not in missed or number not in prepared:
            continue
        prepared.remove(number)
        yield me.do("look up")
        if missed.pop(number):
            me.post("draft", "job", (number, True))
        else:
            me.post(_name(number), "speculation", number, takes="speculation")


def _works(targets: int | None, me: Stoppable) -> Generator[Any, Any, None]:
    """Work for targets that wait, then for targets that ask for the next pre-speculation.

    ``targets`` that are served together begin one after the other.
    """
    missed: deque[int] = deque()
    others: deque[int] = deque()
    for number in me.rounds():
        together = targets is not None and number >= targets
        waited: list[Any] = me.here("job")
        now: list[Any] = yield from me.look("job")
        if not (waited or now or missed or others):
            now = [(yield me.receive("job")), *(yield from me.look("job"))]
        missed.extend(target for target, misses in (*waited, *now) if misses)
        others.extend(target for target, misses in waited if not misses)
        just_now = [target for target, misses in now if not misses]
        if not (missed or others):
            others, just_now = deque(just_now), []
        if missed:
            served = _next_served(missed, together)
            others.extend(just_now)
            yield me.do("fallback")
            for target in served:
                me.post(_name(target), "speculation", target, takes="speculation")
        else:
            served = _next_served(others, together)
            others.extend(just_now)
            yield me.do("pre-speculate")
            for target in served:
                me.post("cache", "outcome", (target, None))
