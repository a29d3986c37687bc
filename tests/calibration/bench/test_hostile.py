"""Whatever a server sends, ``ssdsim bench`` ends in one line, soon, and keeps little of it in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from calibration.bench.load import LoadPoint, closed_loop
from calibration.bench.server import OpenAI, SGLang, StreamTotals, TimedAnswer
from ssdsim.hardware.catalog import find_transformer, transformer_called
from ssdsim.readers.agreement import model_of
from ssdsim.runs.layout import locked
from tests.calibration.bench.hostile import Parts, again_and_again, events, head, hostile, page, unpacks
from tests.calibration.bench.server import serving
from tests.refusals import assert_refused, refused
from tests.ssdsim.cli.in_process import asked

EVENTS = head(kind="text/event-stream")
TEXT = {"choices": [{"text": "a"}]}
TOKEN = b'data: {"choices": [{"text": "a"}]}\n\n'
COUNTS = {"choices": [], "usage": {"completion_tokens": 4, "prompt_tokens": 20}}
NO_CODEC = ("hex", "idna", "rot13", "undefined", "unicode_escape")


def benched(url: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    size = ("--concurrency", "1", "--output-len", "8", "--requests", "1", "--repeats", "1", "--input-len", "20")
    where = ("-o", str(folder / "rows.csv"), "--hardware", "h100-sxm", "--quiet")
    return asked("bench", url, *size, *where, *(options or ("--timeout", "30")))


@pytest.mark.parametrize(
    ("where", "sends", "said"),
    [
        ("models", lambda: again_and_again(b" ", head(), pause_s=0.1), "no page came in 1 s (--timeout)"),
        (
            "models",
            lambda: again_and_again(b"X-A: b\r\n", b"HTTP/1.1 200 OK\r\n", pause_s=0.1),
            "no page came in 1 s (--timeout)",
        ),
        (
            "models",
            lambda: again_and_again(b"HTTP/1.1 100 Continue\r\n\r\n", pause_s=0.01),
            "no page came in 1 s (--timeout)",
        ),
        (
            "metrics",
            lambda: again_and_again(b"#\n", head(kind="text/plain"), pause_s=0.1),
            "no page came in 1 s (--timeout)",
        ),
        ("completions", lambda: again_and_again(b"a" * 2**16, head("500 X", "text/plain")), "answers 500: aaaa"),
        ("completions", unpacks, "answers 500: "),
        ("completions", lambda: again_and_again(b"a", head("500 X"), pause_s=0.1), "no token came in 1 s (--timeout)"),
        (
            "completions",
            lambda: again_and_again(b": ping\n\n", EVENTS, TOKEN, pause_s=0.01),
            "no token came in 1 s (--timeout)",
        ),
        ("completions", lambda: again_and_again(b"data: [DONE]\n\n", EVENTS, TOKEN), "goes on after the 4 tokens"),
        ("completions", lambda: again_and_again(b"a" * 2**16, EVENTS, b"data: "), "ended an answer in the middle"),
        ("completions", lambda: page({"choices": []}), "ended an answer in the middle"),
    ],
)
def test_what_never_comes_to_an_end_is_one_line(
    where: str, sends: Callable[[], Parts], said: str, tmp_path: Path
) -> None:
    answers = {"completions": lambda: events(TEXT, COUNTS, "[DONE]")} | {where: sends}
    with hostile(**answers) as server:
        done = benched(server.url, tmp_path, "--timeout", "1" if "--timeout" in said else "30")
    assert_refused(done)
    assert said in done.stderr
    assert server.sent < 16 * 2**20
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.parametrize("codec", NO_CODEC)
def test_a_server_chooses_no_codec(codec: str, tmp_path: Path) -> None:
    """JSON and events are UTF-8, and Python's codecs are many."""
    models = {"data": [{"id": "llama-3.1-8b", "owned_by": "vllm"}]}
    charset = f"; charset={codec}"
    with hostile(
        models=lambda: page(models, kind=f"application/json{charset}"),
        completions=lambda: events(TEXT, "[DONE]", kind=f"text/event-stream{charset}"),
    ) as server:
        done = benched(server.url, tmp_path)
    assert_refused(done)
    assert "how many tokens" in done.stderr  # which it came to
    with hostile(completions=lambda: page("no", "500 X", f"text/plain{charset}")) as server:
        assert "answers 500: no" in benched(server.url, tmp_path).stderr


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ({"id": {"a": 1}, "owned_by": "vllm"}, "id"),
        ({"id": 10**400}, "id"),
        ({"id": "a\x1b]0;pwned\x07"}, "id"),
        ({"id": "a" * 501}, "id"),
        ({"id": "a", "owned_by": "b\nerror: another"}, "owned_by"),
        ({"id": "a", "root": ["/dev/zero"]}, "root"),
    ],
)
def test_what_a_server_lists_is_checked(listed: Any, said: str, tmp_path: Path) -> None:
    with hostile(models=lambda: page({"data": [listed]})) as server:
        assert_refused(benched(server.url, tmp_path), said)


def test_of_many_models_a_few_are_named(tmp_path: Path) -> None:
    with hostile(models=lambda: page({"data": [{"id": f"model-{i}"} for i in range(3000)]})) as server:
        done = benched(server.url, tmp_path)
    assert_refused(done, "model-0", "model-19", "(2980 more)")


NUMBERS: list[Any] = [-1, 10**16, 10**400, True, "5", [5], {"a": 1}, 1.5, float("nan"), float("inf")]


@pytest.mark.parametrize("wrong", NUMBERS, ids=lambda value: str(value)[:10])
@pytest.mark.parametrize("name", ["completion_tokens", "prompt_tokens", "cached_tokens"])
def test_counts_of_an_answer_are_checked(name: str, wrong: Any) -> None:
    own = {"completion_tokens": 1, "prompt_tokens": 2, name: wrong}
    usage = {**own, "prompt_tokens_details": {"cached_tokens": own.get("cached_tokens")}}
    with refused("/generate", name):
        SGLang().read({"meta_info": own}, StreamTotals(), "/generate")
    with refused("/v1", name):
        OpenAI().read({"choices": [], "usage": usage}, StreamTotals(), "/v1")


def test_a_prompt_of_no_token_is_none(tmp_path: Path) -> None:
    usage = {"choices": [], "usage": {"completion_tokens": 4, "prompt_tokens": 0}}
    with hostile(completions=lambda: events(TEXT, usage, "[DONE]")) as server:
        assert "how many tokens a prompt" in benched(server.url, tmp_path).stderr


@pytest.mark.parametrize("port", ["99999", "-1", "0"])
def test_a_port_that_is_none(port: str, tmp_path: Path) -> None:
    assert_refused(benched(f"http://127.0.0.1:{port}", tmp_path))


@pytest.mark.parametrize("key", ["sécret", "secret\n", "two words"])
def test_a_key_that_no_request_carries(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    done = benched("http://127.0.0.1:9", tmp_path, "--api-key", "MY_KEY")
    assert_refused(done, "key")
    assert key.strip() not in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTP_PROXY", "http://127.0.0.1:9"),
        ("ALL_PROXY", "socks5://127.0.0.1:9"),
        ("HTTP_PROXY", "odd://127.0.0.1:9"),
        ("SSL_CERT_FILE", "/no/such/file"),
    ],
)
def test_nothing_goes_by_the_environments_proxy(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (name, name.lower()):
        monkeypatch.setenv(each, value)
    with hostile(completions=lambda: page("mine", "500 X", "text/plain")) as server:
        assert "answers 500: mine" in benched(server.url, tmp_path).stderr


def test_two_at_one_file_are_locked_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with serving() as server, locked(tmp_path / ".rows.csv.lock", path, "bench"):
        assert_refused(benched(server.url, tmp_path, "--timeout", "30"), "bench", "rows.csv")
        assert server.requests == []


def test_what_is_refused_leaves_no_lock(tmp_path: Path) -> None:
    with hostile(models=partial(page, {"data": []})) as server:
        assert_refused(benched(server.url, tmp_path))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--input-len", "1000000000"),
        ("--output-len", "1000000000"),
        ("--concurrency", "1000000000"),
        ("--concurrency", "1000000"),
        ("--requests", "1000000000000"),
        ("--repeats", "1000000000000"),
    ],
)
def test_a_load_that_nobody_could_send_is_one_line(option: str, value: str, tmp_path: Path) -> None:
    """A prompt of 10^9 words was made, or as many points, until memory ran out."""
    assert_refused(benched("http://127.0.0.1:9", tmp_path, "--requests", "100", option, value), option)


async def _no_memory(prompt: int, tokens: int, measured: bool) -> TimedAnswer:
    raise MemoryError


def test_a_mistake_of_a_stream_is_one_and_no_group() -> None:
    import asyncio

    with pytest.raises(MemoryError):
        asyncio.run(closed_loop(LoadPoint(2, 8, 8, 1, 1), _no_memory))


def test_what_a_server_loaded_is_no_file_here(tmp_path: Path) -> None:
    """A profile of a pipe would be waited for without end, a config would be read."""
    os.mkfifo(tmp_path / "config.json")
    for root in (str(tmp_path), str(tmp_path / "config.json"), "/dev/zero"):
        models = {"data": [{"id": "llama-3.1-8b", "owned_by": "vllm", "root": root}]}
        with hostile(models=partial(page, models), completions=lambda: page("on", "500 X")) as server:
            assert "answers 500: on" in benched(server.url, tmp_path, "--timeout", "30").stderr


def test_a_source_names_cards_by_their_names_alone(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert transformer_called(str(folder)) is None
    assert transformer_called("") is None
    assert transformer_called("meta-llama/Llama-3.1-8B-Instruct") == find_transformer("llama-3.1-8b")
    with refused("--model"):
        model_of(str(folder), {}, "log")
    assert model_of("/models/Llama-3.1-8B", {}, "log") == "llama-3.1-8b"
