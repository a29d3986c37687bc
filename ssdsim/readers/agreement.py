"""Facts of a source, held against what the user says of its run: here and nowhere else.

What agrees is taken, what is missing is asked for, and what contradicts is refused in one line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import (
    HARDWARE,
    find_hardware,
    find_transformer,
    hardware_names,
    transformer_called,
    transformer_names,
)
from ssdsim.hardware.gpu_names import is_same_gpu
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.readers.facts import Facts, RunSpeed
from ssdsim.readers.row import Row, made_row
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.checkpoint_names import CheckpointName
from ssdsim.transformer.operations import WEIGHT_BYTES

GivenColumns = Mapping[str, Any]
"""The user's word, by the columns of a row."""


def row_of(facts: Facts, measured: RunSpeed, given: GivenColumns, where: str) -> Row:
    """The row of a run: what its source says, and what is given for the rest."""
    held = _Held(facts, given, where)
    if facts.stages != 1:
        raise InputError(f"{where}: ran in {facts.stages} pipeline stages, which are not modelled; there must be 1")
    name, card = held.model()
    told = {"temperature": facts.temperature, **facts.options}
    columns = {
        "model": name,
        "hardware": held.hardware(),
        "tp": held.agreed("tp", facts.gpus),
        "batch": held.batch(),
        "dtype": held.dtype(card),
        "kv_dtype": held.kv_dtype(),
        "engine": facts.engine or given.get("engine"),
        "engine_version": facts.engine_version,
        **held.speculation(),
        "strategy": facts.strategy,
        **{name: held.agreed(name, value) for name, value in told.items()},
        **{name: given.get(name) for name in ("source", "series")},
        "metric": measured.metric,
        "value": measured.value,
        "input_tokens": measured.input_tokens,
        "output_tokens": measured.output_tokens,
    }
    held.check_layers(card)
    return made_row({name: value for name, value in columns.items() if value is not None}, where)


def model_of(said: str | None, given: GivenColumns, where: str) -> str:
    """The model's card: the one that is ``said``, or the given one where none is, or one that is not here."""
    return _Held(Facts(model=said), given, where).model()[0]


def agreed_k(possible: Collection[int], given: int | None, where: str) -> int | None:
    """The tokens drafted a round that a source allows, of which the user may say which; None where nobody does."""
    if given is not None and possible and given not in possible:
        says = " or ".join(map(str, sorted(possible)))
        raise _contradiction(where, f"{says} drafted tokens a round", "k", given, "leave --k out")
    return given if given is not None or len(possible) != 1 else next(iter(possible))


def agreed_model(said: str | None, given: str | None, flag: str, where: str) -> str | None:
    """The name of a model of a pair; two cards of different shapes contradict."""
    if said is not None and given is not None and _alike_cards(said, given) is False:
        raise _contradiction(where, said, flag, given, f"leave --{flag} out, or name the model that ran")
    return said if given is None else given


def check_temperature(said: float | None, given: float | None, where: str) -> None:
    """Raise :class:`InputError` where a source sampled at another temperature than the given one."""
    if said is not None and given is not None and abs(said - given) > _TEMPERATURES:
        raise _contradiction(where, f"temperature {said:g}", "temperature", given, "leave it out")


def agree(column: str, said: Any, given: Any) -> bool:
    """Tell whether a cell and what is given are one thing."""
    if said == given or str(said).lower() == str(given).lower():
        return True
    if column in ("dtype", "kv_dtype", "draft_dtype"):
        return _alike(_bits_of(str(said)), _bits_of(str(given)), _ROUGHLY)
    if column in ("model", "draft"):
        return _alike_cards(str(said), str(given)) is True
    if column == "hardware":
        return _profile(str(said)) is not None and _profile(str(said)) == _profile(str(given))
    try:
        return _alike(float(said), float(given), _ROUNDED)
    except (TypeError, ValueError):
        return False


def contradiction(column: str, said: Any, given: Any, where: str) -> InputError:
    """The refusal of a cell that is not what is given."""
    return _contradiction(where, f"{column} {said}", column, given, f"leave --{column.replace('_', '-')} out")


_TEMPERATURES = 1e-6
_ROUNDED = 1.03  # times apart that one number may be printed
_ROUGHLY = 1.25  # times apart that the bits of one format may be: scales, and parts in another
_MIXED = 1.7  # of a small model, whose embeddings are kept finer
_SIZES = 1.05  # times apart that the weights of one model may be counted
_NAMED_SIZES = 1.35  # what a name rounds
_MEAN = 1.5  # times apart that a mean by Little's law may be from what was meant
_SHAPE = ("hidden_size", "layers", "heads", "kv_heads", "intermediate_size", "vocab_size")
_GGUF = re.compile(r"(?i)\b(bf16|f16|f32|mxfp4|nvfp4|i?q(\d)(?:_\w+)?)\b")
_QUANTS = re.compile(r"(?i)\bi?q\d")
"""Words of llama.cpp, which are no format that is priced, but near one."""
_ONE_WORD = {"float16": "bfloat16", "float8-block": "float8"}  # formats that a source's words do not tell apart
_SIZE_IN_NAME = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z0-9])")


class _Held(Record):
    """Facts beside what the user says; each question has its own answer, or a line that says why there is none."""

    facts: Facts
    columns: GivenColumns
    where: str

    def contradicts(self, said: object, flag: str, way: str) -> InputError:
        return _contradiction(self.where, said, flag, self.columns[flag], way)

    def missing(self, what: str, flag: str) -> InputError:
        return InputError(f"{self.where}: does not say {what} by --{flag.replace('_', '-')}")

    def agreed(self, flag: str, said: Any) -> Any:
        """The fact where there is one, which must be what is given."""
        if said is not None and flag in self.columns and not agree(flag, said, self.columns[flag]):
            raise self.contradicts(f"{flag.replace('_', ' ')} {said}", flag, f"leave --{flag.replace('_', '-')} out")
        return self.columns.get(flag) if said is None else said

    def model(self) -> tuple[str, Transformer | None]:
        """The name of the model's card, and the card."""
        said, given = self.facts.model, self.columns.get("model")
        found, own = (None, None) if said is None else _named(said)
        if own is None and given is None:
            if said is not None:
                raise InputError(f"{self.where}: no card is called '{short_repr(said)[1:-1]}'; give one by --model")
            raise self.missing("the model; give its card", "model")
        if own is None:
            card = find_transformer(str(given))
            self._check_size(card, "model" in self.columns)
            return str(given), card
        if given is not None:
            self._check_model(own, find_transformer(str(given)))
        self._check_size(own, False)
        assert found is not None
        if own.name not in transformer_names():
            return (found if given is None else str(given)), own
        base = find_transformer(own.name)
        return (own.name, base) if own == base or self.facts.weights else (found, own)

    def _check_model(self, own: Transformer, card: Transformer) -> None:
        """Two cards are of one model if their shapes are, and of one checkpoint if their formats are, too."""
        said = short_repr(self.facts.model)[1:-1]
        if (part := _unlike(own, card)) is not None:
            sizes = f"{said}, whose {part} is {getattr(own, part)}"
            raise self.contradicts(sizes, "model", f"that has {getattr(card, part)}; name the model that ran")
        one, other = (_kept(each) for each in (own, card))
        if one != other and not self.facts.weights and "dtype" not in self.columns:
            raise self.contradicts(f"{said}, in {one}", "model", f"that is in {other}; give --model {said} or --dtype")

    def _check_size(self, card: Transformer, named: bool) -> None:
        """The weights of the file, or the size in its name, are about those of the card."""
        said, weights = self.facts.parameters, "weights"
        sizes: tuple[int, ...] = (card.parameters,)
        slack = _SIZES
        if said is None and named and (match := _SIZE_IN_NAME.search(self.facts.model or "")):
            said, weights, slack = 1e9 * float(match[1]), "weights by its name", _NAMED_SIZES
            sizes = (card.parameters, card.active_parameters)
        if said is None or any(_alike(said, size, slack) for size in sizes) or not card.vocab_size:
            return
        says = f"{said / 1e9:.3g} billion {weights}"
        if "model" in self.columns:
            raise self.contradicts(says, "model", f"that has {card.parameters / 1e9:.3g}; name the model that ran")
        raise InputError(f"{self.where}: says {self.facts.model}, but {says}: give the model that ran by --model")

    def dtype(self, card: Transformer | None) -> str | None:
        """The format of the weights: as said, as follows from their size, or as given, with as many bits."""
        facts, given = self.facts, self.columns.get("dtype")
        said = None if facts.weights is None else _format(facts.weights)
        named, seen = None if facts.weights is None else _bits_of(facts.weights), facts.bits
        if named and seen and not _alike(named, seen, _MIXED):
            raise InputError(f"{self.where}: says {facts.weights}, but {seen:.1f} bits a weight: one of them is wrong")
        bits = seen or named
        if bits is None:
            if facts.weights is not None and given is None:
                raise InputError(f"{self.where}: the weights are {facts.weights!r}; give their format by --dtype")
            return self._beside_name(card)
        nearest = said or min(_OF_BITS, key=lambda each: abs(8.0 * WEIGHT_BYTES[each] - bits))
        told = ", ".join(filter(None, [facts.weights, f"{bits:.1f} bits a weight"]))
        if given is not None:
            kinds = {_ONE_WORD.get(each, each) for each in (said or str(given), str(given))}
            other_kind = len(kinds) > 1 and not _QUANTS.search(facts.weights or "")
            if given != nearest and (other_kind or not _alike(_bits_of(str(given)) or bits, named or bits, _ROUGHLY)):
                raise self.contradicts(told, "dtype", f"give --dtype {nearest}, or --model of what was run")
            return str(given)
        if said is None and not _alike(8.0 * WEIGHT_BYTES[nearest], bits, _ROUGHLY):
            raise InputError(f"{self.where}: says {told}, which is not priced; give the nearest by --dtype {nearest}")
        own = () if card is None else card.precision().formats_of_blocks
        as_card = said is None and bool(own) and _alike(_bits_of(own[0]), bits, _ROUGHLY)
        return None if as_card or (nearest in own and len(own) > 1) else nearest

    def _beside_name(self, card: Transformer | None) -> str | None:
        """The given format, which must be the one that the model's name says, if any; else that of a name alone."""
        given, said = self.columns.get("dtype"), self.facts.model or ""
        kept = _format(CheckpointName.of(PurePath(said).name).said or "plain")
        if kept is None:
            return None if given is None else str(given)
        if given is None:
            return (
                None
                if _named(said)[1] is not None or card is None or kept in card.precision().formats_of_blocks
                else kept
            )
        if not _alike(_bits_of(str(given)), _bits_of(kept), _ROUGHLY):
            raise self.contradicts(f"{short_repr(said)[1:-1]}, in {kept}", "dtype", "leave it out, or name what ran")
        return str(given)

    def kv_dtype(self) -> str | None:
        said = self.facts.kv_dtype
        if said is None:
            given: str | None = self.columns.get("kv_dtype")
            return given
        formats = {"16": _format(said) or "bfloat16", "8": "float8"}
        kept = formats.get(f"{_bits_of(said) or 0.0:.0f}") if "/" not in said else None  # keys and values alike
        if kept is None and "kv_dtype" not in self.columns:
            raise InputError(f"{self.where}: the cache is kept in {said}, not priced; give the nearest by --kv-dtype")
        agreed: str | None = self.agreed("kv_dtype", kept)
        return agreed

    def hardware(self) -> str:
        """The profile, whose device must be the one that ran."""
        facts, name = self.facts, self.columns.get("hardware")
        if name is None:
            found = [each for each in hardware_names() if facts.gpu and _is_of(HARDWARE.find(each), facts.gpu)]
            if found and facts.backend in (None, "cuda"):
                return min(found, key=len)
            on = f" (it ran on {facts.gpu})" if facts.gpu else ""
            raise self.missing(f"the hardware{on}; give its profile", "hardware")
        if facts.gpu is None and facts.backend is None:
            return str(name)
        profile = find_hardware(name)
        ran, of = facts.gpu or facts.backend_name, f"which is of {profile.device.name}"
        if facts.backend is not None and facts.backend != profile.device.kind:
            said = f"it ran on {ran} by {facts.backend_name}" if facts.gpu else f"it ran by {facts.backend_name}"
            raise self.contradicts(said, "hardware", f"{of} by {profile.device.kind}: give a profile of what ran")
        if facts.gpu is not None and facts.backend != "cpu" and not _is_of(profile, facts.gpu):
            raise self.contradicts(ran, "hardware", f"{of}: give a profile of what ran (ssdsim hardware new makes one)")
        return str(name)

    def check_layers(self, card: Transformer | None) -> None:
        """Raise :class:`InputError` where a part of the layers, or the output, was not on the GPU."""
        layers = self.facts.gpu_layers
        if self.facts.backend == "cpu" or layers is None or layers < 0 or card is None or layers > card.layers:
            return
        whole = card.layers + 1
        raise InputError(
            f"{self.where}: {layers} of {whole} layers were on the GPU (the output is one), so that the time is not its"
            " own; run all of them there (-ngl 99)"
        )

    def batch(self) -> int:
        facts = self.facts
        if facts.batch is None:
            if "batch" not in self.columns:
                why = f" ({facts.arrivals})" if facts.arrivals else ""
                raise InputError(
                    f"{self.where}: does not say how many sequences were in flight{why}; give them by --batch"
                )
            return int(self.columns["batch"])
        if facts.counted or "batch" not in self.columns:
            return int(self.agreed("batch", facts.batch))
        if not _alike(facts.batch, self.columns["batch"], _MEAN):
            about = f"about {facts.batch} sequences in flight ({facts.arrivals})"
            raise self.contradicts(about, "batch", "leave --batch out")
        return int(self.columns["batch"])

    def speculation(self) -> dict[str, Any]:
        """``k``, ``acceptance_length``, ``draft``, ``drafter`` of a run that speculated; empty of others."""
        facts, where = self.facts, self.where
        if facts.speculated is False:
            if "k" in self.columns:
                raise self.contradicts("the run did not speculate", "k", "leave --k out")
            return {}
        k, length = self.agreed("k", facts.k), self.agreed("acceptance_length", facts.acceptance_length)
        if k is None and facts.acceptance_length is None and not facts.speculated:
            return {}
        if k is None:
            raise InputError(f"{where}: the run speculated, but not how many tokens a round; give them by --k")
        if length is None:
            raise self.missing("how many tokens a round yielded; give them", "acceptance_length")
        named = {name: self.agreed(name, getattr(facts, name)) for name in ("draft", "drafter")}
        if not any(named.values()):
            named["draft"] = facts.usual_draft
        if not any(named.values()):
            raise InputError(
                f"{where}: the run speculated, but not with what; give --drafter eagle3, mtp, ngram, ..., or where a "
                "model drafted give its card by --draft"
            )
        trees = {name: self.columns.get(name) for name in ("tree_nodes", "tree_beam")}
        return {"k": k, "acceptance_length": float(length), **named, **trees}


_OF_BITS = ("int4", "int8", "bfloat16", "float32")
"""A format for each number of bits that is priced."""


def _contradiction(where: str, said: object, flag: str, given: object, way: str) -> InputError:
    return InputError(f"{where}: says {said}; --{flag.replace('_', '-')} says {given}: {way}")


def _alike(one: float | None, other: float | None, times: float) -> bool:
    return bool(one) and bool(other) and 1.0 / times <= one / other <= times  # type: ignore[operator]


def _format(words: str) -> str | None:
    """The format that a source's words for one mean; None where it is none of those that are priced."""
    if (gguf := _GGUF.search(words)) is not None:
        words = gguf[1].lower().replace("_", "-")
    said = CheckpointName.of(f"x-{words}").said
    return words if words in WEIGHT_BYTES else {"": None, "fp8": "float8"}.get(said, said)


def _bits_of(words: str) -> float | None:
    """The bits of a weight in the format that the words mean, or that they say (``Q5_K``)."""
    if (kept := _format(words)) is not None:
        return 8.0 * WEIGHT_BYTES[kept]
    gguf = _GGUF.search(words)
    return float(gguf[2]) if gguf is not None and gguf[2] else None


def _named(name: str) -> tuple[str, Transformer] | tuple[None, None]:
    """A model's name, or that of its folder or file, and the card that is called so; None where there is none.

    A source says it: the folder or file itself is not looked at.
    """
    for each in (name, PurePath(name).name) if name else ():
        if (card := transformer_called(each)) is not None:
            return each, card
    return None, None


def _given(name: str) -> Transformer | None:
    """The card that the user named."""
    try:
        return find_transformer(name)
    except InputError:
        return None


def _profile(name: str) -> HardwareProfile | None:
    try:
        return find_hardware(name)
    except InputError:
        return None


def _alike_cards(said: str, given: str) -> bool | None:
    """Tell whether a source's name and the user's are of one shape; None where one has no card."""
    own, card = _named(said)[1], _given(given)
    return None if own is None or card is None else _unlike(own, card) is None


def _unlike(one: Transformer, other: Transformer) -> str | None:
    """The first field of their shapes that differs."""
    return next((name for name in _SHAPE if getattr(one, name) != getattr(other, name)), None)


def _kept(card: Transformer) -> str:
    """The formats of a card's weights, in words; plain ones of 16 bits are one."""
    own = card.precision().formats_of_blocks
    formats = {"16 bits" if each in ("bfloat16", "float16") else each for each in own}
    return " and ".join(sorted(formats))


def _is_of(profile: HardwareProfile, gpu: str) -> bool:
    return is_same_gpu(gpu, profile.device.name, profile.device.memory_bytes)
