"""The command without the start of a process."""

from __future__ import annotations

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from subprocess import CompletedProcess

import pytest

from ssdsim.cli.main import main


def asked(*arguments: str) -> CompletedProcess[str]:
    """What ``ssdsim`` answers to ``arguments``, by its own entry point, in this process."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["ssdsim", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    return CompletedProcess(arguments, ended.value.code, out.getvalue(), err.getvalue())
