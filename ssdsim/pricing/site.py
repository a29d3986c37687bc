"""The site of a scenario: models on devices, and what passes and messages cost there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property, partial, update_wrapper
from operator import attrgetter
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import Record, field, replace
from ssdsim.hardware.extrapolation import OperatingPoint
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS, Runtime, far_from_rows
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import (
    Model,
    NamedLink,
    Network,
    cost_of_launches,
    cost_of_message,
    cost_of_step,
    streaming_share,
    units,
    units_of_step,
    unsaid_version,
)
from ssdsim.pricing.stages import StagedPass
from ssdsim.pricing.step import (
    HostWork,
    Message,
    Pass,
    PassKey,
    Piece,
    RowTable,
    Step,
    chances_at_once,
    mixed_rows,
    mixed_rows_to_price,
    rows_to_price,
)
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import degrees, forward_pass
from ssdsim.transformer.operations import DTYPE_BYTES
from ssdsim.transformer.parallel_degrees import legal_tensor_parallel
from ssdsim.transformer.precision import Precision

# An outcome names, per sequence: id, accepted length, bonus token and length (8 bytes each), a temperature, and the
# draft's block table (4 bytes for each page of 16 tokens): SSD paper, appendix B.1.
OUTCOME_BYTES = 36
PAGE_TOKENS = 16
TOKEN_BYTES = 8


T = TypeVar("T")
Args = ParamSpec("Args")


def memoized(method: Callable[Concatenate[Site, Args], T]) -> Callable[Concatenate[Site, Args], T]:
    """Cache a method or function of a site that reads none of its options, for all copies with other options."""

    def known(self: Site, *args: Args.args, **kwargs: Args.kwargs) -> T:
        asked = (method.__name__, args, tuple(kwargs.items()))
        if asked not in self._known:
            self._known[asked] = method(self, *args, **kwargs)
        return cast(T, self._known[asked])

    return cast("Callable[Concatenate[Site, Args], T]", update_wrapper(known, method))


class Site(Record):
    """A target on ``tp`` devices, a draft that may sit beside it or on devices of its own, and their profiles.

    The target's experts lie in ``ep`` groups of its devices, a draft's on all that it has. ``data_parallel``: the
    target's devices have sequences of their own (data-parallel attention), for which a draft beside it runs there too.
    ``dcp`` of them share each sequence's cache of the target; a draft's is never shared.
    Its layers lie on ``pp`` stages of as many devices each, through which its ``batch`` goes in microbatches.
    ``dtype`` and ``kv_dtype`` are of both models, ``draft_dtype`` of the draft in place of ``dtype``, as
    :meth:`Transformer.precision` takes them. ``options`` holds every option of the call: a strategy and a drafter read
    their own there. ``drift`` says how many times slower a pass is now than its profile says, by the pass's ``key`` (1
    where it is not there). ``engine_version`` is empty where nobody said it. ``network`` is between the target and a
    draft's own devices, None where they have the profile's link; ``between_stages`` is between stages that are nodes of
    their own, None where one node has all. ``unit_free``: no hardware is read
    (:class:`ssdsim.pricing.unit_free.UnitFree`).
    """

    unit_free: ClassVar[bool] = False

    target: Transformer
    draft: Transformer
    profile: HardwareProfile
    draft_profile: HardwareProfile
    tp: int
    batch: int
    context: int
    sampling: bool
    dtype: str | None
    options: Mapping[str, Any]
    runtime: Runtime = KERNELS
    drift: Mapping[PassKey, float] = field(default_factory=dict)
    draft_dtype: str | None = None
    kv_dtype: str | None = None
    ep: int = 1
    data_parallel: bool = False
    dcp: int = 1
    pp: int = 1
    engine_version: str = ""
    network: Network | NamedLink | None = None
    between_stages: NamedLink | None = None

    @cached_property
    def _known(self) -> dict[Any, Any]:
        """Results of what is :func:`memoized`."""
        return {}

    def with_options(self, options: Mapping[str, Any]) -> Site:
        """Copy the site with other options."""
        site = replace(self, options=options)
        vars(site).update(vars(self), _known=self._known)  # all that is known of it: none of it reads an option
        return site

    def with_batch(self, batch: int) -> Site:
        """Copy the site with another number of sequences in a pass."""
        site = replace(self, batch=batch)
        vars(site)["_known"] = self._known.setdefault(("with_batch", batch), {})
        return site

    def sharing_devices(self) -> Site:
        """Copy the site with the draft's device as one of the target's."""
        site = replace(self, draft_profile=self.profile, network=None)
        vars(site)["_known"] = self._known.setdefault("sharing_devices", {})
        return site

    @property
    def sharing(self) -> int:
        """Number of the target's devices that share its attention and a sequence."""
        return 1 if self.data_parallel else self.tp

    @property
    def degrees(self) -> str:
        """Short text of how devices share the target."""
        return degrees(self.tp, self.ep, self.data_parallel, self.dcp, self.pp)

    @property
    def microbatches(self) -> int:
        """Parts of the batch that are in flight: one a stage, but no empty one."""
        return min(self.pp, self.batch)

    @property
    def in_a_pass(self) -> int:
        """Sequences of a pass: the fullest microbatch."""
        return -(-self.batch // self.pp)

    @property
    def own_sequences(self) -> int:
        """Sequences of the target's fullest device in a pass."""
        return -(-self.in_a_pass * self.sharing // self.tp)

    @cached_property
    def case(self) -> OperatingPoint:
        """Operating point at which the runtime is read."""
        device, profile = self.profile.device, self.profile.name
        return OperatingPoint.of(self.target, device, profile, self.tp, self.in_a_pass, self.engine_version)

    @cached_property
    def local_runtime(self) -> Runtime:
        """The runtime with the uncertainty of this operating point, by its distance from the rows that were fitted."""
        return self.runtime.facing(self.case)

    # passes

    @memoized
    def target_pass(self, name: str, queries: int, masked: bool = False, rows: int | None = None) -> Pass:
        """One target pass over ``batch * queries`` tokens; ``masked`` where those of a sequence are a tree.

        Over so many ``rows`` where sequences have different numbers of tokens, at most ``queries``.
        """
        of: dict[str, Any] = {"ep": self.ep, "data_parallel": self.data_parallel, "rows": rows, "dcp": self.dcp}
        forward = self._forward(self.target, queries, self.tp, masked=masked, **of)
        made = Pass(name, "target", forward, self.tp, self.profile, self.local_runtime)
        return made if self.pp == 1 else StagedPass.over(made, self.pp, self._sends(rows or self.in_a_pass * queries))

    def _sends(self, tokens: int) -> Cost:
        """Hidden states of so many tokens from stage to stage, each device to its neighbour; ids back to the first."""
        value_bytes = DTYPE_BYTES[self.precision_of("target").activations]
        states = -(-tokens * self.sharing // self.tp) * self.target.hidden_size * self.target.streams * value_bytes
        messages = (states, self.pp - 1), (tokens * TOKEN_BYTES, 1)
        if (network := self.between_stages) is not None:
            return Cost.total((network.cost_of(sent), times) for sent, times in messages)
        return Cost.total((cost_of_message(sent, self.profile, (0, self.tp)), times) for sent, times in messages)

    @property
    def in_node(self) -> int:
        """Devices of the target in each node."""
        return self.tp if self.between_stages is not None else self.tp * self.pp

    @memoized
    def draft_pass(
        self,
        name: str,
        queries: int = 1,
        extra_context: int = 0,
        masked: bool = False,
        *,
        fused: int | None = None,
        logits: int | None = None,
        drafts: int = 1,
    ) -> Pass:
        """One pass of the draft on a device of its own, over ``queries`` tokens a sequence.

        ``fused``, ``logits`` and ``drafts`` as :func:`ssdsim.transformer.forward.forward_pass` takes them.
        """
        of = {"fused": fused, "logits": logits, "drafts": drafts}
        forward = self._drafting._forward(self.draft, queries, 1, extra_context, masked, **of)
        return Pass(name, "draft", forward, 1, self.draft_profile, self.runtime.drafting_with(self.draft.head))

    @memoized
    def draft_beside_target(
        self,
        name: str,
        queries: int = 1,
        masked: bool = False,
        *,
        fused: int | None = None,
        logits: int | None = None,
    ) -> Pass:
        """The draft's pass on the target's devices: on one or on all of them, as asked or as the runtime has it."""
        degrees = sorted({1, self.tp} & {1, *legal_tensor_parallel(self.draft)})
        if self.data_parallel:
            degrees = [self.tp]
        elif (asked := self.options.get("draft_tp") or self.runtime.draft_tp) != "faster":
            degrees = degrees[-1:] if asked == "all" else degrees[:1]
        of = {"masked": masked, "fused": fused, "logits": logits}
        passes = [self.draft_on_target(name, tp, queries, **of) for tp in degrees]
        return min(passes, key=attrgetter("cost.seconds"))

    def draft_on_target(self, name: str, tp: int, queries: int = 1, **of: Any) -> Pass:
        """The draft's pass on ``tp`` of the target's devices.

        No card's rows have a draft model over several. The one that was published, OPT-125M, took four times as long on
        two or four A100s as on one (vLLM PR 4840). So a card's error of a draft step is that of the whole pass there.
        """
        if self.data_parallel:
            of |= {"data_parallel": True, "ep": tp if self.draft.experts else 1}
        forward = self._drafting._forward(self.draft, queries, tp, **of)
        untold = self.runtime.errors.draft_step_log_sd if tp > 1 and self.draft.head is None else 0.0
        runtime = self.runtime.drafting_with(self.draft.head)
        return Pass(name, "draft", forward, tp, self.profile, runtime, untold)

    @cached_property
    def _drafting(self) -> Site:
        """Copy of the site with the draft's own number format in place of both models'."""
        return replace(self, dtype=self.draft_dtype) if self.draft_dtype else self

    def _forward(
        self, card: Transformer, queries: int, tp: int, extra_context: int = 0, masked: bool = False, **of: Any
    ) -> Any:
        return forward_pass(
            card,
            batch=self.in_a_pass,
            queries=queries,
            context=self.context + extra_context,
            tp=tp,
            dtype=self.dtype,
            kv_dtype=self.kv_dtype,
            masked=masked,
            states=self.runtime.states,
            **of,
        )

    # what they cost

    def cost(self, work: Pass) -> Cost:
        return work.cost * self.drift.get(work.key, 1.0) if self.drift else work.cost

    def piece(self, work: Pass, times: int = 1) -> Piece:
        return Piece(work.name, self.cost(work), times, work)

    def on_host(self, name: str, seconds: float) -> Piece:
        """Host work of a given time, without a model."""
        return Piece(name, Cost({name: (seconds, 0.0)}) if seconds else Cost(), 1, HostWork(seconds))

    @memoized
    def sampling_step(self, speculates: bool = True) -> Step:
        """Sampling and host work after a target pass, of a round that ``speculates`` or of a step that does not."""
        paid = units_of_step(self.own_sequences, self.target.layers if speculates else 0)
        told = far_from_rows(self.runtime, self.case)
        if self.runtime.by_version is not None:
            decoding = self.target_pass("decode", 1)
            every = {**paid, **units(decoding.forward, "target")}
            told |= unsaid_version(self.runtime, every, decoding.cost.seconds)
        cost = cost_of_step(self.local_runtime, paid) + Cost(warnings=told)
        return Step("host", (Piece("sample", cost, paid=paid),))

    def launches(self, step: Pass, tokens: int) -> tuple[Piece, ...]:
        """Waits for kernel launches in a round of ``tokens`` drafts beside the target; none where nothing waits."""
        if self.runtime.launches is None:
            return ()
        busy_s = self.target_pass("verify", tokens + 1).cost.seconds + self.sampling_step().seconds
        cost = cost_of_launches(self.runtime, step.forward.layers, tokens, busy_s + tokens * step.cost.seconds)
        return (Piece("launches", cost, 1, HostWork(cost.seconds)),) if cost.seconds else ()

    def streaming_share(self, work: Pass, seconds: float) -> float:
        """Share of a pass's time that its bytes alone would take, at most 1."""
        return streaming_share(work.forward, seconds, work.profile)

    # steps of rounds

    @memoized
    def verify_step(self, name: str, tokens: float, masked: bool = False) -> Step:
        """One target pass; linear in time between whole numbers of tokens a sequence."""
        low, high = math.floor(tokens), math.ceil(tokens)
        passes = [self.target_pass(name, rows, masked) for rows in (low, high)]
        if low == high:
            return Step("verify", (self.piece(passes[0]),))
        between = Cost.total(zip(map(self.cost, passes), (high - tokens, tokens - low), strict=True))
        return Step("verify", (Piece(name, between, 1, passes[1]),))

    def ragged_step(self, name: str, rows: Mapping[float, float], most: int) -> Step:
        """One target pass over a number of the batch's tokens that differs by round: each number's share of them.

        Some rounds may have up to ``most``.
        """
        return self._mean_pass(name, self._passes_by_rows(name, most), np.array([*rows]), np.array([*rows.values()]))

    def _mean_pass(self, name: str, table: RowTable, rows: Array, chances: Array, masked: bool = False) -> Step:
        low, high, share = table.between(rows)
        of_each = np.concatenate([chances * (1.0 - share), chances * share])
        priced = np.bincount(np.concatenate([low, high]), of_each)
        passes = [(int(table.rows[at]), float(priced[at])) for at in np.flatnonzero(priced)]
        cost = Cost.total((self.cost(self._pass_over(name, each, masked)), times) for each, times in passes)
        mean = self._pass_over(name, table.next(float(rows @ chances)), masked)
        return Step("verify", (Piece(name, cost, 1, mean),), by_rows=table)

    def mixed_step(self, name: str, tokens: tuple[float, float], share: float, masked: bool = False) -> Step:
        """One target pass in which a ``share`` of sequences has the first number of tokens, the others the second.

        It is the mean over how many of a batch do, each of which is a pass of its own.
        """
        if share in (0.0, 1.0) or tokens[0] == tokens[1]:
            return self.verify_step(name, tokens[0] if share == 1.0 else tokens[1], masked)
        return self._mixed_step(name, tokens, share, masked)

    @memoized
    def _mixed_step(self, name: str, tokens: tuple[float, float], share: float, masked: bool) -> Step:
        rows, chances = mixed_rows(self.in_a_pass, tokens), chances_at_once(self.in_a_pass, share)
        return self._mean_pass(name, self._mixed_passes(name, tokens, masked), rows, chances, masked)

    @memoized
    def _mixed_passes(self, name: str, tokens: tuple[float, float], masked: bool) -> RowTable:
        rows = mixed_rows_to_price(self.in_a_pass, tokens)
        seconds = [self.cost(self._pass_over(name, each, masked)).seconds for each in rows]
        work = partial(self._pass_over, name, masked=masked)
        apart = abs(float(tokens[0]) - tokens[1])
        whole = int(apart) if apart.is_integer() else 1
        return RowTable(rows[0], rows[-1], np.array(rows), np.array(seconds), work=work, stride=whole)

    @memoized
    def _passes_by_rows(self, name: str, most: int) -> RowTable:
        captured = () if self.data_parallel else self.runtime.captured_rows
        rows, last = rows_to_price(self.in_a_pass, most, captured)
        seconds = [self.cost(self._pass_over(name, each)).seconds for each in rows]
        return RowTable(self.in_a_pass, most, np.array(rows), np.array(seconds), last, partial(self._pass_over, name))

    def _pass_over(self, name: str, rows: int, masked: bool = False) -> Pass:
        """A target pass over so many rows. Attention takes each sequence to have an equal share, rounded up."""
        queries = -(-rows // self.in_a_pass)
        return self.target_pass(name, queries, masked, rows=None if rows == queries * self.in_a_pass else rows)

    def override(self, option: str, step: Step, name: str | None = None) -> Step:
        """The step; without hardware an option may give its time, and with a ``name`` it is then one piece."""
        return step

    # messages

    @memoized
    def outcome_message(self, verified: int = 1) -> Step:
        """Message to the draft: which tokens of each sequence were accepted, and the bonus token.

        A draft head also gets the target's hidden states, or keys and values, of ``verified`` tokens a sequence.
        """
        outcome_bytes = OUTCOME_BYTES + 4 * -(-self.context // PAGE_TOKENS)
        sent = self.in_a_pass * outcome_bytes + self.feature_bytes(verified)
        return Step("communicate", (Piece("outcome", self._cost_to_draft(sent)),), message=Message(sent))

    @memoized
    def speculation_message(self, tokens: int, distributions: int | None = None) -> Step:
        """``tokens`` drafted tokens a sequence to the target's first device, which tells the others.

        They are drawn from so many ``distributions``, by default one each, whose logits go along when sampling (greedy
        decoding needs none).
        """
        drawn_from, broadcast = tokens if distributions is None else distributions, self.token_bytes(tokens)
        logits = drawn_from * self.draft.vocab_size * DTYPE_BYTES[self.precision_of("draft").activations]
        sent = broadcast + self.in_a_pass * (1 + (logits if self.sampling else 0))  # a flag of hits beside each
        cost = self._cost_to_draft(sent) + self.cost_of_broadcast(tokens)
        return Step("communicate", (Piece("speculation", cost),), message=Message(sent, broadcast))

    def broadcast_message(self, tokens: int, drafting: Pass | None) -> Step:
        """Message to the target's other devices with what one of them drafted; empty where all of them draft."""
        if drafting is None or drafting.tp >= self.tp:
            return Step("communicate", (Piece("send tokens", Cost()),), message=Message(0))
        piece, message = Piece("send tokens", self.cost_of_broadcast(tokens)), Message(0, self.token_bytes(tokens))
        return Step("communicate", (piece,), message=message)

    def cost_of_broadcast(self, tokens: int) -> Cost:
        """Broadcast of drafted tokens over the target's devices: a binomial tree of messages."""
        if self.tp == 1:
            return Cost()
        return cost_of_message(self.token_bytes(tokens), self.profile) * (self.tp - 1).bit_length()

    def _cost_to_draft(self, message_bytes: int) -> Cost:
        """Cost of a message between the target's first device and a draft's own, the next after the target's last.

        Two devices of different kinds have no link of their own: the slower of theirs counts, which lead to the host.
        """
        if self.network is not None:
            return self.network.cost_of(message_bytes)
        if self.draft_profile is self.profile:
            return cost_of_message(message_bytes, self.profile, (0, self.in_node))
        ends = [self.draft_profile, *([self.profile] if self.profile.link else [])]
        return max((cost_of_message(message_bytes, each) for each in ends), key=attrgetter("seconds"))

    def feature_bytes(self, tokens: int) -> int:
        """Bytes that a draft reads of its target: states of ``tokens`` tokens a sequence, or keys and values."""
        head = self.draft.head
        if head is None:
            return 0
        kept = self.precision_of("target")
        value_bytes = DTYPE_BYTES[kept.kv if head.reads == "kept" else kept.activations]
        return self.in_a_pass * tokens * head.features * head.feature_size * value_bytes

    def token_bytes(self, tokens: int) -> int:
        """``tokens`` token ids a sequence."""
        return self.in_a_pass * tokens * TOKEN_BYTES

    def precision_of(self, model: Model) -> Precision:
        """The formats in which a model is kept and computed."""
        if model == "target":
            return self.target.precision(self.dtype, self.kv_dtype)
        return self.draft.precision(self.draft_dtype or self.dtype, self.kv_dtype)


class Silent(Site):
    """A site on which messages take no time."""

    def outcome_message(self, verified: int = 1) -> Step:
        return Step("communicate")

    def speculation_message(self, tokens: int, distributions: int | None = None) -> Step:
        return Step("communicate")

    def broadcast_message(self, tokens: int, drafting: Pass | None) -> Step:
        return Step("communicate")
