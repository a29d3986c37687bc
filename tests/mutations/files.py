"""Files that a user gives: cards, profiles, configs, traces, tables of other tools; with mistakes."""

from __future__ import annotations

import io
import json
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import tomli_w

from ssdsim.base.bundled import models_folder
from tests.calibration.importers import test_importer_aiconfigurator as aiconfigurator
from tests.calibration.importers import test_importer_deepbench as deepbench
from tests.calibration.importers import test_importer_more as more
from tests.calibration.importers import test_importer_vidur as vidur
from tests.mutations.input import Input, command, with_file
from tests.mutations.values import as_json, changed_bytes, changed_document, changed_table

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
"""As Hugging Face has it for Llama-3.1-8B."""


def changed_json(document: Any, rng: Random) -> bytes:
    if rng.random() < 0.1:
        return changed_bytes(as_json(document).encode(), rng)
    return as_json(changed_document(document, rng)).encode()


def changed_toml(document: Mapping[str, Any], rng: Random) -> bytes:
    if rng.random() < 0.1:
        return changed_bytes(_as_toml(document), rng)
    return _as_toml(changed_document(document, rng))


def _as_toml(document: Any) -> bytes:
    """TOML, which has no null and no top level but a table."""
    whole = document if isinstance(document, Mapping) else {"x": document}
    return tomli_w.dumps(_without_null(whole)).encode(errors="replace")


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_null(inside) for key, inside in value.items() if inside is not None}
    if isinstance(value, list):
        return [_without_null(inside) for inside in value if inside is not None]
    return value


@lru_cache
def _read(folder: str, name: str) -> Any:
    text = (models_folder() / folder / name).read_text()
    return json.loads(text) if name.endswith(".json") else tomllib.loads(text)


# Each reads a card as one model of a round would be; times are worked out where a mutation leaves that possible.
_WITH_CARD = (
    "models show {}",
    "predict --target {} --tp 1",
    "predict --target llama-3.1-8b --tp 1 --draft {}",
    "why --target {} --tp 1 --b 2",
)
_WITH_PROFILE = (
    "hardware show {}",
    "predict --hardware {}",
    "predict --hardware {} --json",
    "predict --draft-hardware {}",
    "why --hardware {}",
    "hardware scale {} --clock 2 --link pcie4 -o o.json",
    "why --hardware {} --k 4,5",
)


def transformer_card(rng: Random) -> Input:
    asked = rng.choice(_WITH_CARD)
    name = "llama-3.2-1b.toml" if "--draft" in asked else "llama-3.1-8b.toml"
    card = _read("transformers", "qwen3-0.6b.toml" if "show" in asked else name)
    return with_file("transformer card", asked.format("card.toml"), "card.toml", changed_toml(card, rng), rng)


def huggingface_config(rng: Random) -> Input:
    arguments = rng.choice(_WITH_CARD).format(rng.choice(("model", "model/config.json"))).split()
    config = CONFIG | ({"model_type": "qwen3", "num_local_experts": 0} if rng.random() < 0.2 else {})
    return command("config.json", arguments, {"model/config.json": changed_json(config, rng)})


@lru_cache
def cpu_profile() -> Any:
    """What ``calibrate`` makes of a CPU has additive attention and interference, which the bundled ones lack."""
    profile = json.loads(json.dumps(_read("hardware", "h100-sxm.json")))
    law = {
        "group": 1.0,
        "launch_s": 1e-6,
        "head_s": 1e-7,
        "block_s": 1e-7,
        "bandwidth": 2e12,
        "uncertainty": [[1e-7, 0, 0, 0]],
    }
    profile["attention"]["bfloat16"] = {"source": "gemm_perf", "laws": [law, law | {"group": 8.0}]}
    ways = {"both_stream": 0.2, "streams_other_computes": 0.1, "computes_other_streams": 0.0, "both_compute": 0.3}
    return profile | {"interference": {"target": ways, "draft": ways}, "spread": 0.05}


def hardware_profile(rng: Random) -> Input:
    profile = rng.choice((_read("hardware", "h100-sxm.json"), cpu_profile()))
    asked = rng.choice(_WITH_PROFILE).format("profile.json")
    return with_file("hardware profile", asked, "profile.json", changed_json(profile, rng), rng)


def acceptance(rng: Random) -> Input:
    """A card, a trace as CSV, a trace as JSON lines."""
    rest = rng.choice(("--t-sd 0.2 --k 3", "--t-sd 0.2 --k 2 --output-tokens 40 --backup fast", "--k 4 --b 2")).split()
    match rng.randrange(4):
        case 0:
            name, content = "card.toml", changed_toml({"name": "mine", "rates": [0.7, 0.8], "weights": [1.0, 2.0]}, rng)
        case 1:
            name, content = "card.toml", changed_toml({"mean": 0.7, "concentration": 5.0}, rng)
        case 2:
            lines = ["request,accepted", *(f"{row % 3},{row % 5}" for row in range(12))]
            name, content = "trace.csv", changed_csv("\n".join(lines) + "\n", rng)
        case _:
            records: list[Any] = [[1, 4, 0, 2], {"accepted": [3, 3, 4]}, [0, 5]]
            records[rng.randrange(3)] = changed_document(rng.choice(records), rng)
            name, content = "trace.jsonl", "\n".join(map(as_json, records)).encode()
            content = changed_bytes(content, rng) if rng.random() < 0.2 else content
    return with_file("acceptance", f"predict --acceptance {name} {' '.join(rest)}", name, content, rng)


def changed_csv(text: str, rng: Random) -> bytes:
    return changed_bytes(text.encode(), rng) if rng.random() < 0.1 else changed_table(text, rng).encode()


def published(rng: Random) -> Input:
    card = changed_toml(_read("published", "kumar2026.toml"), rng)
    return command("published results", ["validate", "paper", "paper.toml"], {"paper.toml": card})


def importer(rng: Random) -> Input:
    return rng.choice(_IMPORTERS)(rng)


def _aiconfigurator(rng: Random) -> Input:
    """One file of the folder is changed; the tables are small."""
    nccl = pd.concat([aiconfigurator.messages(kind, 2) for kind in ("all_gather", "all_reduce")]).assign(
        nccl_dtype="half"
    )
    tables = {
        "gemm_perf.txt": aiconfigurator.gemms().iloc[::4],
        "generation_attention_perf.txt": aiconfigurator.attentions().iloc[::4],
        "nccl_perf.csv": nccl,
    }
    kept = rng.sample(sorted(tables), 1)
    files = {f"data/{name}": tables[name].to_csv(index=False).encode() for name in kept}
    files["data/system.yaml"] = aiconfigurator.SYSTEM.encode()
    name = rng.choice(sorted(files))
    text = files[name].decode()
    if name.endswith("yaml"):
        files[name] = changed_bytes(files[name], rng) if rng.random() < 0.3 else _changed_lines(text, rng)
    elif rng.random() < 0.1:
        files = {**files, f"data/{Path(name).stem}.parquet": changed_parquet(tables[kept[0]], rng)}
    else:
        files[name] = changed_csv(text, rng)
    return command("import aiconfigurator", ["import", "aiconfigurator", "data", "-o", "o.json"], files)


def _changed_lines(text: str, rng: Random) -> bytes:
    """``key: value`` lines of which one has another value, indentation or key."""
    lines = text.splitlines()
    at = rng.randrange(len(lines))
    key, _, _ = lines[at].partition(":")
    values = ("", "x", "0", "-1", "nan", "inf", "1e400", "1e-320", "1e308", "[1]", "'2'", "9" * 5000)
    lines[at] = rng.choice(
        (
            f"{key}: {rng.choice(values)}",
            f"{key}: {rng.choice(values)}",
            lines[at].strip(),
            f"   {lines[at]}",
            f"x{lines[at]}",
        )
    )
    return "\n".join(lines).encode()


def changed_parquet(table: pd.DataFrame, rng: Random) -> bytes:
    column = rng.choice(list(table.columns))
    changes: list[Callable[[], pd.DataFrame]] = [
        lambda: table.drop(columns=column),
        lambda: table.rename(columns={column: f"{column}x"}),
        lambda: table.assign(**{column: rng.choice((None, float("nan"), float("inf"), "x", -1, 0, True, 1e308))}),
        lambda: table.assign(**{column: [[1]] * len(table)}),
        lambda: table.iloc[: rng.choice((0, 1, 3))],
    ]
    made, changed = io.BytesIO(), rng.choice(changes)()
    changed.to_parquet(made)
    return changed_bytes(made.getvalue(), rng) if rng.random() < 0.3 else made.getvalue()


@lru_cache
def _workbook() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sheet.xlsx"
        deepbench.write_workbook(deepbench.sample().iloc[::7], path)
        return path.read_bytes()


def _deepbench(rng: Random) -> Input:
    if rng.random() < 0.15:
        name, content = "table.xlsx", changed_bytes(_workbook(), rng)
    else:
        name, content = "table.csv", changed_csv(deepbench.sample().iloc[::5].to_csv(index=False), rng)
    return command("import deepbench", ["import", "deepbench", name, "-o", "o.json"], {name: content})


@lru_cache
def _layers() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mlp.csv"
        more.write_layers(path)
        return path.read_text()


def _vidur(rng: Random) -> Input:
    kind = rng.choice(("mlp", "mlp", "all_reduce", "send_recv"))
    text = _layers() if kind == "mlp" else vidur.sample(kind, 2, 1).iloc[::5].to_csv()
    if kind == "mlp" and rng.random() < 0.3:
        arguments = ["hardware", "check", "h100-sxm", "--vidur-mlp", "t.csv", *rng.choice(([], ["--json"]))]
    else:
        arguments = ["import", "vidur", f"--{kind.replace('_', '-')}", "t.csv", "-o", "o.json"]
    return command("import vidur", arguments, {"t.csv": changed_csv(text, rng)})


def _nccl_tests(rng: Random) -> Input:
    match rng.randrange(5):
        case 0:
            lines = more.text_table().splitlines()
            at = rng.randrange(len(lines))
            cells = lines[at].split(" ")
            cells[rng.randrange(len(cells))] = rng.choice(("nan", "-1", "0", "1e400", "x", "", "9" * 400, "²", "N/A"))
            lines[at] = " ".join(cells)
            content = "\n".join(lines).encode()
        case 1:
            content = changed_bytes(more.text_table().encode(), rng)
        case 2:
            records = more.rccl_records()
            content = changed_csv(
                "\n".join([",".join(records[0]), *(",".join(map(str, r.values())) for r in records)]), rng
            )
        case 3:
            content = changed_json(more.rccl_records(), rng)
        case _:
            results = [
                {"size": s, "out_of_place": {"time": more.time_us(s), "nwrong": 0}, "in_place": {}} for s in more.SIZES
            ]
            content = changed_json({"config": {"test": "all_reduce_perf", "ranks": 8}, "results": results}, rng)
    extra = rng.choice(([], [], ["--operation", "sendrecv"], ["--ranks", "4"]))
    return command("import nccl-tests", ["import", "nccl-tests", "t.txt", *extra, "-o", "o.json"], {"t.txt": content})


def plain_table() -> str:
    """A calibration of another tool, in columns of our own."""
    lines = ["op,dtype,m,n,k,message_bytes,ranks,moved_bytes,seconds"]
    lines += [
        f"gemm,bfloat16,{m},{n},{n},,,,{more.gemm_seconds(m, n, n)}" for m in (1, 8, 64) for n in (512, 2048, 8192)
    ]
    lines += [f"all_gather,,,,,{size},4,,{more.time_us(size) * 1e-6}" for size in more.SIZES[::2]]
    lines += [f"link,,,,,{size},,,{more.time_us(size) * 1e-6}" for size in more.SIZES[::2]]
    lines += [f"elementwise,,,,,,,{size},{more.time_us(size) * 1e-6}" for size in more.SIZES[::2]]
    return "\n".join(lines) + "\n"


def _plain_csv(rng: Random) -> Input:
    content = changed_csv(plain_table(), rng)
    return command("import csv", ["import", "csv", "t.csv", "-o", "o.json"], {"t.csv": content})


_IMPORTERS = (_aiconfigurator, _deepbench, _vidur, _nccl_tests, _plain_csv)
