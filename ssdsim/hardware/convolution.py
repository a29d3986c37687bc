"""The short convolution before a recurrence: the fitted timing model and the law."""

from ssdsim.hardware.elementwise import ElementwiseModel
from ssdsim.hardware.laws import HYPOTHETICAL
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.recurrences import Convolution

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
