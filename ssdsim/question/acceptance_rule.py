"""``--acceptance-rule``: the factor by which a rule multiplies the odds that a drafted token is accepted.

What is given or published of acceptance is taken as the token rule's: the rule comes on top of it. A pair may say that
it was logged under another rule: its acceptance is then that rule's.
"""

from __future__ import annotations

from collections.abc import Iterator

from ssdsim.base.errors import InputError
from ssdsim.base.settings import Settings
from ssdsim.question.measured_pair import chosen_in
from ssdsim.question.supposed import PUBLISHED
from ssdsim.strategies import drafters
from ssdsim.tokens.accepted import is_forced
from ssdsim.tokens.rules import RULES, TOKEN, AcceptanceRule

_DIGITS = 3


def settle_rule(settings: Settings) -> None:
    """Derive the factor of a rule, and where it may lie, from what was published of it.

    Raises
    ------
    InputError : acceptance is said to be that of another rule, or to be forced; a factor where nothing can be gained.
    """
    asked = settings["acceptance_rule"]
    if asked == TOKEN:
        return
    _check_own_rule(settings, asked)
    rule = RULES.find(asked)
    reason = _gains_nothing(settings, rule)
    if settings["rule_odds"] is not None:
        if reason:
            raise InputError(f"--rule-odds: {rule.title} gains nothing {reason}, so that the factor is 1")
        return
    if reason:
        settings.settle("rule_odds", 1.0, f"{PUBLISHED}it gains nothing {reason}")
        return
    low, middle, high = rule.odds
    said = f"{rule.title}, {len(rule.settings)} settings of {rule.source}"
    if rule.of_sampling and settings["temperature"] < 1.0:
        share = settings["temperature"]
        low, middle, high = 1.0, middle**share, high**share
        said += f" at temperature 1, less at {share:g}"
    within = ("rule_odds", round(low, _DIGITS), round(high, _DIGITS))
    settings.settle("rule_odds", round(middle, _DIGITS), f"{PUBLISHED}{said}")
    settings.settle("ranges", (*(settings["ranges"] or ()), within), f"{PUBLISHED}{said}")


def _check_own_rule(settings: Settings, asked: str) -> None:
    """Raise :class:`InputError` where what is given of acceptance is no token rule's."""
    given, chosen = settings["acceptance"], chosen_in(settings)
    if given is not None and is_forced(given):
        raise InputError(
            f"--acceptance-rule {asked} has no effect with --acceptance {given} (which forces the lengths)"
        )
    own = None if chosen is None else chosen.pair.settings.acceptance_rule
    if chosen is not None and own not in (None, TOKEN):
        raise InputError(
            f"--acceptance-rule {asked}: {chosen.path} was logged with {own}, and its acceptance holds as it is: leave "
            "the option out"
        )


def _gains_nothing(settings: Settings, rule: AcceptanceRule) -> str:
    """Where a rule accepts exactly what the token rule does; empty where it may accept more."""
    if not rule.of_sampling:
        return ""
    if settings["temperature"] == 0.0:
        return "at temperature 0 (greedy decoding); --temperature 1 samples"
    looked_up = not drafters.ALL.named(settings["drafter"]).needs_device
    return f"with --drafter {settings['drafter']}, which samples no draft" if looked_up else ""


def rule_warnings(settings: Settings) -> Iterator[str]:
    """A warning that a rule changes the answers, or that it gains nothing here."""
    if settings["acceptance_rule"] == TOKEN:
        return
    rule = RULES.find(settings["acceptance_rule"])
    if not rule.exact:
        yield f"{rule.title} changes the answers: how much is not said, and its speed is compared with exact rules'"
    if reason := _gains_nothing(settings, rule):
        yield f"{rule.title} gains nothing {reason}"
