"""``--pair``: acceptance, hit curves and backup of a measured pair in the place of their defaults.

An option that is given stays as it is. What the file does not know keeps its default, which is then said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ssdsim import strategies
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.option import spelled
from ssdsim.base.settings import DEFAULT, GIVEN, Settings
from ssdsim.hardware.catalog import find_transformer
from ssdsim.question.supposed import PRIOR
from ssdsim.tokens.acceptance import rate_of
from ssdsim.tokens.pair_choice import RANDOM, ChosenFindings, chosen_by
from ssdsim.tokens.saguaro import PLAIN, known_fan_out, why_not
from ssdsim.transformer.card import Transformer

if TYPE_CHECKING:
    from ssdsim.tokens.pair_file import Backup, HitLaw

_ACCEPTANCE = ("alpha", "alpha_concentration")
CURVES = ("", "_all", "_backup")
"""Endings of option names: hits after a rejection, after all were accepted, after a backup."""


def settle_pair(settings: Settings) -> None:
    """Derive what the pair knows and nobody gave."""
    chosen = chosen_in(settings)
    if chosen is None:
        return
    _check_c(settings)
    _check_fan_outs(settings, chosen)
    if not is_given(settings, "temperature") and chosen.temperature is not None:
        _derive(settings, "temperature", chosen.temperature, f"measured, {chosen.name}")
    _settle_acceptance(settings, chosen)
    if not is_given(settings, "p_hit"):
        for whose in ("", "_all"):
            _settle_hits(settings, whose, curve_of(chosen, whose, None), chosen)
    _settle_batch(settings, chosen)
    _settle_backup(settings, chosen)
    if chosen.fan_outs is not None and not settings["extrapolate"]:
        _derive(settings, "hit_fan_out", chosen.fan_outs, f"as far as {chosen.name} knows hits")
    curves = any(settings[f"hit_curve{whose}"] is not None for whose in CURVES)
    if curves and not is_given(settings, "fan_out_policy"):
        settings.settle("fan_out_policy", "optimal", "for a curve that is no power law")


def _check_fan_outs(settings: Settings, chosen: ChosenFindings) -> None:
    """Raise :class:`InputError` where fan-outs are asked for that the pair never saw."""
    asked = [settings["f"] if is_given(settings, "f") else None, *(settings["fl"] or ()), *(settings["flm"] or ())]
    most = max((each for each in asked if isinstance(each, int)), default=0)
    reach = chosen.fan_outs
    if reach is not None and is_given(settings, "saguaro_c") and settings["saguaro_c"] != PLAIN:
        reach = min(reach, known_fan_out(_about_c(settings)) or reach)
    if reach is None or most <= reach or settings["extrapolate"] or is_given(settings, "p_hit"):
        return
    known = f"{chosen.path}: hits are known up to {reach} guesses a position"
    raise InputError(f"{known}, but the fan-out is {most}; --extrapolate goes on by the fitted law")


def _check_c(settings: Settings) -> None:
    """Raise :class:`InputError` where the pair does not know what a given C changes."""
    if not is_given(settings, "saguaro_c") or settings["saguaro_c"] == PLAIN:
        return
    if why := why_not(_about_c(settings), settings["saguaro_c"]):
        raise InputError(f"--saguaro-c {settings['saguaro_c']:g}: {why}")


def _about_c(settings: Settings) -> dict[str, Any]:
    """The options by which a pair is asked what C changes."""
    names = ("pair", "pair_set", "extrapolate", *(["temperature"] if is_given(settings, "temperature") else []))
    return {name: settings[name] for name in names}


def chosen_in(settings: Settings) -> ChosenFindings | None:
    """The findings that the settings are about; None without a pair."""
    return chosen_by(settings, settings["temperature"] if is_given(settings, "temperature") else None)


def routed(card: Transformer, settings: Settings, role: Literal["target", "draft"]) -> Transformer:
    """The card with the pair's measured overlap and skew of experts; unchanged if there are none."""
    if card.experts is None:
        return card
    chosen = chosen_in(settings)
    counted = chosen and chosen.pair.routing and chosen.pair.routing.get(role)
    if not counted or counted.count != card.experts.count:
        return card
    experts = card.experts.changed(overlap=counted.overlap, skew=counted.skew)
    return card.changed(experts=experts)


def pair_of(options: Mapping[str, Any]) -> str | None:
    """The source of the pair's measurements; None without a pair."""
    chosen = chosen_by(options, options.get("temperature"))
    return None if chosen is None else chosen.source


def is_given(settings: Settings, name: str) -> bool:
    """Whether the option was given: a pair does not replace it."""
    return settings.source(name) == GIVEN


def _derive(settings: Settings, name: str, value: Any, source: str) -> None:
    if not is_given(settings, name):
        settings.settle(name, value, source)


def _settle_acceptance(settings: Settings, chosen: ChosenFindings) -> None:
    """Settle rates by position, or one, and how requests differ."""
    if any(is_given(settings, name) for name in _ACCEPTANCE):
        return
    findings = chosen.findings
    rates: Any = findings.rates or _as_far_as_known(findings.alpha.mean, chosen.positions)
    if rates is None:
        raise InputError(
            f"{chosen.path}: has no acceptance rate, only lengths: rounds drafted different numbers of tokens"
        )
    _derive(settings, "alpha", rates, chosen.source)
    if isinstance(rates, tuple) and not is_given(settings, "k") and len(rates) < settings["k"]:
        settings.settle("k", len(rates), f"as far as {chosen.name} knows acceptance")
    share = findings.length.drafted_share
    if share is not None and share < 1.0:
        _derive(settings, "found", share, chosen.source)
    requests = findings.requests
    if findings.rates and requests.concentration and not requests.alike:
        _derive(settings, "alpha_concentration", requests.concentration, chosen.source)


def _as_far_as_known(rate: float | None, positions: int | None) -> Any:
    """One rate at as many positions as tokens were drafted; the rate itself where that is not said."""
    return rate if rate is None or positions is None else (rate,) * positions


def curve_of(chosen: ChosenFindings, whose: str, backup: str | None) -> HitLaw | None:
    """The measured hit curve for an ending of option names; after a backup, of random tokens by default."""
    hits = chosen.findings.hits
    own = {"": hits.rejected, "_all": hits.all_accepted}
    return own[whose] if whose in own else hits.after_backup.get(backup or RANDOM)


def _settle_hits(settings: Settings, whose: str, law: HitLaw | None, chosen: ChosenFindings) -> None:
    """Settle the law of hits where it fits, else the curve itself."""
    names = tuple(f"hit_{what}{whose}" for what in ("curve", "c", "r"))
    if law is None or any(is_given(settings, name) for name in names):
        return
    if whose == "" and is_given(settings, "hit_curve"):
        return
    curve, c, r = names
    if law.c is not None and law.r is not None and law.fits is not False:
        _derive(settings, c, law.c, chosen.source)
        _derive(settings, r, law.r, chosen.source)
    elif law.curve:
        _derive(settings, curve, tuple((float(f), h) for f, h, *_ in law.curve), f"{chosen.source}, no power law")


def _settle_batch(settings: Settings, chosen: ChosenFindings) -> None:
    """Settle the correlation of misses within a batch from the measured batch nearest in size."""
    batches = [each for each in chosen.findings.correlation.batch if each.p_all_hit is not None]
    if settings["b"] == 1 or not batches:
        return
    nearest_in_size = min(batches, key=lambda each: abs(math.log(each.b / settings["b"])))
    if nearest_in_size.concentration is not None:
        source = f"{chosen.source}, batches of {nearest_in_size.b}"
        _derive(settings, "hit_concentration", nearest_in_size.concentration, source)


def _settle_backup(settings: Settings, chosen: ChosenFindings) -> None:
    """Settle the fast backup's acceptance and hits: of random tokens, or of the backup that is asked for."""
    if settings["backup"] == "jit":
        return
    asked = settings["pair_backup"]
    findings, name = chosen.findings, asked or RANDOM
    known = dict.fromkeys((*findings.hits.after_backup, *findings.backups))
    if asked is not None and asked not in known:
        allowed = f"Allowed: {', '.join(known)}" if known else "It has none"
        raise InputError(f"{chosen.path}: no backup '{asked}' in it{nearest(asked, known)} {allowed}")
    if name in findings.backups and not is_given(settings, "alpha_backup"):
        rate = _rate_of(findings.backups[name])
        if rate is not None:
            _derive(settings, "alpha_backup", rate, f"{chosen.source}, backup {name}")
    if not is_given(settings, "p_hit"):
        _settle_hits(settings, "_backup", curve_of(chosen, "_backup", asked), chosen)


def _rate_of(backup: Backup) -> float | None:
    """The one rate that yields the backup's tokens a round, rounds without a proposal among them."""
    if backup.length is None or backup.k is None:
        return backup.alpha
    return rate_of(backup.length, backup.k)


# what must be said


def token_warnings(settings: Settings) -> Iterator[str]:
    """Mismatches between a pair and what is asked, and placeholders where they may turn the verdict."""
    drafting = [name for name in settings["strategies"] if strategies.ALL.named(name).drafts]
    if not drafting:
        return
    chosen = chosen_in(settings)
    if chosen is None:
        yield from _placeholders(settings, drafting)
        return
    yield from _other_models(settings, chosen)
    if chosen.temperature is None:
        yield f"{chosen.name}: does not say at which temperature it was measured"
    yield from _extrapolated(settings, chosen)
    overriding = [spelled(name) for name in _OVERRIDING if is_given(settings, name)]
    if overriding:
        yield f"{chosen.name}: overridden by {', '.join(overriding)}"
    if any(strategies.ALL.named(name).miss_state is not None for name in drafting) and _guesses_hits(settings):
        law = f"c {settings['hit_c']:g} and r {settings['hit_r']:g}"
        yield f"{chosen.name}: has no hit rates, so that {law} are placeholders"


def _extrapolated(settings: Settings, chosen: ChosenFindings) -> Iterator[str]:
    """Warnings about extrapolation beyond the pair's measurements, and about unknown limits."""
    if chosen.positions is None and not is_given(settings, "alpha"):
        yield f"{chosen.name}: does not say how many tokens were drafted, so that its rate stands for any K"
    if not settings["extrapolate"]:
        return
    most = max((settings[name] or 0 for name in ("k", "sd_k")), default=0)
    if chosen.positions is not None and most > chosen.positions:
        yield f"{chosen.name}: acceptance is known up to K {chosen.positions}; the last rate is taken for more"
    asked = settings["temperature"]
    if chosen.temperature is not None and chosen.temperature != asked:
        yield f"{chosen.name}: measured at temperature {chosen.temperature:g}, taken for {asked:g}"
    if chosen.fan_outs is not None:
        yield f"{chosen.name}: hits are known up to {chosen.fan_outs} guesses a position, beyond that by the fitted law"


_OVERRIDING = (
    *_ACCEPTANCE,
    *(f"hit_{what}{whose}" for whose in CURVES for what in ("curve", "c", "r")),
    "hit_concentration",
    "p_hit",
    "alpha_backup",
)


def _placeholders(settings: Settings, drafting: list[str]) -> Iterator[str]:
    """Warnings that placeholders are of drafts at temperature 0: acceptance and hits fall at a higher one."""
    if settings["temperature"] == 0.0 or settings["t_sd"] is not None:
        return
    guessed = []
    if is_placeholder(settings, "alpha"):
        guessed.append(f"alpha {settings['alpha']:g}")
    if any(strategies.ALL.named(name).miss_state is not None for name in drafting) and _guesses_hits(settings):
        guessed.append(f"c {settings['hit_c']:g} and r {settings['hit_r']:g}")
    if guessed:
        yield (
            f"temperature {settings['temperature']:g}: {', '.join(guessed)} are placeholders of drafts at "
            "temperature 0; hits and acceptance change with it, and the verdict may turn: give --pair"
        )


def is_placeholder(settings: Settings, name: str) -> bool:
    """Say whether ``alpha``, ``hit_c`` or ``hit_r`` is a default, and in use."""
    if name == "alpha":
        return settings["acceptance"] is None and settings.source(name).startswith((DEFAULT, PRIOR))
    return _guesses_hits(settings)


def _guesses_hits(settings: Settings) -> bool:
    """Whether the hit curve is the default."""
    names = ("hit_c", "hit_r")
    return (
        not is_given(settings, "p_hit")
        and settings["hit_curve"] is None
        and all(settings.source(name) == DEFAULT for name in names)
    )


def _other_models(settings: Settings, chosen: ChosenFindings) -> Iterator[str]:
    if settings["t_sd"] is not None:
        return
    for role, measured in (("target", chosen.pair.target.id), ("draft", chosen.pair.draft.id)):
        if measured is not None and _called(measured) != _called(settings[role]):
            yield f"{chosen.name}: measured with {role} {measured}, not with {spelled(role)} {settings[role]}"


def _called(name: str) -> str:
    """The card's name, or the name itself where there is no card of it."""
    try:
        return find_transformer(name).name
    except InputError:
        return name.rstrip("/").split("/")[-1].lower()
