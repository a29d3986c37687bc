"""The verbs that write, found by their own options, and for each a command that writes in a folder."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import click

from ssdsim.cli.main import VERBS
from ssdsim.cli.param_types import OutputFile
from tests.calibration.importers import test_importer_aiconfigurator as aiconfigurator
from tests.calibration.importers import test_importer_deepbench as deepbench
from tests.calibration.importers import test_importer_more as more
from tests.calibration.importers import test_importer_v100 as v100
from tests.calibration.importers import test_llama_bench as llama
from tests.calibration.timings.process import PAIR
from tests.mutations import engines, folders
from tests.mutations.files import plain_table
from tests.ssdsim.readers.acceptance import logs


def writers() -> Iterator[str]:
    """Every command that may write a file, as it is called: whichever verb comes later is among them."""
    for verb, (module, _) in VERBS.items():
        command: click.Command = import_module(module).command
        inside = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for name, each in inside:
            if any(map(_is_written, each.get_params(click.Context(each)))):
                yield f"{verb} {name}".strip()


def _is_written(param: click.Parameter) -> bool:
    """Whether an option names a file or a folder that is written."""
    return "-o" in param.opts or isinstance(param.type, OutputFile)


SERVER = "http://127.0.0.1:PORT"
"""Stands for a server that is started for the trial."""

UNTRIED: Mapping[str, str] = {
    "validate run": "its rounds are of real ranks, minutes long",
    "validate pair": "its rounds are of real models, minutes long",
}
"""Verbs that write and have no trials, and why."""

COMMANDS: Mapping[str, str] = {
    "recommend": "recommend --gpus 2 --target llama-3.1-8b --k 2,3 --tp 1 --quiet -o made",
    "simulate": "simulate --t-sd 0.2 --rounds 4000 --trace made.json",
    "plan": folders.SERVE.replace("-o run", "-o made"),
    "sweep": "sweep --t-sd 0.2 --k 1:8 --alpha 0.5:0.9:0.02 --solver mc --precision 0.02 --quiet -o made",
    "export": "export --b 1,8 --k 2,3 --f 2 --target llama-3.1-8b --quiet -o made.json",
    "measure": "measure --target model --draft draft --prompts prompts.jsonl --requests 8 --max-new-tokens 16 --k 1:3 "
    "--f 1:3 --b 2 --quiet --device cpu -o made.json",
    "calibrate": f"calibrate --device cpu {' '.join(PAIR)} --b 2 --k 2 --quiet -o made.json",
    "validate rows": "validate rows rows.csv --quiet -o made",
    "report": "report run -o made.html",
    "explore": "explore --t-sd 0.2 --strategies ar,sd --b 1,2 --k 2,3 --alpha 0.8 --quiet -o made.html",
    "hardware scale": "hardware scale h100-sxm --clock 2 -o made.json",
    "hardware new": "hardware new --like h100-sxm --memory 80 -o made.json",
    "bench": f"bench {SERVER} --model llama-3.1-8b --hardware h100-sxm --concurrency 1,2 --output-len 16 --requests 1 "
    "--repeats 3 --input-len 20 --quiet -o made.csv",
    "fit runtime": "fit runtime rows.csv --fields gemm --quiet -o made.toml",
    "import acceptance": "import acceptance vllm log.txt --since-start --sampled -o made.json",
    "import aiconfigurator": "import aiconfigurator data -o made.json",
    "import deepbench": "import deepbench deepbench.csv -o made.json",
    "import v100": "import v100 v100/gemm.csv v100 -o made.json",
    "import vidur": "import vidur --mlp mlp.csv -o made.json",
    "import nccl-tests": "import nccl-tests nccl.txt --base h100-sxm -o made.json",
    "import csv": "import csv plain.csv -o made.json",
    "import llama-bench": f"import llama-bench {llama.LARGE[0]}.json --memory 24 -o made.json",
}
"""What writes files whose names begin with ``made``."""
RANKS = {"calibrate"}
"""Start real ranks, and take minutes."""


def prepare(folder: Path) -> None:
    """All that the commands read."""
    for name, content in inputs().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@lru_cache
def inputs() -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for part, write in _MAKERS.items():
            (folder / part).mkdir(parents=True, exist_ok=True)
            write(folder / part)
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    prompts = "".join(json.dumps({"text": " ".join("123456789"[: 2 + n % 7])}) + "\n" for n in range(8))
    rows = {"rows.csv": engines.rows().encode(), "prompts.jsonl": prompts.encode()}
    return {**files, **folders.sweep(), **folders.model(), **rows}


def _tables(folder: Path) -> None:
    aiconfigurator.gemms().iloc[::4].to_csv(folder / "gemm_perf.txt", index=False)
    aiconfigurator.attentions().iloc[::4].to_csv(folder / "generation_attention_perf.txt", index=False)
    (folder / "system.yaml").write_text(aiconfigurator.SYSTEM)


def _single(folder: Path) -> None:
    deepbench.sample().to_csv(folder / "deepbench.csv", index=False)
    more.write_layers(folder / "mlp.csv")
    (folder / "nccl.txt").write_text(more.text_table())
    (folder / "plain.csv").write_text(plain_table())
    llama.bench(folder, llama.LARGE, llama.TARGET)
    (folder / "log.txt").write_text(logs.vllm_metrics(logs.requests(6, 20)))


_MAKERS: Mapping[str, Callable[[Path], object]] = {"data": _tables, "v100": v100.folder, ".": _single}
