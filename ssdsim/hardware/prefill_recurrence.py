"""A recurrent layer over prompts: a roofline, and the law."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ssdsim.hardware.laws import Roofline, Scaling, TimingModel
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.operations import PrefillRecurrence

SHARE_OF_PEAK = 0.2
SHARE_OF_BANDWIDTH = 0.5
LAUNCH_S = 1.2e-5
"""Of devices on which it was not timed, halfway between an H100 and a B200: Gated DeltaNet over 131,072 tokens reaches
24 and 14 % of their peaks (aiconfigurator 095f58a51, vLLM 0.24.0), which this misses by some 28 % either way."""


class PrefillRecurrenceModel(TimingModel):
    """Prompts through a recurrent layer in chunks. The variables of the domain:

    * ``tokens``: of all prompts
    * ``heads``: with a state each
    """

    dimensions: ClassVar[tuple[str, ...]] = ("tokens", "heads")

    roofline: Roofline

    def scaled(self, scaling: Scaling, *keys: Any) -> Self:
        return self.unfitted(roofline=self.roofline.scaled(scaling, scaling.wide))


class PrefillRecurrenceLaw(Law[PrefillRecurrence]):
    """A model for each rule; without one a roofline at shares of the device's."""

    def timing(self, op: PrefillRecurrence) -> Timing:
        model, key = self.profile.prefill_recurrence.get(op.rule), f"prefill_recurrence:{op.heads}:{op.rule}"
        seconds = float(self._roofline(op).seconds(op.bytes, op.flops))
        if model is None:
            said = f"no {op.rule} recurrence over prompts was timed"
            return untimed(self.profile, key, seconds, said, f"{SHARE_OF_PEAK:.0%} of the device's peak flops")
        outside = model.beyond({"tokens": op.batch * op.tokens, "heads": op.heads})
        return timed(self.profile, key, model, seconds, outside)

    def launch_s(self, op: PrefillRecurrence) -> float:
        return self._roofline(op).launch_s

    def _roofline(self, op: PrefillRecurrence) -> Roofline:
        model, device = self.profile.prefill_recurrence.get(op.rule), self.profile.device
        if model is not None:
            return model.roofline
        peak_flops = device.peak_flops.get(op.dtype, min(device.peak_flops.values()))
        return Roofline(
            launch_s=LAUNCH_S,
            bandwidth=SHARE_OF_BANDWIDTH * device.memory_bandwidth,
            peak_flops=SHARE_OF_PEAK * peak_flops,
        )
