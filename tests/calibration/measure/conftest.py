"""The trained pair, made once and kept between runs by what makes it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

import calibration.pairs.measure  # noqa: F401  (before transformers, as in the program: what is not here is not asked for)


@pytest.fixture(scope="session")
def trained_pair(request: pytest.FixtureRequest) -> Path:
    """A folder with ``target/``, ``draft/``, ``prose.jsonl`` and ``code.jsonl``.

    Training takes about twenty seconds; pytest's cache keeps the pair until the file that trains it changes.
    """
    import torch
    import transformers

    from tests.calibration.measure import trained

    made_by = Path(trained.__file__).read_bytes() + f"{torch.__version__} {transformers.__version__}".encode()
    folder = request.config.cache.mkdir("trained-pair") / hashlib.sha256(made_by).hexdigest()[:16]
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            beginning = folder.with_suffix(".partial")
            shutil.rmtree(beginning, ignore_errors=True)
            beginning.mkdir()
            trained.train(beginning)
            beginning.rename(folder)
    return folder
