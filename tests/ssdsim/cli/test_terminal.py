"""What each verb prints in a terminal, from the narrowest that is in use to the widest."""

from __future__ import annotations

import fcntl
import functools
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from calibration.cli import importing
from calibration.cli.calibrate import _checks
from calibration.cli.validate import _table
from calibration.timings.checks import PassCheck
from calibration.validation.comparison import GridPoint, RoundComparison
from ssdsim.base.intervals import Measured
from ssdsim.cli import hardware, models
from ssdsim.cli.main import cli
from ssdsim.cli.options import CommandGroup
from ssdsim.cli.tables import TextTable
from ssdsim.readers.row import write_rows
from tests.calibration.importers.test_importer_more import write_layers
from tests.ssdsim.readers.engines import measured, served
from tests.ssdsim.reports.run_folders import write_run

WIDTHS = (60, 80, 100, 140, 200)
UNLIMITED = 10_000
VERBS = {
    "predict": "predict --b 16 --p-hit 0.85",
    "predict with every part of a round": "predict --b 16 --k 8 --f 6 --temperature 0.7 --backup jit",
    "predict unit-free": "predict --t-sd 0.2 --alpha 0.9 --k 5 --p-hit 0.85",
    "recommend": "recommend --quiet --gpus 8 --b 1,16 --k 6,8 --tp 4,8 --draft-gpus 1 --rank gpu --at-least 50 "
    "--gpu-hour 2.5",
    "simulate": "simulate --p-hit 0.85 --b 16 --rounds 200",
    "simulate unit-free": "simulate --t-sd 0.3 --t-p 0.6 --p-hit 0.85 --b 16 --rounds 200 --solver mc",
    "plan": "plan --rate 3 --requests 120 --slo tpot:9 --target llama-3.1-8b --tp 1 --engine kernels --quiet",
    "sweep": "sweep --quiet --t-sd 0.1,0.3 --alpha 0.7,0.9 --k 3,5 --p-hit 0.5:1:0.5 --b 1,16 --backup jit,fast",
    "sweep over names": "sweep --quiet --target llama-3.1-70b,qwen3-32b --draft llama-3.2-1b,llama-3.2-3b --b 1,4 "
    "--fl 21,1,1,1,1,1,1/3,3,3,3,3,3,3 --sort ssd_round_s",
    "window": "window --tp 2,4,8 --b 1,64 --k 3,6",
    "window over names": "window --target llama-3.1-70b,qwen3-32b --draft llama-3.2-1b,llama-3.2-3b --b 1,4",
    "roofline": "roofline --b 16 --pass verify --pass branch_step",
    "why": "why --b 16",
    "models list": "models list",
    "models show": "models show llama-3.1-8b",
    "hardware list": "hardware list",
    "hardware show": "hardware show h100-sxm",
    "hardware scale": "hardware scale h100-sxm --clock 0.5 -o weaker.json",
    "hardware check": "hardware check h100-sxm --vidur-mlp mlp.csv",
    "runtimes list": "runtimes list",
    "runtimes show": "runtimes show ssd-engine",
    "fit runtime": "fit runtime rows.csv -o mine.toml",
    "validate rows": "validate rows rows.csv",
    "import": "import csv timings.csv -o mine.json",
    "report": "report run",
    "validate paper": "validate paper kumar2026",
    "doctor": "doctor",
}
COSTLY = (  # answers that are the same at every width, and so are worked out once
    "ssdsim.cli.recommend.recommended_with_launch_plan",
    "ssdsim.cli.plan.served",
    "ssdsim.cli.roofline.roofline",
    "calibration.validation.replay.replay_families",
    "calibration.validation.replay.replay_sweep",
    "ssdsim.cli.window.window",
    "ssdsim.reports.build.report",
)
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_PROGRESS = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h(\r|\x1b\[\d*[AK])*", re.DOTALL)
"""A bar of work, from where the cursor is hidden to where it is shown and the line is blank again."""
_BAR = re.compile("[█▓▒░▪]+")
_ADDRESS = re.compile(" at 0x[0-9a-f]+")
"""Where in memory a function lies that hears of progress: no part of what is asked."""


@functools.cache
def answered_once(address: str) -> Callable[..., Any]:
    """The function there, which keeps its answers."""
    module, name = address.rsplit(".", 1)
    function, answers = getattr(import_module(module), name), {}

    def answer(*args: Any, **kwargs: Any) -> Any:
        asked = _ADDRESS.sub("", repr((args, kwargs)))
        if asked not in answers:
            answers[asked] = function(*args, **kwargs)
        return answers[asked]

    return answer


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_layers(folder / "mlp.csv")
    rows = [f"all_reduce,bfloat16,{1 << power},4,{12e-6 + (1 << power) / 2e11}" for power in range(10, 30)]
    (folder / "timings.csv").write_text("\n".join(["op,dtype,message_bytes,ranks,seconds", *rows]))
    write_rows([measured(served(batch=batch), off_by=0.9) for batch in (1, 2, 4, 8, 16, 32, 64)], folder / "rows.csv")
    write_run(folder / "run", {"t_sd": 0.2, "alpha": 0.9, "k": 5, "p_hit": 0.85}, {})
    return folder


@pytest.fixture(autouse=True)
def _among_files(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr("ssdsim.cli.progress._BAR_AFTER_S", 3600.0)  # how busy the machine is shows in no answer
    for address in COSTLY:
        monkeypatch.setattr(address, answered_once(address))


@functools.cache
def in_terminal(arguments: str, width: int) -> str:
    """What is printed, stdout and stderr, in a terminal of so many columns."""
    environment = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}
    done = CliRunner().invoke(cli, arguments.split(), env=environment, standalone_mode=False, catch_exceptions=False)
    return _STYLE.sub("", done.output)


def words(text: str) -> Counter[str]:
    """Numbers and names, how often each; bars are as long as there is room."""
    return Counter(word for word in text.split() if not _BAR.fullmatch(word))


def cells(text: str) -> set[str]:
    """What stands in tables and beside bars, whose columns are two blanks apart; lines of commands may wrap."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in _BAR.sub("", text).splitlines())
    return {cell for row in rows if len(row) > 2 and not any("ssdsim " in cell for cell in row) for cell in row}


def assert_nothing_is_lost(narrow: str, wide: str, width: int) -> None:
    lines = narrow.splitlines()
    assert max(map(len, lines)) <= width, max(lines, key=len)
    assert "…" not in narrow
    if "left out: " in narrow:  # of which tests/ssdsim/cli/test_tables.py proves that it is said
        return
    assert not words(wide) - words(narrow)
    assert not {cell for cell in cells(wide) if not any(cell in line for line in lines)}


@pytest.mark.parametrize(
    "width", [pytest.param(width, marks=() if width == 80 else pytest.mark.long) for width in WIDTHS]
)
@pytest.mark.parametrize("verb", VERBS)
def test_no_number_and_no_name_is_cut(verb: str, width: int) -> None:
    wide = in_terminal(VERBS[verb], UNLIMITED)
    assert len(words(wide)) > 10  # it did print an answer
    assert_nothing_is_lost(in_terminal(VERBS[verb], width), wide, width)


def printed(table: TextTable, width: int) -> str:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    out.print(table)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_cell_of_a_calibration_is_cut(width: int) -> None:
    names = ("ar", "verify one", "verify", "draft step", "glue", "branch step")
    checks = [PassCheck(role, name, 0.0123456, 0.0121) for role in ("target", "draft") for name in names]
    assert_nothing_is_lost(printed(_checks(checks), width), printed(_checks(checks), UNLIMITED), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_cell_of_a_validation_is_cut(width: int) -> None:
    given = GridPoint(k=7, f=3, alpha=0.8, p_hit=0.85, b=16, backup="fast", sd_draft="colocated")
    listed = GridPoint(k=7, f=None, alpha=0.8, p_hit=None, b=16, backup="jit", sd_draft="separate", fl=(21, 3) * 4)
    parts = {"verify": (0.04, 0.03)}
    compared = [
        [
            RoundComparison(
                point, name, devices, Measured(0.0512, 0.0501, 0.0523), 0.0498, 3.9, (3.9,), parts, (0.0512,)
            )
            for name, devices in (("ar", (2, 0)), ("sd", (2, 1)), ("ssd", (2, 1)))
        ]
        for point in (given, listed)
    ]
    assert_nothing_is_lost(printed(_table(compared), width), printed(_table(compared), UNLIMITED), width)


def in_real_terminal(arguments: str, width: int) -> str:
    """The same from a process of its own on a pseudo-terminal that says how wide it is."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    command = [sys.executable, "-m", "ssdsim", *arguments.split()]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"TERM": "xterm"}):
        os.close(theirs)
        printed = b""
        while chunk := _read(ours):
            printed += chunk
    os.close(ours)
    return _STYLE.sub("", _PROGRESS.sub("", printed.decode())).replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux ends a pseudo-terminal by EIO
        return b""


@pytest.mark.long
@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("verb", ["predict", "hardware show"])
def test_a_real_terminal_is_measured(verb: str, width: int) -> None:
    assert in_real_terminal(VERBS[verb], width) == in_terminal(VERBS[verb], width)


@pytest.mark.long
def test_in_a_real_terminal_a_mistake_is_told_in_whole_words() -> None:
    told = in_real_terminal("sweep --sort speed", 60)
    assert max(map(len, told.splitlines())) <= 60
    assert "tokens_per_round_ssd," in told.split()


@pytest.mark.long
@pytest.mark.parametrize("group", [hardware.command, importing.command, models.command])
def test_help_tells_the_whole_of_each_command(group: CommandGroup) -> None:
    told = in_real_terminal(f"{group.name} --help", 60)
    assert max(map(len, told.splitlines())) <= 60
    for command in group.commands.values():
        assert command.help is not None
        assert " ".join(command.help.split("\n\n")[0].split()).rstrip(".") in " ".join(told.split())


@pytest.mark.long
def test_an_exported_file_is_not_broken_by_the_terminal() -> None:
    arguments = "export --quiet --format vllm --b 1,16,64 --k 2:6:2 --f 3"
    assert in_terminal(arguments, 60) == in_terminal(arguments, UNLIMITED)
