"""Memory-bound kernels: the fitted timing model and the law."""

from typing import Any, ClassVar, Self

from ssdsim.base.records import Seconds
from ssdsim.hardware.laws import LatencyBandwidthModel, Scaling
from ssdsim.hardware.timing import Law, Timing, missing_timings, timed
from ssdsim.transformer.operations import Elementwise


class ElementwiseModel(LatencyBandwidthModel):
    """A memory-bound kernel: ``launch_s + bytes / bandwidth``, bytes read and written."""

    dimensions: ClassVar[tuple[str, ...]] = ("moved_bytes",)

    launch_s: Seconds

    @property
    def fixed_s(self) -> float:
        return self.launch_s

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
