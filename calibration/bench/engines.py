"""The engines' own commands that start a server, with or without drafts of which a forced share is accepted.

Forced acceptance parts speed from tokens: drafting and verification run in full, and what is accepted is drawn. Each
engine has a law of its own for the same mean (vLLM: by position, as it is forced; SGLang, TensorRT-LLM: the mean's two
neighbours), which changes the time of no round.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ssdsim.advise.export import sglang, vllm
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, field

_FP8 = ("float8", "fp8")
_ENDS_S = 30.0
_LAST = 160  # characters of what a server said last


class Setting(Record):
    """Setting of a server, with names that the engine loads; ``k`` is None without speculation.

    ``rate``: forced probability that a drafted token is accepted after those before it; None leaves it to the models.
    """

    model: str
    tp: int = 1
    draft: str | None = None
    drafter: str | None = None
    k: int | None = None
    rate: float | None = None
    kv_dtype: str | None = None
    most: int = 256

    @property
    def survival(self) -> list[float]:
        """P(at least n tokens are accepted), n from 1 to K."""
        return [round((self.rate or 0.0) ** place, 6) for place in range(1, (self.k or 0) + 1)]

    @property
    def tokens(self) -> float:
        """Tokens that a round yields on average, with its bonus."""
        return round(1.0 + sum(self.survival), 4)


class Start(Record):
    """A command with its environment variables, and the files that it reads, by name."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


class EngineCommands(Record):
    """An engine: ``starts`` makes a setting's command at a port; ``forces``: acceptance can be forced."""

    drafters: Sequence[str]
    starts: Callable[[Setting, int], Start]
    forces: bool = True


def _where(port: int) -> tuple[str, ...]:
    """The words of every engine for who may ask: this machine alone, since nobody needs a key."""
    return "--host", "127.0.0.1", "--port", str(port)


def _vllm(setting: Setting, port: int) -> Start:
    words = ["vllm", "serve", setting.model, *_where(port), "--tensor-parallel-size", str(setting.tp)]
    if setting.kv_dtype in _FP8:
        words += ["--kv-cache-dtype", "fp8"]
    if setting.k is not None:
        method = vllm.METHODS[setting.drafter or "model"]
        made = vllm.speculative_config(method, setting.draft, setting.k, setting.tp)
        if setting.rate is not None:
            made |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": setting.survival}
        words += ["--speculative-config", json.dumps(made)]
    return Start(words)


def _sglang(setting: Setting, port: int) -> Start:
    words = ["python", "-m", "sglang.launch_server", "--model-path", setting.model, *_where(port)]
    words += ["--tp-size", str(setting.tp), "--enable-metrics"]
    if setting.kv_dtype in _FP8:
        words += ["--kv-cache-dtype", "fp8_e4m3"]
    if setting.k is None:
        return Start(words)
    drafter = setting.drafter or "model"
    draft = setting.draft if sglang.names_model(drafter) else None
    words += sglang.speculative_flags(drafter, draft, setting.k, 1, setting.k)
    forced = {
        "SGLANG_SIMULATE_ACC_LEN": f"{setting.tokens:g}",
        "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
        "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
    }
    return Start(words, forced if setting.rate is not None else {})


_TENSORRT = {"model": "Draft_Target", "eagle3": "Eagle3", "mtp": "MTP", "ngram": "NGram"}


def _tensorrt(setting: Setting, port: int) -> Start:
    name = "trtllm-ar.yaml" if setting.k is None else f"trtllm-k{setting.k}.yaml"
    lines = ["enable_iter_perf_stats: true", f"max_batch_size: {setting.most}"]
    if setting.kv_dtype in _FP8:
        lines += ["kv_cache_config:", "  dtype: fp8"]
    if setting.k is not None:
        drafter = setting.drafter or "model"
        lines += ["speculative_config:", f"  decoding_type: {_TENSORRT[drafter]}", f"  max_draft_len: {setting.k}"]
        lines += [f"  speculative_model: {setting.draft}"] if drafter in ("model", "eagle3") else []
    words = ["trtllm-serve", setting.model, *_where(port), "--tp_size", str(setting.tp)]
    words += ["--extra_llm_api_options", name]
    forces = setting.rate is not None and setting.k is not None
    forced = {"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS": f"{setting.tokens - 1.0:g}"} if forces else {}
    return Start(words, forced, {name: "\n".join(lines) + "\n"})


def _llama_cpp(setting: Setting, port: int) -> Start:
    words = ["llama-server", "-m", setting.model, *_where(port), "--parallel", str(setting.most), "--metrics"]
    if setting.k is None:
        return Start(words)
    if setting.drafter in (None, "model"):
        words += ["--spec-type", "draft-simple", "--spec-draft-model", str(setting.draft), "--spec-draft-p-min", "0"]
        return Start([*words, "--spec-draft-n-max", str(setting.k)])
    return Start([*words, "--spec-type", "ngram-simple", "--spec-draft-n-max", str(setting.k)])


ENGINES: Mapping[str, EngineCommands] = {
    "vllm": EngineCommands(tuple(vllm.METHODS), _vllm),
    "sglang": EngineCommands(tuple(sglang.ALGORITHMS), _sglang),
    "tensorrt-llm": EngineCommands(tuple(_TENSORRT), _tensorrt),
    "llama.cpp": EngineCommands(("model", "ngram"), _llama_cpp, forces=False),
}


def start_of(engine: str, setting: Setting, port: int) -> Start:
    """The command that starts a server."""
    known = ENGINES[engine]
    drafter = setting.drafter or "model"
    if setting.k is not None and drafter not in known.drafters:
        raise InputError(f"{engine} knows no drafter '{drafter}'; allowed: {', '.join(known.drafters)}")
    return known.starts(setting, port)


@contextmanager
def launched(start: Start, log: Path) -> Iterator[Callable[[], None]]:
    """Run a server in the folder of ``log``. Yields a check that raises if the server has ended; always ends it."""
    for name, text in start.files.items():
        (log.parent / name).write_text(text, encoding="utf-8")
    with log.open("wb") as said:
        try:
            process = subprocess.Popen(
                start.command,
                env={**os.environ, **start.environment},
                cwd=log.parent,
                stdout=said,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # so that its workers end with it, and Ctrl-C is ours to pass on
            )
        except OSError as error:
            raise InputError(f"cannot start {start.command[0]}: {error.strerror}") from None
        try:
            yield lambda: _check(process, log)
        finally:
            _end(process)


def _check(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        last = f": {lines[-1][:_LAST]}" if lines else ""
        raise InputError(f"the server ended with code {process.returncode}{last} ({log})")


def _end(process: subprocess.Popen[bytes]) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_S)
            return
