"""The configuration of a call, a scenario a strategy: who has room, and which options shape the answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import CannotRun, InputError, Shortage
from ssdsim.base.kinds import Number
from ssdsim.base.option import Group
from ssdsim.base.record import Record, field, replace
from ssdsim.base.settings import CALIBRATED, GIVEN, Settings
from ssdsim.hardware.catalog import short_hardware_name
from ssdsim.hardware.profile import provenance_summary
from ssdsim.hardware.timing import EXTRAPOLATED
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.occupancy import format_count
from ssdsim.pricing.passes import NamedLink
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Pass, PassKey, moved_by_warnings
from ssdsim.question.engines import OF_FILE, TESTS, engine_warnings
from ssdsim.question.measured_pair import pair_of
from ssdsim.question.options import ALL, effective_options, members
from ssdsim.question.question import OWN_BEST, Question, warnings_of
from ssdsim.question.scenario import Scenario
from ssdsim.question.spellings import any_spelling
from ssdsim.question.token_inputs import TokenInput, merged_inputs

if TYPE_CHECKING:
    from ssdsim.question.typed_options import Options


MOVES = 0.05
"""The share of an answer that a warning must be able to move to be told on a first screen."""


class Configuration(Displayable, Record):
    """A scenario for each strategy that can run and has room.

    ``settings`` are the options that shape some of them, with their values and origins. ``subject`` is the strategy
    that answers are about. ``refused`` says why others cannot run, by their names. ``site`` is None where durations
    are unit-free. ``of_tokens`` are warnings about acceptance and hits. ``pair`` says what was measured of the models
    as a pair, and on what; None where nothing was. ``reads`` are the options that a step read, those among
    them without a value too. ``given_options`` are the options as the call gave them.
    """

    settings: Settings
    subject: str
    scenarios: Mapping[str, Scenario]
    refused: Mapping[str, str]
    site: Site | None = None
    of_tokens: tuple[str, ...] = ()
    pair: str | None = None
    reads: frozenset[str] = frozenset()
    given_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def no_room(self) -> dict[str, str]:
        """Of the ``refused`` those that lack devices, memory or context."""
        return {name: why for name, why in self.refused.items() if isinstance(why, Shortage)}

    @property
    def cannot_run(self) -> dict[str, str]:
        """Of the ``refused`` those that nobody has described as they were asked for."""
        return {name: why for name, why in self.refused.items() if not isinstance(why, Shortage)}

    @property
    def shape(self) -> str:
        """The batch and how it speculates, in words."""
        v = self.settings
        words = [f"batch {v['b']}", *([f"K {v['k']}"] if "k" in v and v["k"] != ALL["k"].unsaid else [])]
        if "pair" in v and "alpha" in v and v.source("alpha") != GIVEN:
            words.append(f"acceptance {v['pair']}")
        elif "acceptance" in v:
            words.append(f"acceptance {v['acceptance']}")
        elif "alpha" in v:
            words.append(f"alpha {v['alpha']:.4g}" if isinstance(v["alpha"], float) else f"alpha {v['alpha']}")
        if v.get("backup", "auto") != "auto":
            words.append(f"{v['backup']} backup")
        return ", ".join(words)

    @property
    def place(self) -> str:
        """The models and where they run; where these are given, the durations."""
        v = self.settings
        if self.site is None:
            numbers = [name for name in members(Group.UNIT_FREE) if name in v and isinstance(ALL[name].kind, Number)]
            units = [f"{ALL[name].axis.split()[-2]} {v[name]:g}" for name in numbers]
            return f"Unit-free (T_v {'by rows' if 't_v' in v else '= 1'}): {', '.join(units)}"
        beside = self._draft_tp
        drafting = f", SD's draft on {beside}" if beside > 1 or v.get("draft_tp") else ""
        return f"{self._models}, {self.site.degrees}{drafting}"

    @property
    def _models(self) -> str:
        """The models and the hardware."""
        v = self.settings
        devices = (short_hardware_name(v[name]) for name in ("hardware", "draft_hardware") if name in v)
        hardware = " + ".join(dict.fromkeys(devices))
        models = f"{v['target']} + {v['draft']}" if "draft" in v else v["target"]
        return f"{models} on {hardware}"

    def setup_text(self, own_degrees: bool = False, names_engine: bool = False) -> str:
        """The place, without degrees where each has ``own_degrees``, and the engine if given or ``names_engine``."""
        if self.site is None:
            return self.place
        engine = names_engine or self.settings.source("engine") in (GIVEN, OF_FILE)
        return f"{self._models if own_degrees else self.place}{f' with {self.site.runtime.title}' if engine else ''}"

    @property
    def _draft_tp(self) -> int:
        """Number of the target's devices that a draft beside it runs on, the most of the strategies."""
        steps = (step for scenario in self.scenarios.values() for step in scenario.priced.expected.values())
        passes = (piece.work for step in steps for piece in step.pieces if isinstance(piece.work, Pass))
        return max((each.tp for each in passes if each.model == "draft"), default=1)

    @property
    def devices(self) -> str:
        """What its devices are called."""
        return "cores" if self.site is not None and self.site.profile.device.kind == "cpu" else "GPUs"

    @property
    def as_calibrated(self) -> str:
        """The options that are as the profile was calibrated, in brackets; empty where there are none."""
        names = [ALL[name].short for name in self.settings if self.settings.source(name) == CALIBRATED]
        return f" ({', '.join(names)}: as calibrated)" if names else ""

    @property
    def title(self) -> str:
        """One line that says what was asked."""
        context = "" if self.site is None else f", context {self.settings['context']}"
        return f"{self.place}{context}{self.as_calibrated}; {self.shape}"

    @property
    def display(self) -> Display:
        """A row a strategy."""
        rows = [(each.strategy.title, format_count(each.gpus)) for each in self.scenarios.values()]
        return Display(self.title, ("", self.devices), rows, "; ".join(self.refused.values()))

    @property
    def unit(self) -> str:
        """``s``, or ``T_v`` where durations are unit-free."""
        return "T_v" if self.site is None else "s"

    @cached_property
    def warnings(self) -> list[str]:
        """Extrapolations and mismatches behind the timings, what a round's own rule leaves open, and placeholders and
        mismatches behind the tokens.
        """
        of_rounds = (scenario.warnings for scenario in self.scenarios.values())
        return sorted(frozenset(self.of_tokens).union(*of_rounds))

    @cached_property
    def telling_warnings(self) -> list[str]:
        """Of :attr:`warnings` those that can move a strategy's tokens/s."""
        return telling(self.warnings, self.scenarios.values())

    @property
    def share_beyond_timings(self) -> float:
        """The share of a strategy's time in passes of operations beyond what was timed: the largest over them."""
        told = filter(None, map(EXTRAPOLATED.fullmatch, self.warnings))
        beyond = {f"{each['operation']}@{each['profile']}" for each in told}
        shares = [0.0]
        for scenario in self.scenarios.values():
            pieces = [piece for step in scenario.priced.expected.values() for piece in step.pieces]
            seconds = [(term, float(s)) for piece in pieces for term, (s, _) in piece.cost.terms.timings.items()]
            total = sum(s for _, s in seconds)
            shares.append(sum(s for term, s in seconds if term in beyond) / total if total else 0.0)
        return max(shares)

    @property
    def provenance(self) -> list[dict[str, str]]:
        """The origin of the timings, a record a profile; empty when unit-free."""
        site = self.site
        if site is None:
            return []
        dtypes = {*site.precision_of("target").formats, *site.precision_of("draft").formats}
        profiles = {p.name: p for p in (site.profile, site.draft_profile)}
        cards = (site.target, site.draft)
        experts, windows = any(card.experts for card in cards), any(card.window for card in cards)
        rules = frozenset([card.recurrent.rule for card in cards if card.recurrent])
        exchanges, rare = site.data_parallel or site.dcp > 1, site.target.rare_steps | site.draft.rare_steps
        read = (experts, windows, exchanges, rules, rare)
        own = {name: p.of_engine(site.runtime.engine) for name, p in profiles.items()}
        said = {name: provenance_summary(p, dtypes, site.tp, *read) for name, p in own.items()}
        for link in (site.network, site.between_stages):
            if isinstance(link, NamedLink):
                said.setdefault(link.profile.name, link.summary)
        return [{"profile": name, "summary": text} for name, text in said.items()]

    @property
    def runtime(self) -> str | None:
        """The engine's runtime and what it rests on, in short; None where durations are unit-free."""
        return None if self.site is None else self.site.runtime.summary

    @cached_property
    def inputs(self) -> tuple[TokenInput, ...]:
        """The inputs that the tokens rest on, each with its standing and who reads it."""
        return merged_inputs({name: scenario.known.inputs for name, scenario in self.scenarios.items()})

    def errors(self, draws: int, seed: int) -> TimingErrors | None:
        """Draws of what is not known; None where that is nothing."""
        return None if self.is_sure else TimingErrors(draws, seed)

    @property
    def is_sure(self) -> bool:
        """Say whether nothing may be otherwise: it rests on no profile's timings, and tokens are given."""
        return self.site is None and all(scenario.known.is_sure for scenario in self.scenarios.values())


def telling(warnings: Iterable[str], scenarios: Iterable[Scenario]) -> list[str]:
    """The warnings that can move the tokens/s of one of the scenarios by more than :data:`MOVES`.

    Extrapolations of one profile count together: each is of one shape. What is not about a timing is always told.
    """
    most: dict[str, float] = {}
    for scenario in scenarios:
        for kind, share in _moved(scenario).items():
            most[kind] = max(share, most.get(kind, 0.0))
    return [each for each in warnings if most.get(_kind(each), 1.0) > MOVES]


def _moved(scenario: Scenario) -> dict[str, float]:
    """The share of its tokens/s that a scenario loses where what timings' warnings are about is slower, by kind."""
    later: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, step in scenario.priced.expected.items():
        for warning, moved_s in moved_by_warnings(step.pieces).items():
            later[_kind(warning)][name] += moved_s
    seconds, round_ = scenario.seconds, scenario.round
    slower = {
        kind: replace(round_, seconds={name: took + more.get(name, 0.0) for name, took in seconds.items()})
        for kind, more in later.items()
    }
    rate = float(scenario.estimate.tokens_per_second)
    return {
        kind: 1.0 - float(scenario.strategy.closed_form(each).tokens_per_second) / rate for kind, each in slower.items()
    }


def _kind(warning: str) -> str:
    """What a warning counts together with: all extrapolations of a profile, else itself."""
    beyond = EXTRAPOLATED.fullmatch(warning)
    return warning if beyond is None else f"beyond {beyond['profile']}"


@any_spelling
def configure(**given: Unpack[Options]) -> Configuration:
    """Build the scenarios that options describe.

    Parameters
    ----------
    given : options by name; the rest are :data:`ssdsim.question.options.DEFAULTS`. ``alpha`` is a rate or a list of
        K rates by position. With ``t_sd`` the times are unit-free (in units of T_v) and no hardware is read; otherwise
        they are priced on a hardware profile. ``strategies`` names those to build.

    Returns
    -------
    A scenario a strategy, and why others cannot run.

    Raises
    ------
    InputError : an unknown option, a value out of range, an option without effect in this call, or no strategy
        can run.
    """
    question = Question.of(given)
    return configured(question, given, lambda name: fastest_first(list(question.scenarios(name))))


def configured(
    question: Question, given: Mapping[str, Any], best_first: Callable[[str], Sequence[Scenario]]
) -> Configuration:
    """The configuration of a question, of whose strategies ``best_first`` gives the scenarios, the chosen one first."""
    scenarios: dict[str, Scenario] = {}
    refused: dict[str, CannotRun] = {}
    asked, settings, reads = question.contestants, question.settings, set(question.reads)
    for name in asked.names:
        try:
            listed = best_first(name)
        except CannotRun as error:
            refused[name] = error
            continue
        scenarios[name] = listed[0]
        settings = settings.with_derived(scenarios[name].settings)
        reads.update(*(each.reads for each in listed))
    if not scenarios:
        raise refused[asked.subject]
    said_of_engine = {
        name: settings[name]
        for name in ("engine", "drafter", "saguaro_c", "dcp", "pp", *TESTS)
        if settings.source(name) == GIVEN
    }
    if settings.source("k") == OWN_BEST:
        settings.settle("k", max(int(each.settings["k"]) for each in scenarios.values()), OWN_BEST)
    warnings, pair = warnings_of(settings, asked, question.site, tuple(scenarios)), pair_of(settings)
    sharing = {name: scenario.devices.targets for name, scenario in scenarios.items()}
    warnings = (*warnings, *engine_warnings(sharing, said_of_engine))
    for name in ("k", "saguaro_c"):
        if settings.source(name) == OWN_BEST:
            settings.settle(name, ALL[name].unsaid, OWN_BEST)
    said = {name: value for name, value in settings.items() if settings.source(name) == GIVEN}
    shaping = settings.restricted_to(reads & effective_options(settings, said).keys(), question.idle - reads)
    reasons = {name: error.reason for name, error in refused.items()}
    kept = {name: value for name, value in given.items() if value is not None}
    return Configuration(
        shaping, asked.subject, scenarios, reasons, question.site, warnings, pair, frozenset(reads), kept
    )


def fastest_first(scenarios: list[Scenario]) -> list[Scenario]:
    """The scenario of most tokens/s first, the first of equals, then the others."""
    if len(scenarios) == 1:
        return scenarios
    return sorted(scenarios, key=lambda each: -float(each.estimate.tokens_per_second))


def rescaled(configuration: Configuration, name: str, drift: Mapping[PassKey, float]) -> Scenario:
    """A strategy's scenario on a machine that is slower now than its profile says, by its passes."""
    if configuration.site is None:
        raise InputError("without hardware there are no passes to be slower")
    scenario = configuration.scenarios[name]
    site = replace(configuration.site, options=scenario.settings, drift=drift)
    return scenario.with_steps(scenario.strategy.steps(site, scenario.drafter))
