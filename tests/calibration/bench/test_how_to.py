"""docs/how-to/bench.md: every command of its hour, in a shell, against a server that stands for vLLM."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from ssdsim.hardware.runtime_catalog import load_runtime
from ssdsim.readers.row import read_rows
from ssdsim.tokens.pair_file import load_pair
from tests.calibration.bench.test_plan import PROJECT, free_port, installed

PAGE = PROJECT / "docs/how-to/bench.md"
SMALLER = {
    "--concurrency 1,8,32": "--concurrency 1,2,3 --output-len 12 --requests 1 --repeats 2 --input-len 32",
    "--concurrency 8": "--concurrency 2 --output-len 12 --requests 1 --repeats 2",
    "--within 10%": "--within 1000%",  # the stand-in is no H100
}

__all__ = ["installed"]


@pytest.mark.long
def test_every_command_of_the_hour(installed: Path) -> None:
    block = re.search(r"<!-- the hour -->\n```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert block
    commands = block[1].replace("8000", str(free_port()))
    for said, smaller in SMALLER.items():
        assert said in commands
        commands = commands.replace(said, smaller)
    (installed / "prompts.jsonl").write_text('{"prompt": "Write a story."}\n{"prompt": "Add 2 and 3."}\n')
    done = subprocess.run(["bash", "-mec", commands], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len({(row.k, row.batch) for row in read_rows(installed / "rows.csv")}) == 3 + 2 * 2
    assert load_runtime(installed / "engine.toml").engine == "vllm"
    assert load_pair(installed / "pair.json").settings.k == 5
    exported = json.loads((installed / "speculative.json").read_text())
    assert exported is None or exported["method"] == "draft_model"
