"""What a calibration runs on which devices: its options, and what is taken where none is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from os.path import exists, expanduser
from pathlib import Path

from calibration.machine.drivers import elsewhere, named_devices
from calibration.timings.plan import CalibrationWorkload
from ssdsim.base.errors import InputError
from ssdsim.base.kinds import OneOf, Text, Whole
from ssdsim.base.option import OptionRecord, option_field
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import draft_for, find_transformer, is_bundled_transformer
from ssdsim.hardware.profile import Calibrated, HardwareProfile
from ssdsim.question.options import ALL
from ssdsim.transformer.operations import DTYPES
from ssdsim.transformer.parallel_degrees import legal_tensor_parallel

_STRATEGIES = ALL["strategies"]
_SMALL = ("transformer-shaped-1536x4", "transformer-shaped-768x2")
PAIRS = {
    "cuda": (
        ("llama-3.1-70b", "llama-3.2-1b"),
        ("transformer-shaped-8192x40", "transformer-shaped-2048x6"),  # the proposal's graph
        ("llama-3.1-8b", "llama-3.2-1b"),
        _SMALL,
    ),
    "cpu": (_SMALL,),
}
"""Targets and drafts where nobody names any, the largest first: that which fits is taken."""


class CalibrationSetup(Record):
    """The devices, the draft's last, and what runs on them; ``said`` are the choices that nobody made, in words."""

    devices: tuple[str, ...]
    workload: CalibrationWorkload
    named: tuple[str, str]
    said: tuple[str, ...] = ()

    @property
    def calibrated(self) -> Calibrated:
        """What a profile keeps of it."""
        w = self.workload
        target, draft = map(_from_anywhere, self.named)
        return Calibrated(target=target, draft=draft, dtype=w.dtype, tp=w.tp, context=w.context, devices=self.devices)


class _Cores(OneOf):
    """``cpu``; of another kind of device, why it is not named here."""

    def parse(self, text: str) -> str:
        if why := elsewhere(text):
            raise ValueError(why)
        return super().parse(text)


class CalibrationOptions(OptionRecord):
    """Options of a calibration: the models and rounds whose passes are timed, and the devices."""

    device: str | None = option_field(_Cores(("cpu",)), "cpu: two pinned cores with gloo", default_note="--gpus")
    gpus: str | None = option_field(Text(), "GPUs such as 0-4: target ranks first, the draft last")
    tp: int | None = option_field(
        Whole(), "target ranks", default_note="as many as can share the target", spellings=ALL["tp"].spellings
    )
    draft_gpu: int | None = option_field(Whole(0), "the draft's GPU", default_note="the last")
    target: str | None = option_field(Text(), "transformer card", default_note="the largest of a few that fits")
    draft: str | None = option_field(Text(), "the draft's card", default_note="one that goes with the target")
    b: int = option_field(Whole(), "sequences decoded together", 4, spellings=ALL["b"].spellings)
    k: int = option_field(Whole(), "draft tokens verified in a round", 5)
    budget: int | None = option_field(Whole(), "branches a sequence", default_note="3 (k + 1)")
    context: int = option_field(Whole(), "cached tokens of a sequence", 512)
    dtype: str | None = option_field(OneOf(DTYPES), "of weights", default_note="by device")
    strategies: Sequence[str] = option_field(
        _STRATEGIES.kind, "whose passes are timed", _STRATEGIES.default, spellings=_STRATEGIES.spellings
    )

    def setup(self, described: HardwareProfile | None = None) -> CalibrationSetup:
        """What runs on which devices of this machine, or of the ``described`` one.

        Raises
        ------
        InputError : devices that are not there, a degree that does not divide the target, or nothing that fits.
        """
        return self.on(self._devices(described), described)

    def on(self, devices: Sequence[str], described: HardwareProfile | None = None) -> CalibrationSetup:
        """What runs on ``devices``, the draft's last."""
        kind, why = devices[0].split(":")[0], InputError("")
        for named in self._pairs(kind):
            shared, said = self._shared(devices, named[0])
            try:
                workload = self._workload(shared, named, described)
                _check_memory(workload, shared, described)
            except InputError as error:
                why = error
                continue
            if self.target is None:
                told = f"default models: {named[0]} + {named[1]}, the largest that fit"
                said = (f"{told} (--target and --draft name others)", *said)
            return CalibrationSetup(tuple(shared), workload, named, said)
        raise why

    def _devices(self, described: HardwareProfile | None) -> list[str]:
        """The target's devices, then the draft's."""
        gpus, tp, draft_gpu = self.gpus, self.tp, self.draft_gpu
        if (self.device is None) == (gpus is None):
            of_it = f" ({described.name} has 0-{described.device.count - 1})" if described else ""
            raise InputError(f"give either --device cpu or --gpus 0-4{of_it}")
        if described and (has := described.device.kind) != ("cuda" if gpus else "cpu"):
            raise InputError(f"{described.name} has {'GPUs: give --gpus' if has == 'cuda' else 'cores: --device cpu'}")
        if self.device is not None:
            if draft_gpu is not None:
                raise InputError("--draft-gpu has no effect with --device cpu")
            return [f"cpu:{core}" for core in range((tp or 1) + 1)]
        if not re.fullmatch(r"\d+(-\d+)?", str(gpus)):
            raise InputError(f"--gpus {gpus}: one GPU or a range of them, such as 0 or 0-4")
        found = named_devices(f"cuda:{gpus}") if described else _here(f"cuda:{gpus}")
        if described and max(int(name.split(":")[1]) for name in found) >= described.device.count:
            raise InputError(
                f"--gpus {gpus}: {described.name} has {described.device.count} GPUs, 0-{described.device.count - 1}"
            )
        draft = f"cuda:{draft_gpu}" if draft_gpu is not None else found[-1]
        if draft not in found:
            raise InputError(f"--draft-gpu {draft_gpu} is not among --gpus {gpus}")
        targets = [name for name in found if name != draft][: tp or None]
        if tp is not None and tp > max(1, len(targets)):
            raise InputError(f"--tp {tp} needs {tp + 1} GPUs with the draft's, --gpus {gpus} has {len(found)}")
        return [*targets, draft]

    def _pairs(self, kind: str) -> Iterator[tuple[str, str]]:
        """The named target and draft; where none is named, those that may be taken."""
        if self.target is not None:
            yield self.target, self.draft or draft_for(find_transformer(self.target), None).name
            return
        yield from ((target, self.draft or draft) for target, draft in PAIRS[kind])

    def _shared(self, devices: Sequence[str], target: str) -> tuple[Sequence[str], tuple[str, ...]]:
        """The devices that can share the target, with the draft's, and what was left out of them, in words."""
        most = len(devices) - 1
        if self.tp is not None or most < 2:
            return devices, ()
        tp = max(each for each in legal_tensor_parallel(find_transformer(target)) if each <= most)
        if tp == most:
            return devices, ()
        draft = devices[tp] if self.draft_gpu is None else devices[-1]
        why = f"{target} cannot be shared by {most} ranks: --tp {tp} is taken"
        return (*devices[:tp], draft), (f"{why}, on {devices[0]} to {devices[tp - 1]}, with the draft on {draft}",)

    def _workload(
        self, devices: Sequence[str], named: tuple[str, str], described: HardwareProfile | None
    ) -> CalibrationWorkload:
        """The workload on this machine or the ``described`` one; bfloat16 by default if its GPUs compute it."""
        target, draft = map(find_transformer, named)
        workload = CalibrationWorkload(
            target=target,
            draft=draft,
            batch=self.b,
            lookahead=self.k,
            branches=self.budget or 3 * (self.k + 1),
            context=self.context,
            tp=len(devices) - 1 if len(devices) > 1 else 1,
            dtype=self._dtype(devices, described),
            strategies=tuple(self.strategies),
        )
        workload.target_passes()  # refuses a tp that does not divide the heads before anything starts
        return workload

    def _dtype(self, devices: Sequence[str], described: HardwareProfile | None) -> str:
        if described is None:
            from calibration.machine.inventory import check_dtype, check_kernels, natural_dtype

            check_kernels(devices)
            dtype = self.dtype or natural_dtype(devices)
            check_dtype(dtype, devices)
            return dtype
        peaks, name = described.device.peak_flops, described.device.name
        natural = next((dtype for dtype in ("bfloat16", "float16") if dtype in peaks), "float32")
        dtype = self.dtype or natural
        if dtype not in peaks:
            raise InputError(f"--dtype {dtype}: a {name} has none; give --dtype {natural}")
        return dtype


def _here(names: str) -> list[str]:
    # imported here, as below: a plan for a described machine needs no torch
    from calibration.machine.devices import parse_devices

    return parse_devices(names)


def _check_memory(workload: CalibrationWorkload, devices: Sequence[str], described: HardwareProfile | None) -> None:
    """Raise :class:`InputError` where a rank needs more memory than its device has, or has free."""
    if described is None:
        from calibration.timings.memory import check_memory

        check_memory(workload, devices)
        return
    from calibration.timings.dry_run import planned_ranks

    for rank in planned_ranks(workload, devices, described):
        if not rank.fits:
            needs, has = (each / 2**30 for each in (rank.needs_bytes, rank.has_bytes))
            raise InputError(
                f"{rank.device} ({rank.role}) needs {needs:.1f} GiB, {described.name} has {has:.1f} GiB: "
                "give a smaller --target, or more --gpus"
            )


def _from_anywhere(named: str) -> str:
    """A card's name, or the whole path of its file: another command may be given in another folder."""
    is_file = exists(expanduser(named)) and not is_bundled_transformer(named)
    return str(Path(expanduser(named)).resolve()) if is_file else named
