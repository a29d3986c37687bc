"""Options of the site (models, devices, formats, the engine), and of durations in its place."""

from __future__ import annotations

from functools import partial

from ssdsim.base.kinds import Flag, Name, Number, NumberOrWord, OneOf, Whole
from ssdsim.base.kinds_of_lists import ListOf, PassTimes
from ssdsim.base.option import Excludes, Group, Needs, Option, Section, choice, machine_choice
from ssdsim.hardware.catalog import (
    DRAFT,
    full_hardware_name,
    full_transformer_name,
    hardware_meant,
    transformer_meant,
)
from ssdsim.hardware.runtime_catalog import full_runtime_name, runtime_meant
from ssdsim.hardware.runtime_numbers import DRAFT_DEGREES
from ssdsim.transformer.forward import DATA_PARALLEL
from ssdsim.transformer.operations import DTYPES
from ssdsim.transformer.precision import FORMATS, KV_DTYPES, SPELLINGS
from ssdsim.transformer.recurrences import KEEPINGS

_hardware = partial(Option, groups=(Group.HARDWARE,))
_of_models = partial(choice, section=Section.MODELS, groups=(Group.HARDWARE, Group.CHOICE))

_SPELLINGS = tuple(SPELLINGS.items())
"""Of formats; an option refuses those of formats that it does not take."""

SITE = (
    _hardware(
        name="target",
        section=Section.START,
        prominence=9,
        default="llama-3.1-70b",
        kind=Name(full=full_transformer_name, meant=transformer_meant),
        about="target model: a card (ssdsim models list), a config.json, a .gguf, or transformer-shaped-HxL",
        axis="target",
        spellings=("--model",),
    ),
    _hardware(
        name="draft",
        section=Section.MODELS,
        prominence=4,
        default=DRAFT,
        kind=Name(full=full_transformer_name, meant=transformer_meant),
        about="draft model's card or .gguf; with another --drafter, its own card or a config.json",
        axis="draft",
    ),
    _hardware(
        name="any_vocabulary",
        section=Section.MODELS,
        default=False,
        kind=Flag(),
        about="price a draft of another vocabulary than the target's: vLLM and transformers take it, others refuse",
        axis="drafts of any vocabulary",
    ),
    _hardware(
        name="draft_set",
        section=Section.MODELS,
        kind=Name(files=False),
        about="the set of a drafter card whose published acceptance is taken",
        axis="set of the drafter card",
        default_note="the one in the middle of those on --text",
        excludes=(Excludes(("text",), "{it} has no effect with --draft-set (which says the set itself)"),),
    ),
    Option(
        name="hardware",
        section=Section.START,
        prominence=8,
        default="h100-sxm",
        kind=Name(full=full_hardware_name, meant=hardware_meant),
        about="hardware profile (ssdsim hardware list)",
        axis="hardware",
        spellings=("--system",),
        groups=(Group.HARDWARE, Group.CHOICE),
    ),
    machine_choice(
        name="draft_hardware",
        kind=Name(full=full_hardware_name, meant=hardware_meant),
        about="profile of a draft's own device: SSD's, of SD where nobody else drafts; cpu is the host's",
        axis="draft hardware",
        default_note="--hardware",
    ),
    _hardware(
        name="draft_link",
        section=Section.MACHINE,
        kind=Name(),
        about="link between target and draft: nvlink2-4, pcie3-5, rdma, tcp, or a profile whose link was measured",
        axis="link to the draft",
        default_note="the profile's link",
        excludes=(
            Excludes(
                ("draft_link_us", "draft_link_gbs"),
                "{it} has no effect with --draft-link (which says latency and bandwidth)",
            ),
        ),
    ),
    _hardware(
        name="draft_link_us",
        section=Section.MACHINE,
        kind=Number(1e9),
        about="latency of a message between target and draft over a network (us)",
        axis="latency to the draft (us)",
        default_note="the profile's link",
        needs=Needs(("draft_link_gbs",), "(its bandwidth)"),
    ),
    _hardware(
        name="draft_link_gbs",
        section=Section.MACHINE,
        kind=Number(1e6),
        about="bandwidth of that network (GB/s)",
        axis="bandwidth to the draft (GB/s)",
        default_note="the profile's link",
        needs=Needs(("draft_link_us",), "(its latency)"),
    ),
    machine_choice(
        name="engine",
        spellings=("--runtime",),
        prominence=4,
        kind=Name(full=full_runtime_name, meant=runtime_meant),
        about="engine that serves: vllm, sglang, ... (ssdsim runtimes list) or a card's .toml; kernels adds nothing",
        axis="engine",
        default_note="the one beside the profile, else ssd-engine",
    ),
    machine_choice(
        name="tp",
        prominence=7,
        spellings=("--tensor-parallel-size",),
        default=4,
        kind=Whole(),
        about="tensor-parallel degree of the target",
        axis="target GPUs (tensor parallel)",
        doubling=True,
        varied_by=("recommend", "plan"),
    ),
    machine_choice(
        name="draft_tp",
        kind=OneOf(DRAFT_DEGREES, (("1", "one"),)),
        about="devices of the target on which a draft beside it runs: one, all, or the faster",
        axis="target devices of a draft beside it",
        default_note="the engine's",
    ),
    machine_choice(
        name="ep",
        default=1,
        kind=Whole(),
        about="groups of the target's devices that hold different experts (expert parallel); 1: all share each expert",
        axis="groups of experts (expert parallel)",
        doubling=True,
    ),
    machine_choice(
        name="dcp",
        spellings=("--decode-context-parallel-size",),
        default=1,
        kind=Whole(),
        about="target devices that share each sequence's cache where they would hold copies (decode context parallel)",
        axis="devices that share a cache (DCP)",
        doubling=True,
    ),
    machine_choice(
        name="pp",
        spellings=("--pipeline-parallel-size",),
        default=1,
        kind=Whole(),
        about="stages of --tp GPUs each that share the target's layers (pipeline parallel), a microbatch in flight for "
        "each",
        axis="stages of the target (pipeline parallel)",
        doubling=True,
    ),
    _hardware(
        name="pp_link",
        section=Section.MACHINE,
        kind=Name(),
        about="link between stages that are nodes of their own: rdma, tcp, or as --draft-link",
        axis="link between stages",
        default_note="all stages in one node, over its link",
        needs=Needs(("pp",), "(one stage has no other to send to)"),
    ),
    machine_choice(
        name="attention",
        default="tensor-parallel",
        kind=OneOf((DATA_PARALLEL, "tensor-parallel")),
        about="the target's devices share every sequence, or each has its own (data-parallel) and all-to-alls bring "
        "tokens to experts that lie apart on all of them",
        axis="attention of the target",
        excludes=(
            Excludes(
                ("ep",),
                "{it} has no effect with --attention data-parallel (experts lie apart on all devices)",
                when=DATA_PARALLEL,
            ),
            Excludes(
                ("dcp",),
                "{it} has no effect with --attention data-parallel (each sequence is on one device)",
                when=DATA_PARALLEL,
            ),
        ),
    ),
    _hardware(
        name="placement",
        section=Section.MACHINE,
        kind=ListOf(Whole(0)),
        about="device numbers, target ranks first, then the draft (0,2,3,1,4); matters where pairs differ in links",
        axis="placement",
        default_note="in the node's order",
    ),
    _hardware(
        name="context",
        section=Section.START,
        prominence=4,
        default=1024,
        kind=Whole(most=1_000_000_000),
        about="tokens of a sequence in the KV cache",
        axis="context (tokens)",
        doubling=True,
        varied_by=("schedule",),
    ),
    Option(
        name="temperature",
        section=Section.MODELS,
        prominence=1,
        default=0.0,
        kind=Number(1e6),
        about="sampling temperature; above 0 the draft's logits go to the target; a pair has rates of its own at each",
        axis="temperature",
        spellings=("--temp",),
    ),
    _of_models(
        name="dtype",
        prominence=2,
        kind=OneOf(FORMATS, _SPELLINGS),
        about="weight format; an unquantised one also sets activations and KV cache",
        axis="dtype",
        default_note="the card's",
    ),
    _of_models(
        name="kv_dtype",
        kind=OneOf(KV_DTYPES, _SPELLINGS),
        about="of the models' caches",
        axis="dtype of the cache",
        default_note="the card's, or that of the activations",
    ),
    _of_models(
        name="state_dtype",
        kind=OneOf(DTYPES, _SPELLINGS),
        about="of the states of recurrent layers",
        axis="dtype of recurrent states",
        default_note="the card's",
    ),
    _of_models(
        name="states",
        kind=OneOf(KEEPINGS),
        about="how recurrent state is rolled back after a rejection: each (one per token), copied, or replayed",
        axis="recurrent states kept",
        default_note="the runtime's",
    ),
    _of_models(
        name="draft_dtype",
        kind=OneOf(FORMATS, _SPELLINGS),
        about="of the draft's weights",
        axis="dtype of the draft",
        default_note="--dtype",
    ),
)


_unit_free = partial(Option, section=Section.UNIT_FREE, groups=(Group.UNIT_FREE, Group.GIVEN_DURATIONS))
_beside_t_sd = partial(_unit_free, needs=Needs(("t_sd",), "(unit-free mode)"))

DURATIONS = (
    Option(
        name="spread",
        section=Section.START,
        default=0.0,
        kind=NumberOrWord(Number(2.0), "profile"),
        about="standard deviation of the logarithm of every duration (0.1: about 10 %); or profile: as it was measured",
        axis="log-sd of durations",
        groups=(Group.GIVEN_DURATIONS,),
        excludes=(Excludes(("t_sd",), "--spread profile needs hardware (unit-free mode reads none)", when="profile"),),
    ),
    _unit_free(
        name="t_sd",
        kind=Number(1e6),
        about="unit-free mode: SD's drafting time in units of T_v; no hardware is read",
        axis="drafting time T_SD (T_v)",
        excludes=(
            Excludes((Group.HARDWARE,), "{it} has no effect with --t-sd (unit-free mode reads no hardware)"),
            Excludes(
                ("budget",),
                "{it} has no effect with --t-sd and --p-hit (the draft's time and hits are given)",
                given_with=("p_hit",),
            ),
        ),
    ),
    _beside_t_sd(
        name="t_v",
        kind=PassTimes(),
        about="unit-free mode: time of a target pass by its rows, over the whole batch; linear between and beyond",
        axis="pass times T_v (by rows)",
        default_note="1, whatever its rows",
    ),
    _beside_t_sd(
        name="t_p",
        kind=Number(1e6),
        about="unit-free mode: pre-speculation time",
        axis="pre-speculation time T_p (T_v)",
        default_note="--t-sd",
    ),
    _beside_t_sd(
        name="t_b",
        kind=Number(1e6),
        about="unit-free mode: the backup's time",
        axis="backup's time T_b (T_v)",
        default_note="--t-sd with jit, 0 with fast",
    ),
)
