"""Memory-bound kernels, and the short convolution before a recurrence: their timing models and laws."""

from typing import Any, ClassVar, Self

from ssdsim.base.card import Seconds
from ssdsim.hardware.laws import HYPOTHETICAL, LatencyBandwidthModel, Scaling
from ssdsim.hardware.timing import Law, Timing, missing_timings, timed, untimed
from ssdsim.transformer.operations import Elementwise
from ssdsim.transformer.recurrences import Convolution


class ElementwiseModel(LatencyBandwidthModel):
    """A memory-bound kernel: ``launch_s + bytes / bandwidth``, bytes read and written."""

    dimensions: ClassVar[tuple[str, ...]] = ("moved_bytes",)

    launch_s: Seconds

    fixed: ClassVar[str] = "launch_s"

    def scaled(self, scaling: Scaling, *keys: Any) -> Self:
        return scaling.of(self, "launch_s", uncertainty=()).unfitted()


class ElementwiseLaw(Law[Elementwise]):
    """One model for all of them; nothing is guessed."""

    def timing(self, op: Elementwise) -> Timing:
        model = self.profile.elementwise
        if model is None:
            raise missing_timings(self.profile, "elementwise", "", "calibrate")
        outside = model.beyond({"moved_bytes": op.moved_bytes})
        return timed(
            self.profile, "elementwise", model, model.seconds(op.moved_bytes), outside, model.wander(op.moved_bytes)
        )

    def launch_s(self, op: Elementwise) -> float:
        return self.profile.elementwise.launch_s if self.profile.elementwise else 0.0


LAUNCH_S = 1.9e-6
SHARE_OF_BANDWIDTH = 0.6
"""Of devices on which it was not timed: between an H100 (floor 1.9 us, 0.66 of the bandwidth over long prompts) and a
B200 (1.9 us, 0.34; 0.52 in decoding), by aiconfigurator 095f58a51, vLLM 0.24.0."""


class ConvolutionModel(ElementwiseModel):
    """The convolution's model: memory-bound as other kernels are, over inputs, outputs and the tokens of before."""


class ConvolutionLaw(Law[Convolution]):
    """One model for all of them; without it what an H100's tables ask for, by this device's bandwidth."""

    def timing(self, op: Convolution) -> Timing:
        model = self.profile.convolution
        if model is None:
            seconds = float(self._model().seconds(op.bytes))
            said = "no convolution before a recurrence was timed"
            return untimed(self.profile, "convolution", seconds, said, "the H100's floor and share of the bandwidth")
        outside = model.beyond({"moved_bytes": op.bytes})
        return timed(self.profile, "convolution", model, model.seconds(op.bytes), outside, model.wander(op.bytes))

    def launch_s(self, op: Convolution) -> float:
        return self._model().launch_s

    def _model(self) -> ConvolutionModel:
        device = self.profile.device
        return self.profile.convolution or ConvolutionModel(
            source=HYPOTHETICAL, launch_s=LAUNCH_S, bandwidth=SHARE_OF_BANDWIDTH * device.memory_bandwidth
        )
