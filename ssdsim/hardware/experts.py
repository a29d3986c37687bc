"""A layer's routed experts: a floor, the experts that are read, and the tokens' work; and the law."""

from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, NotNegative, Positive, Seconds
from ssdsim.base.checks import Array
from ssdsim.hardware.gemm import GemmLaw
from ssdsim.hardware.laws import Roofline, Scaling, TimingModel
from ssdsim.hardware.timing import Law, Timing, as_efficient, nearest_timed, timed, untimed
from ssdsim.transformer.operations import ExpertMlp

FEW_TOKENS = 256
"""Up to as many the experts' weights are the cost; beyond, other tiles and the arithmetic."""

_MORE_KERNELS = 3
"""Of an expert layer beside its first: a second product, and sorting tokens to experts and back."""


class ExpertCosts(Card):
    """Seconds as a sum, which fits better than the longest of its terms.

    ``launch_s``, ``per_hidden_s`` and ``per_width_s`` (of a value of the hidden state, of an expert's width on the
    device) are the floor; an expert that is touched takes ``per_expert_s`` and its bytes at ``bandwidth``; a token's
    visit to an expert takes ``per_value_s`` of every hidden value and the products of its ``matrices`` at
    ``flops_per_s`` (None: nothing).
    """

    launch_s: Seconds
    per_hidden_s: Seconds
    per_width_s: Seconds
    per_expert_s: Seconds
    bandwidth: Positive
    per_value_s: Seconds
    flops_per_s: Positive | None = None

    def floor_s(self, hidden: ArrayLike, width: ArrayLike) -> Array:
        """Seconds however few experts are read."""
        hidden, width = np.asarray(hidden, float), np.asarray(width, float)
        return np.asarray(self.launch_s + self.per_hidden_s * hidden + self.per_width_s * width)

    def seconds(
        self,
        visits: ArrayLike,
        hidden: ArrayLike,
        width: ArrayLike,
        touched: ArrayLike,
        expert_bytes: ArrayLike,
        matrices: int = 3,
    ) -> Array:
        visits, hidden, width, touched = (np.asarray(each, float) for each in (visits, hidden, width, touched))
        read = touched * (self.per_expert_s + np.asarray(expert_bytes, float) / self.bandwidth)
        products = 2 * matrices * hidden * width / self.flops_per_s if self.flops_per_s else 0.0
        return np.asarray(self.floor_s(hidden, width) + read + visits * (self.per_value_s * hidden + products))

    def scaled(self, scaling: Scaling, arithmetic: float) -> Self:
        """The costs on another device, whose peak is ``arithmetic`` times as high."""
        launches = ("launch_s", "per_hidden_s", "per_width_s", "per_expert_s")
        flops_per_s = self.flops_per_s and self.flops_per_s * arithmetic
        return scaling.of(self, *launches, streams=["per_value_s"], flops_per_s=flops_per_s)


class ExpertsModel(TimingModel):
    """Experts on one device. The variables of the domain:

    * ``visits``: pairs of a token and an expert that it uses
    * ``hidden``: values of the hidden state
    * ``width``: of an expert on the device
    * ``touched``: experts that some token uses (:mod:`ssdsim.transformer.routing`)

    ``few`` are the costs up to :data:`FEW_TOKENS` tokens, ``many`` beyond them. Both are multiplied by ``outnumbered``
    where there are more tokens than experts on the device: kernels that nobody tuned then take larger tiles, which are
    no better filled as long as an expert has few tokens.
    """

    dimensions: ClassVar[tuple[str, ...]] = ("visits", "hidden", "width", "touched")

    few: ExpertCosts
    many: ExpertCosts
    many_log_sd: NotNegative = 0.0
    outnumbered: Annotated[float, Meta(ge=1.0, le=100.0)] = 1.0

    def seconds(
        self,
        tokens: int,
        count: int,
        visits: float,
        hidden: int,
        width: int,
        touched: float,
        expert_bytes: float,
        matrices: int = 3,
    ) -> float:
        """Seconds of a layer with ``count`` experts on the device; never less for more tokens."""
        tiles = self.outnumbered if tokens > count else 1.0
        of_few = visits * min(1.0, FEW_TOKENS / tokens)
        few = self.few.seconds(of_few, hidden, width, touched, expert_bytes, matrices)
        if tokens <= FEW_TOKENS:
            return float(tiles * few)
        return float(tiles * max(few, self.many.seconds(visits, hidden, width, touched, expert_bytes, matrices)))

    def log_sd_at(self, tokens: int) -> float:
        """The error of the range of tokens."""
        return self.log_sd if tokens <= FEW_TOKENS else max(self.log_sd, self.many_log_sd)

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        (weights,) = keys
        if not scaling.multiplies(weights):
            return None
        arithmetic = scaling.arithmetic.get(weights, scaling.wide)
        return self.unfitted(few=self.few.scaled(scaling, arithmetic), many=self.many.scaled(scaling, arithmetic))


class ExpertsLaw(Law[ExpertMlp]):
    """A model for each format of the weights; without one that of the nearest format, reading its own bytes.

    Where no experts were timed, the roofline of products of few tokens.
    """

    def timing(self, op: ExpertMlp) -> Timing:
        near = self._nearest(op)
        key = f"experts:{op.count}x{op.per_token}x{op.width}x{op.hidden}:{op.dtype}"
        if near is None:
            return untimed(self.profile, key, self._guessed_s(op), f"no {op.dtype} experts were timed")
        model, seconds = self.profile.experts[near], self._seconds(op, near)
        if near != op.dtype:
            return as_efficient(self.profile, key, model, seconds, f"{op.dtype} experts", near)
        outside = model.beyond({"visits": op.visits, "hidden": op.hidden, "width": op.width, "touched": op.touched})
        return timed(self.profile, key, model, seconds, outside, log_sd=model.log_sd_at(op.tokens))

    def launch_s(self, op: ExpertMlp) -> float:
        near = self._nearest(op)
        floor_s = None if near is None else self.profile.experts[near].few.floor_s(op.hidden, op.width)
        return self._few_tokens(op).launch_s if floor_s is None else float(floor_s)

    def waiting_s(self, op: ExpertMlp, seconds: float) -> float:
        """Seconds of their launch: read one by one, experts reach less than the peak whatever runs beside them."""
        return min(seconds, self.profile.launch_seconds(op))

    def _nearest(self, op: ExpertMlp) -> str | None:
        known = self.profile.experts
        if op.dtype in known:
            return op.dtype
        return nearest_timed(self.profile, op, known, lambda kept: self._seconds(op, kept))

    def _seconds(self, op: ExpertMlp, kept: str) -> float:
        """Seconds by the model of a format, of the operation's own bytes."""
        shape = (op.tokens, op.count, op.visits, op.hidden, op.width, op.touched, op.expert_bytes, op.matrices)
        return self.profile.experts[kept].seconds(*shape)

    def _guessed_s(self, op: ExpertMlp) -> float:
        """Seconds of the touched experts' bytes and the tokens' flops."""
        roofline = self._few_tokens(op)
        working_s = max(float(roofline.seconds(op.bytes, op.flops)), self.profile.device.compute_s(op))
        return working_s + _MORE_KERNELS * roofline.launch_s

    def _few_tokens(self, op: ExpertMlp) -> Roofline:
        return GemmLaw(self.profile).model(op.activations_dtype).segments[0].roofline
