"""Options of durations: how they vary, and those given in units of T_v in place of hardware."""

from __future__ import annotations

from functools import partial

from ssdsim.base.kinds import Number, NumberOrWord
from ssdsim.base.kinds_of_lists import PassTimes
from ssdsim.base.option import Excludes, Group, Needs, Option, Section

_unit_free = partial(Option, section=Section.UNIT_FREE, groups=(Group.UNIT_FREE, Group.GIVEN_DURATIONS))
_beside_t_sd = partial(_unit_free, needs=Needs(("t_sd",), "(unit-free mode)"))

DURATIONS = (
    Option(
        name="spread",
        section=Section.START,
        default=0.0,
        kind=NumberOrWord(Number(2.0), "profile"),
        about="standard deviation of the logarithm of every duration (0.1: about 10 %); or profile: as it was measured",
        axis="log-sd of durations",
        groups=(Group.GIVEN_DURATIONS,),
        excludes=(Excludes(("t_sd",), "--spread profile needs hardware (unit-free mode reads none)", when="profile"),),
    ),
    _unit_free(
        name="t_sd",
        kind=Number(1e6),
        about="unit-free mode: SD's drafting time in units of T_v; no hardware is read",
        axis="drafting time T_SD (T_v)",
        excludes=(
            Excludes((Group.HARDWARE,), "{it} has no effect with --t-sd (unit-free mode reads no hardware)"),
            Excludes(
                ("budget",),
                "{it} has no effect with --t-sd and --p-hit (the draft's time and hits are given)",
                given_with=("p_hit",),
            ),
        ),
    ),
    _beside_t_sd(
        name="t_v",
        kind=PassTimes(),
        about="unit-free mode: time of a target pass by its rows, over the whole batch; linear between and beyond",
        axis="pass times T_v (by rows)",
        default_note="1, whatever its rows",
    ),
    _beside_t_sd(
        name="t_p",
        kind=Number(1e6),
        about="unit-free mode: pre-speculation time",
        axis="pre-speculation time T_p (T_v)",
        default_note="--t-sd",
    ),
    _beside_t_sd(
        name="t_b",
        kind=Number(1e6),
        about="unit-free mode: the backup's time",
        axis="backup's time T_b (T_v)",
        default_note="--t-sd with jit, 0 with fast",
    ),
)
