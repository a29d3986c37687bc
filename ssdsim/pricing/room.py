"""Devices that a strategy occupies at a site, and whether it fits there: dtypes, context, sequences, places."""

from __future__ import annotations

from collections.abc import Mapping

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.pricing.site import Site, once
from ssdsim.transformer.operations import DTYPE_BYTES, DTYPES
from ssdsim.transformer.sharing import legal_tensor_parallel


class NoRoom(InputError):
    """A strategy does not fit at a site; another one may."""


def why_no_room(subject: str, reasons: Mapping[str, NoRoom | str]) -> str:
    """Why a point has no room: the subject's reason, else the first one. ``reasons`` is not empty."""
    return str(reasons.get(subject) or next(iter(reasons.values())))


class Devices(Record):
    """Devices that a strategy occupies: of the target (all its replicas), and of the draft besides.

    Those of the draft may serve so many ``targets``, each on devices of its own: in turn, or all that wait
    ``together``.
    """

    target: int
    draft: int = 0
    targets: int = 1
    together: bool = False

    @property
    def total(self) -> int:
        """GPUs of all that share the draft."""
        return self.targets * self.target + self.draft

    def of_all(self, kind: str) -> int:
        """GPUs of all roles of a kind: ``target``, ``draft``; 0 of one that runs on a host."""
        return {"target": self.targets * self.target, "draft": self.draft}.get(kind, 0)

    @property
    def sharing(self) -> str | None:
        """Words for a draft that several targets share."""
        if self.targets == 1:
            return None
        return f"one for {self.targets} targets, {'all that wait together' if self.together else 'one after the other'}"

    @property
    def of_a_target(self) -> float:
        """GPUs of a target, with the draft's as they are shared: 4 + 1/N; a whole number where nobody shares them."""
        return self.target + self.draft if self.targets == 1 else self.total / self.targets


def counted(gpus: float) -> str:
    """Devices in words, a part of a shared draft's among them: 5, 4.25."""
    return f"{round(gpus, 2):g}"


@once
def check_dtypes(site: Site, drafts: bool) -> None:
    """Check dtypes: where a profile lacks a model's, name one that all have (of activations, if weights are quantised).

    Raises
    ------
    InputError : a profile lacks it, and there is one that all have (else pricing refuses the profile).
    """
    wanted = [(site.profile, site.precision_of("target").activations)]
    wanted += [(site.draft_profile, site.precision_of("draft").activations)] if drafts else []
    if all(profile.prices(dtype) for profile, dtype in wanted):
        return
    common = [other for other in DTYPES if all(profile.prices(other) for profile, _ in wanted)]
    for profile, dtype in wanted:
        if not profile.prices(dtype) and common:
            closest = min(common, key=lambda other: abs(DTYPE_BYTES[other] - DTYPE_BYTES[dtype]))
            has = ", ".join(profile.gemm)
            raise InputError(
                f"profile {profile.name} has no {dtype} gemm timings (it has {has}); give --dtype {closest}"
            )


def check_context(site: Site, lookahead: int) -> None:
    """Raise :class:`NoRoom` where context and tokens in flight pass what a model was made for."""
    for card in (site.target, site.draft):
        if site.context + lookahead + 1 > card.max_context:
            raise NoRoom(
                f"--context {site.context} and K + 1 tokens in flight pass the {card.max_context} of {card.name}"
            )


def check_sequences(title: str, batch: int, most: int | None) -> None:
    """Raise :class:`NoRoom` at a larger batch than a strategy decodes."""
    if most is not None and batch > most:
        raise NoRoom(f"{title} decodes {most} sequence at a time, got --b {batch}")


def check_place(title: str, drafter: str, apart: bool) -> None:
    """Raise :class:`NoRoom` where a drafter that reads the target's own memory would be on devices apart from it."""
    if apart:
        raise NoRoom(f"{title} drafts on devices of its own, {drafter} only on the target's, whose memory it reads")


def check_verified(title: str, drafter: str, ahead: bool) -> None:
    """Raise :class:`NoRoom` where a drafter that reads what a target keeps of tokens would draft on before it does."""
    if ahead:
        raise NoRoom(f"{title} drafts on before tokens are verified, {drafter} from keys and values of verified ones")


def check_devices(title: str, site: Site, devices: Devices, together: bool = True) -> None:
    """Each profile's node must have the devices of the model that runs there; of both, where they share a node.

    Raises
    ------
    NoRoom : it has fewer.
    """
    have, draft = site.profile.device.count, devices.draft
    shared = draft if together and site.profile.name == site.draft_profile.name else 0
    if devices.target + shared > have:
        fitting = [tp for tp in legal_tensor_parallel(site.target) if devices.target // site.tp * tp + shared <= have]
        nearest_fit = f"; the nearest that fits is tp {max(fitting)}" if fitting else ""
        needs = f"{devices.target} target and {shared} draft devices" if shared else f"{devices.target} target devices"
        raise NoRoom(f"{title} needs {needs}, {site.profile.name} has {have}{nearest_fit}")
    if draft > site.draft_profile.device.count:
        count = site.draft_profile.device.count
        raise NoRoom(f"{title} needs {draft} draft devices, {site.draft_profile.name} has {count}")
