"""Replicas that share the requests, and their number."""

from __future__ import annotations

from typing import Literal, get_args

from ssdsim.base.errors import InputError
from ssdsim.base.kinds import OneOf, Whole
from ssdsim.base.option import Section
from ssdsim.base.option_record import OptionRecord, option_field
from ssdsim.question.options import ALL

Router = Literal["round-robin", "least-loaded"]


class Fleet(OptionRecord):
    """``replicas`` of each strategy, to which ``router`` gives the requests. Replicas may share drafts: ``draft_pool``
    of them for all together; else each has its own.
    """

    section, prominence = Section.REQUESTS, 0

    replicas: int = option_field(Whole(most=1024), "of each strategy, that share the requests", 1, prominence=3)
    router: Router = option_field(OneOf(get_args(Router)), "round-robin or least-loaded", "round-robin")
    draft_pool: int | None = option_field(
        Whole(most=1024), "that draft for all replicas together", default_note="one each"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        pool, replicas = self.draft_pool, self.replicas
        if pool is None:
            return
        if replicas == 1:
            raise InputError("--draft-pool has no effect with one replica (its draft has a device of its own)")
        if replicas % pool:
            raise InputError(f"--draft-pool {pool}: {replicas} replicas cannot share {pool} drafts evenly")

    def targets(self, given: int | None) -> int | None:
        """Number of replicas that share a draft, for which ``--targets`` may be given; None where nobody says."""
        if self.draft_pool is not None and given is not None:
            raise InputError("--draft-pool has no effect with --targets (which says how many replicas share a draft)")
        if self.draft_pool is not None:
            return self.replicas // self.draft_pool
        if given is not None and self.replicas % ALL["targets"].checked(given):
            few = f"--replicas {given}, or a multiple, not {self.replicas}"
            raise InputError(f"--targets {given} share a draft: give {few}")
        return given
