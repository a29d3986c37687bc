"""A measurement as its options ask for it: models, prompts, records, checks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers

from calibration.pairs.analysis import Questions
from calibration.pairs.measure.checks import LoopCheck, check_loop, check_lossless, ways
from calibration.pairs.measure.collect import (
    CollectionPlan,
    TokenizedPrompt,
    check_attention,
    check_author,
    collect,
    tokenised_answers,
    tokenized,
)
from calibration.pairs.measure.loop import Way
from calibration.pairs.measure.models import CausalModel, count_experts, has_experts, load_pair_of_models, participant
from calibration.pairs.measure.prompts import Prompt, read_prompts
from calibration.pairs.measure.verification import EVERYTHING, Cut
from calibration.pairs.measured import header_of, keep_lossless, keep_routing
from calibration.pairs.records import RecordFolder
from ssdsim.base.errors import InputError
from ssdsim.base.progress import Progress
from ssdsim.tokens.pair_file import PairSettings, Role

_TEMPERATURES = (0.0, 1.0)
_TEXTS_COUNTED = 64  # of whose tokens the experts are counted


class Job:
    """Job of ``ssdsim measure``; models are loaded when they are first needed."""

    def __init__(self, options: Mapping[str, Any], asked: Questions, folder: RecordFolder, seed: int) -> None:
        self.options, self.asked, self.folder, self.seed = options, asked, folder, seed
        self._prompts = _prompts(options)
        self._temperatures = _temperatures(options)
        self._device = _device(options["device"])
        self._dtype = options["dtype"] or ("float32" if self._device == "cpu" else "bfloat16")

    @cached_property
    def cuts(self) -> tuple[Cut, Cut]:
        """Cuts of the samplers of target and draft."""
        given = {name: self.options[name] for name in ("top_p", "top_k") if self.options[name] is not None}
        cut = Cut(**given)
        return cut, EVERYTHING if self.options["draft_sampling"] == "raw" else cut

    @cached_property
    def models(self) -> tuple[CausalModel, CausalModel]:
        options = self.options
        return load_pair_of_models(
            options["target"], options["draft"], self._dtype, self._device, options["device_map"]
        )

    @cached_property
    def requests(self) -> list[TokenizedPrompt]:
        target = self.models[0]
        prompts = self._prompts
        if self.options["answers"]:
            prompts = tokenised_answers(prompts, target.tokenizer)
        return tokenized(prompts, target, self.options["template"], self.options["max_new_tokens"])

    def collect(self, progress: Progress) -> None:
        """Every answer that the folder lacks; those that were given must be the target's."""
        target, draft = self.models
        options, limit = self.options, self.options["limit_minutes"]
        check_attention(target, draft)
        requests = self.requests  # refused before a folder is made
        self.folder.open(self._header())
        work = CollectionPlan(
            temperatures=self._temperatures,
            new_tokens=options["max_new_tokens"],
            top=options["top"],
            seed=self.seed,
            batch=options["b"],
            template=options["template"],
            cuts=self.cuts,
            keep_tokens=not options["no_tokens"],
            precision=options["precision"],
            limit_s=None if limit is None else 60.0 * limit,
        )
        collect(target, draft, requests, work, self.folder, progress)
        if options["answers"]:
            check_author(list(self.folder.requests()), target.name)

    def count_experts(self) -> None:
        """Count the experts of models that are mixtures, on answers whose tokens were kept; kept beside the records."""
        texts = [
            ((*request.prompt, *map(int, request.positions.token[:-1])), len(request))
            for request in itertools.islice(self.folder.requests(), _TEXTS_COUNTED)
            if request.has_tokens
        ]
        roles: tuple[Role, ...] = ("target", "draft")
        if any(map(has_experts, self.models)):
            each = {role: count_experts(model, texts) for role, model in zip(roles, self.models, strict=True)}
            keep_routing(self.folder, {role: found for role, found in each.items() if found is not None})

    def check_loop(self, progress: Progress) -> list[LoopCheck]:
        way = Way("ssd", self.asked.k, self.asked.f)
        some = self.requests[: self.options["check_loop"]]
        collected = [request for request in self.folder.requests() if any(request.id == each.id for each in some)]
        return check_loop(*self.models, some, collected, way, self.seed, self.cuts, progress)

    def check_lossless(self, progress: Progress) -> None:
        """The finding is kept in the folder of records."""
        some, options = self.requests[: self.options["lossless"]], self.options
        each_way = ways(self.asked.k, self.asked.f, self.asked.backups)
        new_tokens = options["max_new_tokens"]
        checks = check_lossless(*self.models, some, each_way, new_tokens, self.seed, self.cuts, progress)
        keep_lossless(self.folder, checks)

    def _header(self) -> dict[str, Any]:
        options = self.options
        target, draft = (participant(model, self._dtype) for model in self.models)
        settings = PairSettings(
            max_new_tokens=options["max_new_tokens"],
            seed=self.seed,
            dtype=self._dtype,
            chat_template=options["template"],
            draft_sampling=options["draft_sampling"] or "same",
            top_p=self.cuts[0].top_p,
            top_k=self.cuts[0].top_k,
        )
        about = {
            "device": torch.cuda.get_device_name() if self._device == "cuda" else "CPU",
            "libraries": {"torch": torch.__version__, "transformers": transformers.__version__},
            "files": sorted(path.name for _, path in _sources(options)),
            "top": options["top"],
        }
        return header_of(target, draft, settings, about)


def _temperatures(options: Mapping[str, Any]) -> tuple[float, ...]:
    given = options["temperature"]
    if options["answers"] and (given is None or len(given) != 1):
        raise InputError("--answers: say with --temperature at which one they were sampled (0 for greedy)")
    for temperature in given or ():
        if temperature < 0.0:
            raise InputError(f"--temperature must be at least 0, got {temperature:g}")
    return tuple(dict.fromkeys(given or _TEMPERATURES))


def _sources(options: Mapping[str, Any]) -> list[tuple[str | None, Path]]:
    """Files with the name of their data set, where one was given."""
    sources: list[tuple[str | None, Path]] = []
    for each in options["named"]:
        name, equals, file = each.partition("=")
        if not (name and equals and file):
            raise InputError(f"--set '{each}' is not NAME=FILE such as code=code.jsonl")
        if name in [known for known, _ in sources]:
            raise InputError(f"--set {name} is there twice")
        sources.append((name, Path(file)))
    sources += [(None, options[name]) for name in ("prompts", "answers") if options[name]]
    if not sources:
        raise InputError("nothing to ask: give --prompts FILE, --set NAME=FILE or --answers FILE")
    if options["answers"] and len(sources) > 1:
        raise InputError("--answers has prompts and answers: give it alone")
    return sources


def _prompts(options: Mapping[str, Any]) -> list[Prompt]:
    """The prompts, so many as are asked for, in turn from every data set."""
    answers = bool(options["answers"])
    prompts = [prompt for name, path in _sources(options) for prompt in read_prompts(path, name, answers)]
    by_set: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_set.setdefault(prompt.data_set, []).append(prompt)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_set.values()))
    return [prompt for prompt in turns if prompt is not None][: options["requests"]]


def _device(asked: str) -> str:
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no GPU here")
    return asked
