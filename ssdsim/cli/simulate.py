"""``ssdsim simulate``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import click

from ssdsim.answers.evidence import inputs_text
from ssdsim.answers.own_best import at_their_best, searched_options
from ssdsim.answers.predict import DRAWS
from ssdsim.answers.simulation.simulate import SimulatedRounds, run_as_json, simulate, simulate_requests
from ssdsim.answers.simulation.statistics import MOST_ROUNDS, InTurn
from ssdsim.answers.simulation.trace import Trace
from ssdsim.answers.verdict import title_of
from ssdsim.base.checks import whole
from ssdsim.base.errors import InputError
from ssdsim.base.plain import picked
from ssdsim.cli.console import console, print_labelled, print_origins, print_warnings
from ssdsim.cli.options import Verb, common_options, output_option, rare_option, scenario_options
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import Finite, OutputFile
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.render_prediction import print_shared
from ssdsim.cli.tables import TextTable
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.comparison_options import MOST_OUTPUT_TOKENS
from ssdsim.question.configuration import Configuration
from ssdsim.question.many import DrawnRates
from ssdsim.question.option_usage import check_owners, check_read
from ssdsim.question.question import OWN_BEST
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.round import PART_TITLES, PARTS

_ROUNDS = 20_000
_TRACED_ROUNDS = 50
_MOST_TRACED_ROUNDS = 100_000  # a kilobyte each


@click.command("simulate", cls=Verb, example="ssdsim simulate -b 16 --p-hit 0.85 --rounds 5000")
@scenario_options
@click.option(
    "--solver", type=click.Choice(["des", "mc"]), default="des", show_default=True, help="SimPy or Monte Carlo"
)
@click.option(
    "--rounds", type=click.IntRange(1, MOST_ROUNDS), help=f"[default: {_ROUNDS}; with --trace {_TRACED_ROUNDS}]"
)
@click.option(
    "--tokens",
    type=click.IntRange(1, MOST_OUTPUT_TOKENS),
    help="start together and run until every sequence has so many tokens",
)
@rare_option("--precision", type=Finite(0.0, 1.0, min_open=True), help="of tokens/s at 95 %, such as 0.01")
@output_option("--trace", type=OutputFile(), help="write a timeline that Perfetto opens")
@common_options
def command(
    solver: str,
    rounds: int | None,
    tokens: int | None,
    precision: float | None,
    trace: Path | None,
    as_json: bool,
    seed: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Replay rounds: tails, bursts, utilisation and timelines, which closed forms do not show.

    A timeline shows the subject (SSD).
    """
    whole("--seed", seed, 0)
    _refuse_useless(solver, rounds, tokens, precision, trace)
    check_owners(options)
    configuration, _ = at_their_best(options, DrawnRates(TimingErrors(DRAWS, seed)))
    check_read(options, [options], configuration)
    scenarios = configuration.scenarios
    timeline = None
    if trace is not None:
        subject = configuration.subject
        if subject in configuration.refused:
            raise InputError(f"no timeline: {configuration.refused[subject]}")
        scenarios = {subject: scenarios[subject]}
        timeline = Trace(f"ssdsim {subject}")
        rounds = rounds or _TRACED_ROUNDS
    limits: dict[str, Any] = {"solver": solver, "rounds": rounds or (None if precision else _ROUNDS)}
    limits |= {"precision": precision, "trace": timeline}
    runs = {}
    with progress_bar("simulate", "runs" if tokens else "rounds", quiet) as progress:
        heard = InTurn(progress, len(scenarios))
        for at, (name, scenario) in enumerate(scenarios.items()):
            how: dict[str, Any] = {"seed": seed, "progress": heard.of(at)}
            runs[name] = simulate_requests(scenario, tokens, **how) if tokens else simulate(scenario, **how, **limits)
    if tokens is None:
        _refuse_noise(runs)
    if precision is not None:
        print_warnings(_imprecise(runs, precision), quiet)
    if trace is not None and timeline is not None:
        timeline.save(trace)
    if as_json:
        unit = configuration.unit
        strategies = {name: {**_settings(scenarios[name]), **run_as_json(run, unit)} for name, run in runs.items()}
        head = {"schema": 3, "unit": unit, "solver": solver, "seed": seed}
        echo_json({**head, "strategies": strategies, **picked(configuration, "no_room", "cannot_run", "inputs")})
        return
    _print(configuration, runs)
    if trace is not None and not quiet:
        click.echo(f"timeline of {rounds} rounds written to {trace}; open it in Perfetto", err=True)


def _refuse_noise(runs: Mapping[str, SimulatedRounds]) -> None:
    """Refuse rates of which so few rounds, or durations that vary so much, say nothing at all."""
    for name, run in runs.items():
        rate = run.tokens_per_second
        if isfinite(rate.low) and rate.low <= 0.0 < rate.value:
            raise InputError(
                f"{run.rounds:g} rounds say nothing of the tokens/s of {title_of(name)}, which vary too much for them "
                f"(95 %: {rate.low:.3g} to {rate.high:.3g}): give more rounds, or less spread"
            )


def _imprecise(runs: Mapping[str, SimulatedRounds], precision: float) -> Iterator[str]:
    for name, run in runs.items():
        rate = run.tokens_per_second
        known = (rate.high - rate.low) / 2.0 / rate.value
        if known > precision:
            told = f"{run.rounds:,} rounds know tokens/s to {known:.1g}, not to --precision {precision:g}"
            yield f"{title_of(name)}: {told}"


def _refuse_useless(
    solver: str, rounds: int | None, tokens: int | None, precision: float | None, trace: Path | None
) -> None:
    if tokens is not None and (rounds is not None or precision is not None or trace is not None):
        raise InputError("--rounds, --precision and --trace have no effect with --tokens (each run ends by itself)")
    if trace is not None and rounds is not None and rounds > _MOST_TRACED_ROUNDS:
        raise InputError(f"--rounds must be at most {_MOST_TRACED_ROUNDS:,} with --trace, got {rounds}")
    if solver == "mc" and (trace is not None or tokens is not None):
        raise InputError("--trace and --tokens need --solver des (Monte Carlo has no clock)")


def _print(configuration: Configuration, runs: dict[str, SimulatedRounds]) -> None:
    out = console()
    out.print(configuration.title, style="bold")
    out.print(_drafts(configuration, runs), style="dim")
    scale, unit = (1e3, "ms") if configuration.unit == "s" else (1.0, "T_v")
    out.print(_table(runs, scale, unit))
    out.print()
    label = max(len(title_of(name)) for name in runs) + 2
    for name, run in runs.items():
        print_labelled(out, f"{title_of(name):{label}}", _parts(run, scale, unit))
    for name, run in runs.items():
        if run.p_hit is not None and run.p_all_hit is not None:
            p_hit, together = run.p_hit, run.p_all_hit
            hits = f"hit rate {p_hit.value:.4f} ({p_hit.low:.4f}-{p_hit.high:.4f})"
            said = f"{hits}, all hit in {together.value:.2%} of rounds ({together.low:.2%}-{together.high:.2%})"
            print_labelled(out, f"{title_of(name):{label}}", said)
            lengths = {"a round where all hit takes": run.clean_round_s, "one with a miss": run.missed_round_s}
            took = [f"{what} {scale * length:.3f} {unit}" for what, length in lengths.items() if not isnan(length)]
            print_labelled(out, " " * label, ", ".join(took))
    for name, run in runs.items():
        busy = ", ".join(f"{role} {share:.1%}" for role, share in run.utilisation.items() if share)
        if busy:
            print_labelled(out, f"{title_of(name):{label}}", f"busy: {busy}", "dim")
    for reason in configuration.refused.values():
        out.print(reason, style="yellow")
    print_shared(configuration, out)
    print_origins(out, (), None, inputs_text(configuration.inputs))


def _settings(scenario: Scenario) -> dict[str, Any]:
    """The K of a strategy, and its searched options."""
    strategy, settings = scenario.strategy, scenario.settings
    k = strategy.lookahead(settings) if strategy.drafts else None
    return {"k": k, "settings": {name: settings[name] for name in searched_options(settings, strategy)}}


def _drafts(configuration: Configuration, names: Iterable[str]) -> str:
    """The K of each strategy, and its cached outcomes."""
    said = []
    for name in names:
        found = _settings(configuration.scenarios[name])
        if found["k"] is not None:
            cached = found["settings"].get("budget")
            said.append(f"{title_of(name)} K {found['k']}{f' with {cached} outcomes cached' if cached else ''}")
    own = ", each at its own best" if configuration.settings.source("k") == OWN_BEST else ""
    return f"Drafts   {', '.join(said) or 'none'}{own}"


def _table(runs: dict[str, SimulatedRounds], scale: float, unit: str) -> TextTable:
    rate = "tokens/s" if unit == "ms" else f"tokens/{unit}"
    quantiles = [f"round p{q} {unit}" for q in (50, 90, 99)]
    numbers = ("rounds", rate, "95 %", f"TPOT {unit}", *quantiles, f"gap p99 {unit}", "in bursts")
    table = TextTable(("",), numbers, first=(rate, "95 %", f"TPOT {unit}"))
    for run in runs.values():
        rates = run.tokens_per_second
        table.add_row(
            title_of(run.strategy),
            str(run.rounds),
            f"{rates.value:.4g}",
            f"{rates.low:.4g}-{rates.high:.4g}" if isfinite(rates.high) else "unknown",
            f"{scale * run.tpot_s:.3f}",
            *(f"{scale * run.round_histogram.quantile(q):.3f}" for q in (0.5, 0.9, 0.99)),
            f"{scale * run.gap_quantile_s(0.99):.3f}",
            f"{run.burst_share:.0%}",
        )
    return table


def _parts(run: SimulatedRounds, scale: float, unit: str) -> str:
    parts = [f"{PART_TITLES[part]} {scale * run.breakdown_s[part]:.3f}" for part in PARTS if run.breakdown_s[part] > 0]
    return f"round {scale * run.round_s.value:.3f} {unit} = {' + '.join(parts)}"
