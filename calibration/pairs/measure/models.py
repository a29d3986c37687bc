"""Causal language models of Hugging Face transformers: folders, hub ids, GGUF files; their caches and experts."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.utils import logging as transformers_logging

from calibration.machine.graph import DTYPES
from calibration.pairs.measure.positions import draw
from calibration.pairs.measure.roles import Branches, Logits
from calibration.pairs.measure.verification import EVERYTHING, Cut
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.extras import install
from ssdsim.base.record import MutableRecord
from ssdsim.tokens.pair_file import Participant
from ssdsim.tokens.pair_routing import Choices, Routing, counted
from ssdsim.transformer.gguf import SUFFIX as GGUF_SUFFIX

_OF_LOADING = ("_name_or_path", "transformers_version")  # of where a config was read, and by what
_WINDOWS = ("sliding_window", "attention_chunk_size")


class CausalModel(MutableRecord):
    """A model with what it worked out of the text so far; ``vocabulary`` is as many logits as both models have."""

    name: str
    model: Any
    tokenizer: Any
    vocabulary: int

    def __post_init__(self) -> None:
        self._cache = DynamicCache(config=self.model.config)
        self._kept: list[int] = []

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    @cached_property
    def context(self) -> int | None:
        """Most positions, None where the config does not say."""
        return getattr(self.model.config, "max_position_embeddings", None)

    @cached_property
    def end(self) -> frozenset[int]:
        """Tokens that end an answer."""
        named = self.model.generation_config.eos_token_id
        ids = [] if named is None else named if isinstance(named, list) else [named]
        return frozenset(int(i) for i in ids)

    @torch.inference_mode()
    def after(self, text: Sequence[int], last: int) -> Logits:
        """One pass over what is new of the text, or was cut off: the beginning that was read before is kept."""
        text = list(text)
        known = self._keep(text[: len(text) - last])
        out = self.cached_pass(self._cache, input_ids=self._ids([text[known:]]), use_cache=True, logits_to_keep=last)
        self._kept = text
        return self._logits(out.logits[0, -last:])

    def _keep(self, text: Sequence[int]) -> int:
        """Keep of what was read only what the text begins with; returns how many tokens that are."""
        known = _shared(self._kept, text)
        if known < len(self._kept):
            self._cache.crop(known - len(self._kept))  # a negative number is how many to take away
            self._kept = self._kept[:known]
        return known

    def cached_pass(self, cache: Any, **inputs: Any) -> Any:
        """One pass that reads ``cache`` and extends it; returns what the model's ``forward`` does."""
        return self.model(**inputs, **{self._cache_keyword: cache})

    @cached_property
    def _cache_keyword(self) -> str:
        """What ``forward`` calls its cache: transformers 5.24 renamed ``past_key_values``, most models at once."""
        return "cache" if "cache" in inspect.signature(self.model.forward).parameters else "past_key_values"

    @torch.inference_mode()
    def scored(self, text: Sequence[int], last: int) -> torch.Tensor:
        """Score by one pass over the whole text that keeps nothing: right for every kind of attention and state.

        The logits stay where the model is.
        """
        out = self.model(input_ids=self._ids([list(text)]), use_cache=False, logits_to_keep=last)
        logits: torch.Tensor = out.logits[0, -last:, : self.vocabulary].float()
        return logits

    def branches(self, text: Sequence[int], suffixes: Sequence[Sequence[int]]) -> Branches:
        """All suffixes in one batch over the text that is kept."""
        text = list(text)
        if self._keep(text) < len(text):
            self.after(text, 1)
        return _Batch(self, copy.deepcopy(self._cache), len(text), suffixes)

    @torch.inference_mode()
    def write(
        self,
        prompts: Sequence[Sequence[int]],
        new_tokens: int,
        stop: frozenset[int],
        temperature: float = 0.0,
        seeds: Sequence[int] = (),
        cut: Cut = EVERYTHING,
    ) -> list[list[int]]:
        """Answers to prompts of any lengths, in one batch. Each is drawn by a seed of its own, whatever the batch."""
        coins = [np.random.default_rng(seed) for seed in seeds] if temperature > 0.0 else []
        longest = max(map(len, prompts))
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=self.device)
        ids = self._ids([[0] * (longest - len(p)) + list(p) for p in prompts])
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        cache = cache_with_room(self.model.config, longest + new_tokens)
        written: list[list[int]] = [[] for _ in prompts]
        for _ in range(new_tokens):
            out = self.cached_pass(cache, input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=1)
            logits = out.logits[:, -1, : self.vocabulary].float()
            drawn = draw(logits, temperature, np.array([each.random() for each in coins]), cut)
            for answer, token in zip(written, drawn, strict=True):
                if not answer or answer[-1] not in stop:
                    answer.append(token)
            if all(answer[-1] in stop for answer in written):
                break
            ids = self._ids([[token] for token in drawn])
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
            positions = positions[:, -1:] + 1
        return written

    def _ids(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self.device)

    def _logits(self, logits: torch.Tensor) -> Logits:
        values: Logits = logits[..., : self.vocabulary].float().cpu().numpy()
        return values


class _Batch:
    """Branches in one batch: suffixes are aligned at their ends, what stands before shorter ones is masked."""

    def __init__(self, owner: CausalModel, cache: Any, before: int, suffixes: Sequence[Sequence[int]]) -> None:
        self._owner, self._cache = owner, cache
        cache.batch_repeat_interleave(len(suffixes))
        longest = max(map(len, suffixes))
        own = [[0] * (longest - len(s)) + [1] * len(s) for s in suffixes]
        self._mask = torch.tensor([[1] * before + row for row in own], device=owner.device)
        self._positions = (before + torch.tensor(own, device=owner.device).cumsum(-1) - 1).clamp(min=0)
        self._logits = self._pass([[0] * (longest - len(s)) + list(s) for s in suffixes])

    @property
    def logits(self) -> Logits:
        return self._logits

    def extend(self, tokens: Sequence[int]) -> None:
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self._positions = self._positions[:, -1:] + 1
        self._logits = self._pass([[token] for token in tokens])

    @torch.inference_mode()
    def _pass(self, rows: Sequence[Sequence[int]]) -> Logits:
        out = self._owner.cached_pass(
            self._cache,
            input_ids=self._owner._ids(rows),
            attention_mask=self._mask,
            position_ids=self._positions,
            logits_to_keep=1,
        )
        return self._owner._logits(out.logits[:, -1])


def _shared(kept: Sequence[int], text: Sequence[int]) -> int:
    """Count how many first tokens are the same."""
    return next((i for i, (a, b) in enumerate(zip(kept, text, strict=False)) if a != b), min(len(kept), len(text)))


def load_pair_of_models(
    target: str, draft: str, dtype: str, device: str, device_map: str | None
) -> tuple[CausalModel, CausalModel]:
    """Target and draft, whose tokens mean the same."""
    ours, theirs = (load_model(name, dtype, device, device_map) for name in (target, draft))
    check_tokens(*((each.name, each.tokenizer.get_vocab()) for each in (ours, theirs)))
    ours.vocabulary = theirs.vocabulary = min(ours.vocabulary, theirs.vocabulary)
    return ours, theirs


def load_model(name: str, dtype: str, device: str, device_map: str | None = None) -> CausalModel:
    """A model by a folder, the id of a hub, or a GGUF file."""
    where, extra = _source(name)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # ours tells what takes long
    extra |= {"trust_remote_code": False, "local_files_only": True}  # it is data, whoever made it, and it is here
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, **extra)
        extra |= {"dtype": DTYPES[dtype], "device_map": device_map, "output_loading_info": True}
        loaded: Any = AutoModelForCausalLM.from_pretrained(where, **extra)
        model, loading = loaded
        model = (model if device_map else model.to(device)).eval()
        causal_model = CausalModel(name, model, tokenizer, _vocabulary(model))
        sorted(causal_model.end)  # what is no id fails here, not after the first answer
    except torch.OutOfMemoryError:
        raise InputError(f"{name}: no memory for it on {device}: try --device-map auto or another --dtype") from None
    except Exception as error:  # a broken folder fails in transformers, torch and safetensors in many ways
        raise InputError(f"{name}: not a model that transformers can load ({_first_line(error)})") from None
    if missing := sorted(loading["missing_keys"]):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(f"{name}: its files lack the weights {missing[0]}{more}")
    return causal_model


@torch.inference_mode()
def _vocabulary(model: Any) -> int:
    """The size of the LM head; a pass over one token shows that the model can be run at all."""
    size = int(model.get_output_embeddings().weight.shape[0])
    model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=model.device), use_cache=False)
    return size


def _source(name: str) -> tuple[str, dict[str, Any]]:
    """Name that transformers takes: a folder, a hub id, or a folder and the GGUF file in it."""
    path = Path(name).expanduser()
    if path.suffix == GGUF_SUFFIX:
        if not path.is_file():
            raise InputError(f"{name}: no such file")
        _need_gguf()
        return str(path.parent), {"gguf_file": path.name}
    if path.exists():
        if not (path / "config.json").is_file():
            raise InputError(f"{name}: not a model's folder: config.json is missing")
        return str(path), {}
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        beside = [str(p.name) for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"{name}: no such folder{nearest(path.name, beside)}")
    return name, {}


def _need_gguf() -> None:
    missing = [name for name in ("accelerate", "gguf") if find_spec(name) is None]
    if missing:
        raise InputError(f"a GGUF file needs {missing[0]}: {install('measure')}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def check_tokens(target: tuple[str, Mapping[str, int]], draft: tuple[str, Mapping[str, int]]) -> None:
    """Token ids of both, by their names and vocabularies, must mean the same; sizes may differ by padding."""
    ours, theirs = ({i: token for token, i in vocabulary.items()} for _, vocabulary in (target, draft))
    for i in sorted(set(ours) & set(theirs)):
        if ours[i] != theirs[i]:
            raise InputError(
                f"{draft[0]} has another vocabulary than {target[0]}: id {i} is {theirs[i]!r}, not {ours[i]!r}"
            )
    if not set(ours) & set(theirs):
        raise InputError(f"{draft[0]} and {target[0]} have no token in common")


def participant(causal_model: CausalModel, dtype: str) -> Participant:
    """Description of a model in the pair's file."""
    folder = Path(causal_model.name).expanduser()
    config = {name: value for name, value in causal_model.model.config.to_dict().items() if name not in _OF_LOADING}
    tokenizer = causal_model.tokenizer.backend_tokenizer.to_str()
    return Participant(
        id=folder.name if folder.exists() else causal_model.name,
        revision=getattr(causal_model.model.config, "_commit_hash", None),
        config_sha256=hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest(),
        tokenizer_sha256=hashlib.sha256(tokenizer.encode()).hexdigest(),
        vocabulary=causal_model.vocabulary,
        parameters=sum(p.numel() for p in causal_model.model.parameters()),
        dtype=dtype,
    )


def keeps_a_window(causal_model: CausalModel) -> str | None:
    """Name what in a config lets old tokens go, so that a cache cannot be cut back; None where nothing does."""
    config = causal_model.model.config
    if getattr(config, "use_sliding_window", True) is False:
        return None
    return next((name for name in _WINDOWS if getattr(config, name, None)), None)


def cache_with_room(config: Any, tokens: int) -> DynamicCache:
    """The cache of a model's config, for at most ``tokens`` tokens a text.

    Layers that keep everything take their room at once; those of another kind are transformers' own.
    """
    cache = DynamicCache(config=config)
    cache.layers = [_RoomyLayer(tokens) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


class _RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values, shape ``(texts, heads, tokens so far, head_dim)``, are the beginnings of two larger tensors."""

    def __init__(self, tokens: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tokens = tokens

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self._rooms = [
            each.new_empty((*each.shape[:-2], self._tokens, each.shape[-1])) for each in (key_states, value_states)
        ]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append, and return all keys and values so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before = self.get_seq_length()
        end = before + key_states.shape[-2]
        for room, new in zip(self._rooms, (key_states, value_states), strict=True):
            room[..., before:end, :] = new
        self.keys, self.values = (room[..., :end, :] for room in self._rooms)
        return self.keys, self.values


_NAMES = ("num_experts", "num_local_experts", "n_routed_experts")
_CHOSEN = ("num_experts_per_tok", "top_k_experts")


def has_experts(model: CausalModel) -> bool:
    """Say whether a model's router can be asked."""
    return _experts_of(model) is not None and hasattr(_config(model), "output_router_logits")


def count_experts(model: CausalModel, texts: Sequence[tuple[Sequence[int], int]]) -> Routing | None:
    """Count what the model's routers choose for the last tokens of texts (a text, and how many of its tokens count).

    None where the model has no experts, or its library does not tell the router's answers.
    """
    experts = _experts_of(model)
    if experts is None or not has_experts(model):
        return None
    count, per_token = experts
    return counted([_choices(model, text, last, per_token) for text, last in texts], count)


@torch.inference_mode()
def _choices(model: CausalModel, text: Sequence[int], last: int, per_token: int) -> Choices:
    """The experts with the largest of each router's logits, of the last tokens."""
    ids = torch.tensor([list(text)], dtype=torch.long, device=model.device)
    out = model.model(input_ids=ids, use_cache=False, output_router_logits=True, logits_to_keep=1)
    layers = [logits.reshape(len(text), -1)[-last:].float() for logits in out.router_logits]
    return np.stack([logits.topk(per_token, dim=1).indices.cpu().numpy() for logits in layers]).astype(np.int64)


def _config(model: CausalModel) -> object:
    return model.model.config.get_text_config()


def _experts_of(model: CausalModel) -> tuple[int, int] | None:
    """Numbers of experts that there are, and that a token uses."""
    config = _config(model)
    count = next((getattr(config, name) for name in _NAMES if getattr(config, name, None)), None)
    chosen = next((getattr(config, name) for name in _CHOSEN if getattr(config, name, None)), None)
    return (int(count), int(chosen)) if count and chosen else None
