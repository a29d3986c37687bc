"""A refusal told by its kind and by the options, keys and values that it names, not by its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess

import pytest

from ssdsim import InputError


@contextmanager
def refused(*names: str, error: type[Exception] = InputError) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """A block that must end in ``error``, on one line that names each of ``names``."""
    with pytest.raises(error) as caught:
        yield caught
    assert_names(str(caught.value), names)


def assert_refused(done: CompletedProcess[str], *names: str) -> None:
    """The command's exit code 2, nothing on stdout, and one line of error on stderr that names each of ``names``."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("error: "), done.stderr
    assert_names(done.stderr.removesuffix("\n"), names)


def assert_names(message: str, names: tuple[str, ...]) -> None:
    """``message`` is one line and has each of ``names`` as a whole word: ``--k`` is not named by ``--k-table``."""
    assert message.splitlines() == [message]
    for name in names:
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", message), f"{name!r} is not named in: {message}"
