"""The ``ssdsim`` command: finds the verb's module; turns every mistake of the user into one line and exit code 2."""

from __future__ import annotations

import atexit
import gc
import os
import re
import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import cast

import click

from ssdsim import __version__
from ssdsim.base.errors import InputError, nearest, one_line
from ssdsim.cli.output import ReaderLeftError, flush

# heading -> verb -> (module, one-line help), so that --help imports no verb
SECTIONS = {
    "Decide": {
        "recommend": ("ssdsim.cli.recommend", "Say which strategy, placement and settings to use on your GPUs."),
        "predict": ("ssdsim.cli.predict", "Predict AR, SD and SSD and say whether SSD is worth its GPU."),
        "compare": ("ssdsim.cli.compare", "Hold all strategies against each other on as many GPUs."),
        "plan": ("ssdsim.cli.plan", "The GPUs of a log or a rate within an SLO, with speculation and without."),
        "export": ("ssdsim.cli.export", "The best strategy over batch and context, for vLLM, SGLang, the SSD engine."),
    },
    "Use your numbers": {
        "bench": ("calibration.cli.bench", "Measure a running server: rows for fit runtime and validate."),
        "fit": ("calibration.cli.fit", "Fit a runtime to your engine's own benchmarks."),
        "measure": ("calibration.cli.measure", "Measure acceptance and hit rates of your own target and draft."),
        "calibrate": ("calibration.cli.calibrate", "Time this machine and fit a hardware profile to it."),
        "import": ("calibration.cli.importing", "A profile of another tool's timings, a pair of an engine's log."),
        "doctor": ("calibration.cli.doctor", "What this machine and this installation can do."),
        "models": ("ssdsim.cli.models", "List and show transformer cards."),
        "hardware": ("calibration.cli.hardware", "List and show hardware profiles; make one of a device like another."),
        "runtimes": ("ssdsim.cli.runtimes", "List and show engines: what each adds to a hardware profile."),
    },
    "Study": {
        "why": ("ssdsim.cli.why", "What binds a pass, and how much drafting fits into it."),
        "sweep": ("ssdsim.cli.sweep", "Predict a whole grid: any option takes a list or a range."),
        "explore": ("ssdsim.cli.explore", "One offline page with sliders: verdict, rates and figures follow them."),
        "report": ("ssdsim.cli.report", "Show a run folder as one interactive HTML page."),
        "simulate": ("ssdsim.cli.simulate", "Replay rounds as events or by Monte Carlo: tails, timelines."),
        "validate": ("calibration.cli.validate", "Compare predictions with measured results, or a paper's."),
    },
}
VERBS = {verb: told for verbs in SECTIONS.values() for verb, told in verbs.items()}
FORMER = {
    "window": ("ssdsim.cli.window", "why"),
    "roofline": ("ssdsim.cli.roofline", "why"),
    "serve": ("ssdsim.cli.plan", "plan"),
}
"""Verbs of before, with the words that take their place: they work as they did, and say so."""


class VerbGroup(click.Group):
    """A click group whose commands live in modules that are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = VERBS.get(cmd_name) or FORMER.get(cmd_name)
        return None if found is None else cast("click.Command", import_module(found[0]).command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in FORMER:
            from ssdsim.cli.console import echo

            echo(f"note: ssdsim {args[0]} is ssdsim {FORMER[args[0]][1]} now", stderr=True)
        elif args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"unknown verb '{args[0]}'{nearest(args[0], VERBS)} Allowed: {', '.join(VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, verbs in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(verb.ljust(9), about) for verb, (_, about) in verbs.items()])


_COMPLETION_SCRIPTS = {
    "bash": ".local/share/bash-completion/completions/ssdsim",
    "zsh": ".zfunc/_ssdsim",
    "fish": ".config/fish/completions/ssdsim.fish",
}
"""Files, below a person's home, in which shells look for what completes a command."""


def _install_completion(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Write click's script for a shell, or for the one that is used, and end."""
    if value is None:
        return
    from click.shell_completion import get_completion_class  # here: few ask

    shell = value or Path(os.environ.get("SHELL", "")).name
    script_of = get_completion_class(shell)
    if shell not in _COMPLETION_SCRIPTS or script_of is None:
        known = ", ".join(_COMPLETION_SCRIPTS)
        raise InputError(f"completion is for {known}, not '{shell}'; --install-completion=bash names one")
    path = Path.home() / _COMPLETION_SCRIPTS[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script_of(ctx.command, {}, "ssdsim", "_SSDSIM_COMPLETE").source(), encoding="utf-8")
    click.echo(f"{path} is written; a new shell completes ssdsim.")
    if shell == "zsh":
        click.echo("If ~/.zshrc has no such line yet: fpath+=~/.zfunc; autoload -Uz compinit && compinit")
    ctx.exit()


@click.group(
    cls=VerbGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with ssdsim predict -b 16; ssdsim VERB --help has an example of each.",
)
@click.version_option(__version__, prog_name="ssdsim")
@click.option(
    "--install-completion",
    is_flag=False,
    flag_value="",
    metavar="[bash|zsh|fish]",
    is_eager=True,
    expose_value=False,
    callback=_install_completion,
    help="Complete verbs, options and names in your shell, and exit.",
)
def cli() -> None:
    """Is speculative speculative decoding worth one more GPU, and with which K, fan-out and backup?"""


_MEASURING = {"measure", "calibrate", "validate", "bench"}
"""Verbs that run models here, or start what does."""
_READER_LEFT = 141  # 128 + SIGPIPE, as shells have it


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 the answer is no, 2 bad input, 130 interrupted, 141 nobody reads."""
    if _MEASURING.isdisjoint(sys.argv[1:2]):  # other verbs multiply small arrays: waiting threads took 0.04 s
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(100_000)  # what a verb makes lives to its end: looking through it again and again found nothing
    atexit.register(_at_the_end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a character that the terminal lacks is shown by its number
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(standalone_mode=False)
        flush()
    except InputError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        from ssdsim.base.extras import install_hint

        if (missing := install_hint(error)) is None:
            raise
        _fail(missing)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        code = 2
    except click.NoSuchOption as error:
        from ssdsim.cli.options import complaint

        _fail(complaint(error))
    except click.ClickException as error:
        _fail(error.format_message())
    except ReaderLeftError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the last flush complains
        sys.exit(_READER_LEFT)
    except (KeyboardInterrupt, click.Abort) as interrupt:
        kept = str(interrupt.__cause__ or interrupt)  # click makes an Abort of an interrupt
        click.echo(f"interrupted: {kept}" if kept else "interrupted", err=True)
        sys.exit(130)
    except (MemoryError, OSError, ImportError, RuntimeError) as error:  # an Abort is a RuntimeError, too
        if (said := _of_the_machine(error)) is None:
            raise
        _fail(said)
    sys.exit(code if isinstance(code, int) else 0)


def _at_the_end() -> None:
    """A last look would find nothing either, and its memory goes back anyway; nothing is left to interrupt."""
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # else Python, as it ends, leaves it to the system: exit code -2
    exec("")  # or an interrupt that a library's own exec met, and we heard of, ends python -m with -2


_NO_ROOM = re.compile("cannot allocate memory|failed to map segment|can't start new thread", re.IGNORECASE)
"""What libraries say, each in an error of its own kind, where memory runs out."""


def _of_the_machine(error: Exception) -> str | None:
    """A line on a machine without memory, a folder that is not there or a full disk; None of any other error."""
    if isinstance(error, MemoryError) or _NO_ROOM.search(str(error)):
        error.__traceback__ = error.__context__ = None  # whose frames hold what filled the memory
        return "no memory is left: ask for less at once, such as fewer points, sequences or requests"
    if isinstance(error, OSError):
        return f"{error.filename or 'input and output'}: {error.strerror or error}"
    return None


def _fail(message: str) -> None:
    from ssdsim.cli.console import echo

    echo(f"error: {one_line(message)}", stderr=True)
    sys.exit(2)
