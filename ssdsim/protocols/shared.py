"""A draft whose devices serve several targets, each with a batch of its own: the option, and who does what when."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ssdsim.kinds import Whole
from ssdsim.option import Group, Option
from ssdsim.protocols.axes import Axis, Scope, Values
from ssdsim.rounds.actor import Actor, Program

MOST_TARGETS = 256

TARGETS = Option(
    name="targets",
    kind=Whole(most=MOST_TARGETS),
    default=1,
    about="targets that share the draft's devices, each with a batch of its own",
    axis="targets of a draft",
    symbol="N",
    doubling=True,
    varied_by=("recommend",),
    groups=(Group.CHOICE,),
)


@dataclass(frozen=True, kw_only=True)
class SharedBy(Axis):
    """How many targets share a draft: searched where somebody says which numbers, since no released engine does it."""

    def concerns(self, scope: Scope) -> bool:
        return False

    def possible(self, scope: Scope) -> Values:
        return tuple(range(1, scope.gpus))

    def coarse(self, values: Values, before: Mapping[str, Any]) -> Iterable[Any]:
        """One where the draft is beside its target."""
        return (1,) if before.get("sd_draft") == "colocated" else values or ()


SHARED_BY = SharedBy(
    option=TARGETS.name,
    about="numbers of targets that may share a draft's devices, such as 1,2,4 [default: 1]",
    placing=True,
    bounded=True,
)


def targets_of(own: Iterable[Option], options: Mapping[str, Any]) -> int:
    """How many share the draft of a strategy with these options of its ``own``."""
    return int(options[TARGETS.name]) if TARGETS in own else 1


def alternating(targets: int) -> dict[str, Program]:
    """The draft answers one target after the other, in the order in which their outcomes come; each waits for it."""
    return {**_of_each(targets, _verifies), "draft": partial(_drafts, targets)}


def ahead(targets: int) -> dict[str, Program]:
    """The draft's devices make what a target waits for before they pre-speculate for others; nothing is broken off.

    Its host looks outcomes up while they work.
    """
    return {
        **_of_each(targets, _verifies_meanwhile),
        "cache": _looks_up,
        "draft": partial(_works, targets),
    }


def _of_each(targets: int, program: Any) -> dict[str, Program]:
    return {_name(number): partial(program, number) for number in range(1, targets + 1)}


def _name(number: int) -> str:
    return f"target {number}"


def _verifies(number: int, me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.receive("speculation")
        yield me.do("verify")
        yield me.do("sample")
        me.post("draft", "outcome", number, takes="outcome")
        me.end_round()


def _drafts(targets: int, me: Actor) -> Generator[Any, Any, None]:
    """At first nobody has anything to verify."""
    for served in me.rounds():
        number = served + 1 if served < targets else (yield me.receive("outcome"))
        yield me.do("draft")
        me.post(_name(number), "speculation", number, takes="speculation")


def _verifies_meanwhile(number: int, me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("verify")
        yield me.do("sample")
        me.post("cache", "outcome", (number, me.any_to("miss")), takes="outcome")
        yield me.receive("speculation")
        me.end_round()


def _looks_up(me: Actor) -> Generator[Any, Any, None]:
    """An outcome, once what was prepared for it is there: ``prepared`` says so of a target."""
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
            me.post("draft", "job", (True, number))
        else:
            me.post(_name(number), "speculation", number, takes="speculation")
            me.post("draft", "job", (False, number))


def _works(targets: int, me: Actor) -> Generator[Any, Any, None]:
    missed: deque[int] = deque()
    others = deque(range(1, targets + 1))
    for _ in me.rounds():
        jobs: list[Any] = yield from me.look("job")
        if not (jobs or missed or others):
            jobs = [(yield me.receive("job"))]
        for urgent, number in jobs:
            (missed if urgent else others).append(number)
        if missed:
            number = missed.popleft()
            yield me.do("fallback")
            me.post(_name(number), "speculation", number, takes="speculation")
            others.append(number)
        else:
            number = others.popleft()
            yield me.do("pre-speculate")
            me.post("cache", "outcome", (number, None))
