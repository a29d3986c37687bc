"""The numbers of a runtime card: what an engine's kernels and its host take, and how far off they are."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from msgspec import Meta

from ssdsim.base.card import Card, LogSd, NotNegative, Seconds
from ssdsim.base.conversion import FieldError
from ssdsim.base.errors import nearest
from ssdsim.base.record import Record

Factor = Annotated[float, Meta(ge=0.01, le=100.0)]
"""A factor on the seconds of kernels."""

DraftDegree = Literal["one", "all", "faster"]
DRAFT_DEGREES: tuple[DraftDegree, ...] = get_args(DraftDegree)
CacheDtype = Literal["bfloat16", "float16", "float8"]


class FieldInfo(Record):
    """Metadata of a card field: description and uncertainty.

    ``prior_sd`` is the standard deviation between engines of a kind, the prior of a fit of few rows (None: the field is
    not fitted). The host's seconds of one ``term`` share an error, which is the log-sd ``error`` of
    :class:`CardErrors`. :func:`ssdsim.pricing.passes.units` says how often a number is paid.
    """

    about: str
    prior_sd: float | None = None
    term: str = "pass"
    error: str = "host_log_sd"

    @property
    def has_own_error(self) -> bool:
        """Tell whether its seconds have another error than the host's in passes and steps."""
        return self.error != "host_log_sd"


class Kernels(Card):
    """Differences of the engine's kernels from those that were timed one by one on an idle device.

    ``gemm``, ``attention``, ``communication``, ``elementwise``, ``experts`` (of 8 bits a weight), ``experts_16_bit``,
    ``experts_4_bit`` (MXFP4 and int4, which other kernels unpack as they read them) and ``experts_nvfp4`` multiply
    their seconds. ``overlap`` is the share of what GEMMs, attention and element-wise kernels take beyond their bytes
    and flops at the device's peaks that their neighbours hide: launches, first loads and last waves (CUDA graphs,
    programmatic dependent launch, fusion). Products of 4 bits hide nothing: quantising their inputs takes that time.

    Passes over prompts have no factors but these. ``prompt_experts_4_bit`` multiplies their experts of 4 bits.
    ``prompts`` is the share of other requests' prompts that tokens of a served request wait for; the rest is in their
    first token's time (an engine that processes prompts first, of requests that arrive together).

    Where the engine has kernels of its own, what another library's took says little. ``streaming_attention``: decode
    attention takes its launch and its bytes, as fast as the profile's kernels or memory give them at best; what the
    engine's take besides is of each layer. Messages of an all-reduce up to
    ``one_shot_bytes`` are read by every rank from each other one, which takes the latency and ``(ranks - 1) bytes``
    over the link; larger ones take no less, and at most what the profile's do or what they take in one shot or in two,
    each rank adding up its part for all others. Both kernels are multiplied by their factors. Engines of 2024 read keys
    and values for each query head: one more that shares them adds ``attention_sharing`` of attention's seconds.
    """

    gemm: Annotated[Factor, FieldInfo("matrix multiplications", 0.2)] = 1.0
    attention: Annotated[Factor, FieldInfo("attention", 0.25)] = 1.0
    attention_sharing: Annotated[NotNegative, FieldInfo("attention, a query head more of a KV head", 0.2)] = 0.0
    communication: Annotated[Factor, FieldInfo("all-reduces", 0.3)] = 1.0
    elementwise: Annotated[Factor, FieldInfo("element-wise kernels", 0.5)] = 1.0
    experts: Annotated[Factor, FieldInfo("layers of experts of 8 bits", 0.15)] = 1.0
    experts_16_bit: Annotated[Factor, FieldInfo("of 16 bits", 0.15)] = 1.0
    experts_4_bit: Annotated[Factor, FieldInfo("of 4 bits, unpacked", 0.25)] = 1.0
    experts_nvfp4: Annotated[Factor, FieldInfo("of 4 bits, multiplied as such", 0.25)] = 1.0
    prompt_experts_4_bit: Annotated[Factor, FieldInfo("of 4 bits, unpacked, in passes over prompts", 0.5)] = 1.0
    prompts: Annotated[Factor, FieldInfo("share of others' prompts that a served token waits for", 0.3)] = 1.0
    overlap: Annotated[float, FieldInfo("share beyond the roofs that is hidden", 0.3), Meta(ge=0.0, le=0.9)] = 0.0
    streaming_attention: Annotated[bool, FieldInfo("attention at the bandwidth")] = False
    one_shot_bytes: Annotated[int, FieldInfo("all-reduces read by every rank"), Meta(ge=0, le=10**12)] = 0


_DRAFTING, _ROUND = "draft_step_log_sd", "per_round_log_sd"


class Host(Card):
    """Seconds that belong to no kernel.

    ``per_layer_s``: gaps, of every pass and layer. ``per_expert_layer_s``: of those with experts besides, and
    ``per_expert_token_s`` for every token there: choosing experts, sorting tokens to them and adding up;
    ``per_expert_prompt_s`` of such a layer in a pass with parts of prompts, which no captured graph holds.
    ``per_recurrent_layer_s``: of those with a recurrent state besides (what splits its inputs, decays and gates).
    ``per_pass_s``: of a target pass. ``per_step_s``: after each target pass (scheduling, sampling, detokenising), and
    ``per_sequence_s`` of it for every sequence of the batch. ``per_draft_step_s``: of every pass of a draft.
    ``per_round_s``: of a round that verifies drafted tokens, more than of a step without. Of it are
    ``per_round_sequence_s`` for every sequence (what was accepted of it, its cache cut back, its next draft) and
    ``per_round_layer_s`` for every layer of the target (shapes for which no graph was captured).
    ``per_tree_layer_s``: of every layer without experts of a pass over a tree, of target and draft, whose attention
    takes a kernel over what all nodes see, one over the nodes under a mask, and one that merges both; a layer with
    experts took no longer in any published tree. ``per_tree_token_s``: of every node in a draft's pass over a tree,
    whose likeliest children are sorted out of its vocabulary.
    ``per_mask_s``: of a draft's pass over branches or a tree, whose mask depends on the step and on the prefix and is
    built anew. Only rows of rounds that wait for such passes tell what it takes: SSD's whose draft is late.
    """

    per_layer_s: Annotated[Seconds, FieldInfo("of every pass and layer", 10e-6, "layers")] = 0.0
    per_pass_s: Annotated[Seconds, FieldInfo("of a target pass", 1e-3, "pass")] = 0.0
    per_step_s: Annotated[Seconds, FieldInfo("after each target pass", 1e-3, "step")] = 0.0
    per_sequence_s: Annotated[Seconds, FieldInfo("of it, a sequence of the batch", 20e-6, "step")] = 0.0
    per_draft_step_s: Annotated[Seconds, FieldInfo("of every pass of a draft", 1.5e-3, "draft step", _DRAFTING)] = 0.0
    per_round_s: Annotated[Seconds, FieldInfo("of a round that speculates", 3e-3, "round", _ROUND)] = 0.0
    per_round_layer_s: Annotated[Seconds, FieldInfo("of it, a layer of the target", 50e-6, "round", _ROUND)] = 0.0
    per_round_sequence_s: Annotated[Seconds, FieldInfo("of it, a sequence of the batch", 0.1e-3, "round", _ROUND)] = 0.0
    per_tree_layer_s: Annotated[Seconds, FieldInfo("of a dense layer over a tree", 20e-6, "tree", _ROUND)] = 0.0
    per_tree_token_s: Annotated[Seconds, FieldInfo("of a draft's node in it", 5e-6, "tree step", _DRAFTING)] = 0.0
    per_mask_s: Annotated[Seconds, FieldInfo("of a branch step, for its mask", 0.3e-3, "masks", _DRAFTING)] = 0.0
    per_expert_layer_s: Annotated[Seconds, FieldInfo("of every layer with experts", 10e-6, "expert layers")] = 0.0
    per_expert_token_s: Annotated[Seconds, FieldInfo("of it, a token", 1e-6, "expert layers")] = 0.0
    per_expert_prompt_s: Annotated[Seconds, FieldInfo("of it, in a pass over prompts", 1e-3, "expert layers")] = 0.0
    per_recurrent_layer_s: Annotated[Seconds, FieldInfo("of every layer with a state", 10e-6, "recurrent layers")] = 0.0


class CardErrors(Card):
    """Errors of the card.

    ``pass_log_sd``: standard deviation of log(real / predicted) of a target pass with its step, from series that were
    left out; all strategies on the engine share it. ``beside_log_sd``: besides, of those of its seconds in which no
    matrices are multiplied (attention, messages, element-wise work, the host), which are known worse than matrices
    timed one by one. ``experts_log_sd``: added to a pass's (in quadrature) where the model is a mixture of experts.
    ``host_log_sd``: of the host's seconds. ``draft_step_log_sd``: of those of a draft step. ``per_round_log_sd``: of
    those of a round. ``round_log_sd``: of a whole round that speculates, each strategy's its own.
    """

    pass_log_sd: Annotated[LogSd, FieldInfo("error of a target pass and step")] = 0.0
    beside_log_sd: Annotated[LogSd, FieldInfo("of its seconds beside matrices, besides")] = 0.0
    experts_log_sd: Annotated[LogSd, FieldInfo("error of a mixture's, besides")] = 0.0
    host_log_sd: Annotated[LogSd, FieldInfo("error of the host's seconds")] = 0.0
    draft_step_log_sd: Annotated[LogSd, FieldInfo("error of a draft step")] = 0.0
    per_round_log_sd: Annotated[LogSd, FieldInfo("error of the cost of a round")] = 0.0
    round_log_sd: Annotated[LogSd, FieldInfo("error of a speculating round")] = 0.0


def _numbers(*parts: type[Card]) -> dict[str, FieldInfo]:
    return {
        name: next(each for each in part.__annotations__[name].__metadata__ if isinstance(each, FieldInfo))
        for part in parts
        for name in part.__struct_fields__
    }


NUMBERS = _numbers(Kernels, Host)
"""Every field that belongs to kernels or to the host, in the order of the card."""

ERRORS = _numbers(CardErrors)


class Launches(Card):
    """Host time of a draft model whose kernels are launched one by one and not as a CUDA graph.

    ``per_layer_s``: of every layer of each of its passes; ``per_round_s``: of a round besides (scheduling, launching
    the target, sampling). The host runs ahead of the devices: it launches drafts while these still verify, so that a
    round takes as long as the slower of both and not their sum.
    """

    per_round_s: Seconds
    per_layer_s: Seconds


def check_numbers(key: str, named: Mapping[str, float]) -> None:
    """FieldError unless all names under a key are those of numbers of a card."""
    for name in named:
        if name not in NUMBERS:
            raise FieldError(key, f"unknown number '{name}'{nearest(name, NUMBERS)} Allowed: {', '.join(NUMBERS)}")
