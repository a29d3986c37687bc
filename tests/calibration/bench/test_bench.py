"""``ssdsim bench`` against a server that draws its rounds from a known law, over real sockets."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from calibration.bench.load import LoadPoint, shuffled
from site_generator.json_reference import undescribed
from ssdsim.readers.row import Row, read_rows, repeated
from ssdsim.tokens.pair_file import load_pair
from tests.calibration.bench.server import Law, Misdeeds, Server, serving
from tests.ssdsim.cli.in_process import asked

CONCURRENCIES, OUTPUT, REQUESTS, REPEATS = [1, 4], 32, 2, 2
CARD = ("--model", "llama-3.1-8b", "--hardware", "h100-sxm")
SIZE = ("--concurrency", "1,4", "--output-len", "32", "--requests", "2", "--repeats", "2", "--input-len", "40")
SPECULATES = Law(rates=(0.8, 0.7, 0.6), step_s=0.004)
PROBES = 2


def points() -> list[LoadPoint]:
    return shuffled(CONCURRENCIES, [40], [OUTPUT], REQUESTS, REPEATS, 0)


def benched(server: Server, path: Path, *options: str) -> list[Row]:
    answer = asked("bench", server.url, "-o", str(path), *SIZE, *CARD, *options)
    assert answer.returncode == 0, answer.stderr
    return read_rows(path)


def refused(url: str, path: Path, *options: str) -> str:
    """One line, and the exit code of a mistake."""
    answer = asked("bench", url, "-o", str(path), *SIZE, *CARD, "--quiet", *options)
    assert answer.returncode == 2
    assert answer.stdout == ""
    (line,) = answer.stderr.strip().splitlines()
    assert line.startswith("error: ")
    return line


def truth(server: Server) -> list[list[object]]:
    """The requests of each point, in the order in which they were measured."""
    warm = LoadPoint(max(CONCURRENCIES), 40, OUTPUT, 1, 1).answers
    truth, start = [], PROBES + warm
    for point in points():
        truth.append(server.requests[start : start + point.answers])
        start += point.answers
    assert start == len(server.requests)
    return truth  # type: ignore[return-value]


@pytest.mark.long
@pytest.mark.parametrize("found", [1.0, 0.4])
def test_rounds_positions_and_undrafted_steps_are_the_servers_own(tmp_path: Path, found: float) -> None:
    with serving(law=Law((0.8, 0.7, 0.6), found=found)) as server:
        rows = benched(server, tmp_path / "rows.csv", "--drafter", "ngram")
    assert [(row.batch, row.repeat) for row in rows] == [(point.concurrency, point.repeat) for point in points()]
    for row, requests in zip(rows, truth(server), strict=True):
        total = server.total(requests)
        assert row.rounds == total["drafts"]
        assert row.undrafted_rounds == total["steps"] - total["drafts"]
        assert row.drafted_per_round == 3.0
        assert row.accepted_by_position == pytest.approx([total[f"at {i}"] / total["drafts"] for i in range(3)])
        put_out = total["generated"] - len(requests)
        assert row.acceptance_length == pytest.approx(put_out / total["steps"])
        assert (row.k, row.engine, row.engine_version, row.model) == (3, "vllm", "0.99.0", "llama-3.1-8b")


@pytest.mark.long
def test_the_time_per_token_is_the_servers_own(tmp_path: Path) -> None:
    with serving(law=Law(step_s=0.006, per_sequence_s=0.001)) as server:
        rows = benched(server, tmp_path / "rows.csv")
    for setting in repeated(rows):
        own = [requests for row, requests in zip(rows, truth(server), strict=True) if row in setting.rows]
        full = [request for requests in own for request in requests if request.wanted == OUTPUT]
        assert len(full) == REPEATS * REQUESTS * setting.rows[0].batch
        clock = 1e3 * sum(request.tpot_s for request in full) / len(full)
        low, high = setting.bounds or (0.0, 0.0)
        assert low * 0.95 < clock < high * 1.05
        assert setting.mean == pytest.approx(clock, rel=0.1)
    assert all(row.k is None and row.acceptance_length is None for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["sglang", "llama.cpp", "tensorrt-llm"])
def test_other_engines_tell_their_rounds_in_their_own_ways(tmp_path: Path, engine: str) -> None:
    with serving(engine, SPECULATES) as server:
        rows = benched(server, tmp_path / "rows.csv", "--draft", "llama-3.2-1b", "--k", "3")
    for row, requests in zip(rows, truth(server), strict=True):
        total = server.total(requests)
        assert row.rounds == total["steps"]
        assert row.acceptance_length == pytest.approx((total["generated"] - len(requests)) / total["steps"])
        assert row.engine == engine
        assert row.tp == (2 if engine == "sglang" else 1)


@pytest.mark.long
def test_no_more_is_asked_for_than_was_said_and_never_more_at_once(tmp_path: Path) -> None:
    with serving(law=SPECULATES) as server:
        answer = asked("bench", server.url, "-o", str(tmp_path / "rows.csv"), *SIZE, *CARD, "--drafter", "ngram")
    said, *_ = answer.stderr.splitlines()
    assert f"requests for {server.total()['generated']:,} tokens" in said
    assert f"at most {len(server.requests)} requests" in said
    assert server.most == 4


def test_answers_end_one_after_the_other_and_measured_ones_see_the_whole_load() -> None:
    point = LoadPoint(concurrency=4, input_tokens=8, output_tokens=32, requests=3, repeat=1)
    streams = [list(point.lengths(stream)) for stream in range(4)]
    assert len({sum(length for length, _ in stream) for stream in streams}) == 1
    assert len({stream[0][0] for stream in streams}) == 4
    assert all([length for length, measured in stream if measured] == [32, 32, 32] for stream in streams)


def test_points_are_shuffled_and_repeats_interleaved() -> None:
    order = shuffled([1, 2, 4, 8], [64], [32], 1, 3, seed=0)
    assert [point.repeat for point in order] == [1] * 4 + [2] * 4 + [3] * 4
    assert len({tuple(point.concurrency for point in order[i : i + 4]) for i in (0, 4, 8)}) > 1


@pytest.mark.long
def test_a_pair_says_what_was_accepted(tmp_path: Path) -> None:
    with serving(law=Law((0.8, 0.7, 0.6), found=0.5)) as server:
        benched(server, tmp_path / "rows.csv", "--drafter", "ngram", "--pair", str(tmp_path / "pair.json"))
    total = server.total([request for requests in truth(server) for request in requests])
    pair = load_pair(tmp_path / "pair.json")
    (found,) = pair.by_temperature
    assert (found.length.rounds, found.length.undrafted) == (total["drafts"], total["steps"] - total["drafts"])
    assert found.survival == pytest.approx([total[f"at {i}"] / total["drafts"] for i in range(3)])
    assert (pair.target.id, found.temperature) == ("llama-3.1-8b", 0.0)


@pytest.mark.long
def test_what_is_measured_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with serving(law=SPECULATES) as server:
        whole = benched(server, path, "--drafter", "ngram")
        path.write_text("\n".join(path.read_text().splitlines()[:3]) + "\n")
        before = len(server.requests)
        again = benched(server, path, "--drafter", "ngram")
        assert again[:2] == whole[:2]
        assert [(row.batch, row.repeat) for row in again] == [(row.batch, row.repeat) for row in whole]
        left = sum(point.answers for point in points()[2:])
        assert len(server.requests) - before == PROBES + LoadPoint(4, 40, OUTPUT, 1, 1).answers + left
        before = len(server.requests)
        assert benched(server, path, "--drafter", "ngram") == again
        assert len(server.requests) == before
    with serving(law=Law(SPECULATES.rates[:2])) as other:
        answer = asked("bench", other.url, "-o", str(path), *SIZE, *CARD, "--drafter", "ngram")
        assert "rows of every point, at K 3. For a server of another K give --k" in " ".join(answer.stderr.split())
        both = benched(other, path, "--drafter", "ngram", "--k", "2")
        assert [row.k for row in both] == [3] * 4 + [2] * 4


@pytest.mark.long
def test_fit_and_validate_read_the_rows(tmp_path: Path) -> None:
    with serving(law=SPECULATES) as server:
        benched(server, tmp_path / "rows.csv", "--draft", "llama-3.2-1b")
    answer = asked("validate", "rows", str(tmp_path / "rows.csv"))
    assert answer.returncode == 0, answer.stderr
    fit = asked("fit", "runtime", str(tmp_path / "rows.csv"), "--fields", "per_step_s", "-o", str(tmp_path / "e.toml"))
    assert fit.returncode == 0, fit.stderr


# what goes wrong


def test_nothing_listens(tmp_path: Path) -> None:
    assert "no server answers" in refused("http://127.0.0.1:9", tmp_path / "rows.csv")
    assert "no address" in refused("ftp://x", tmp_path / "rows.csv")


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Misdeeds(cut_after=40), "ended an answer in the middle"),
        (Misdeeds(complain_after=40), "out of memory"),
        (Misdeeds(status=503), "answers 503: "),
        (Misdeeds(stops_early=True), "2 of the 4 tokens"),
        (Misdeeds(says_no_usage=True), "how many tokens a prompt and an answer have"),
        (Misdeeds(never_ends=True), "goes on after the 4 tokens that were asked for"),
        (Misdeeds(large_page=True), "has more than 67,108,864 bytes"),
        (Misdeeds(hang_after=40), "no token came in 0.5 s"),
        (Misdeeds(lists=["m"]), "lists no models at /v1/models"),
        (Misdeeds(lists={"data": 5}), "lists no models at /v1/models"),
    ],
)
def test_a_server_that_goes_wrong_is_one_line(tmp_path: Path, wrong: Misdeeds, said: str) -> None:
    patience = "0.5" if wrong.hang_after else "30"
    with serving(wrong=wrong) as server:
        assert said in refused(server.url, tmp_path / "rows.csv", "--timeout", patience)
    assert not (tmp_path / "rows.csv").exists()


def started(*options: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "tests.calibration.bench.server", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.long
def test_a_server_that_dies_leaves_what_was_measured(tmp_path: Path) -> None:
    process, url = started("--die-after", "700")
    try:
        line = refused(url, tmp_path / "rows.csv")
        assert "ended an answer in the middle" in line or "no server answers" in line
        kept = read_rows(tmp_path / "rows.csv")
        assert 0 < len(kept) < 4
    finally:
        process.kill()
        process.communicate()
    with serving() as server:
        assert benched(server, tmp_path / "rows.csv")[: len(kept)] == kept


@pytest.mark.long
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with serving(law=Law(step_s=0.05)) as server:
        command = [sys.executable, "-m", "ssdsim", "bench", server.url, "-o", str(path), *SIZE, *CARD]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60.0
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30.0)
        assert process.returncode == 130
        assert "has what is measured; run again to resume" in errors.strip().splitlines()[-1]
        assert "Traceback" not in errors
    assert 0 < len(read_rows(path)) < 4


# names and keys


def test_a_name_without_a_card_is_refused(tmp_path: Path) -> None:
    with serving() as server:
        answer = asked("bench", server.url, "-o", str(tmp_path / "rows.csv"), "--hardware", "h100-sxm")
        assert "no card is called 'm'; give one by --model" in answer.stderr
        answer = asked("bench", server.url, "-o", str(tmp_path / "rows.csv"), "--model", "llama-3.1-8b")
        assert "give its profile by --hardware" in answer.stderr
        assert server.requests == []
        assert "serves no 'x'" in refused(server.url, tmp_path / "rows.csv", "--served", "x")


@pytest.mark.long
def test_a_served_name_with_a_card_needs_none(tmp_path: Path) -> None:
    with serving(name="meta-llama/Llama-3.1-8B-Instruct") as server:
        size = [*SIZE, "--repeats", "1"]
        answer = asked("bench", server.url, "-o", str(tmp_path / "r.csv"), *size, "--hardware", "h100-sxm", "--json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert {each["model"] for each in document["settings"]} == {"llama-3.1-8b"}
    assert undescribed("bench", document) == []


@pytest.mark.long
def test_a_folder_that_a_server_loaded_is_told_by_the_card_that_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3.1-8B"
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    rows = tmp_path / "rows.csv"
    with serving(name=str(folder)) as server:
        size = [*SIZE, "--repeats", "1", "--hardware", "h100-sxm"]
        other = refused(server.url, rows, *size, "--model", "llama-3.2-1b")
        assert "whose hidden_size is 4096; --model says llama-3.2-1b: that has 2048" in other
        answer = asked("bench", server.url, "-o", str(rows), *size, "--model", "llama-3.1-8b")
    assert answer.returncode == 0, answer.stderr
    assert {row.model for row in read_rows(rows)} == {"llama-3.1-8b"}


@pytest.mark.long
def test_what_drafts_must_be_said_of_a_server_that_speculates_and_only_of_one(tmp_path: Path) -> None:
    with serving(law=SPECULATES) as server:
        assert "say what drafts" in refused(server.url, tmp_path / "rows.csv")
    with serving() as server:
        assert "counts no round of speculation" in refused(server.url, tmp_path / "rows.csv", "--drafter", "eagle3")


@pytest.mark.long
def test_the_key_comes_from_the_environment_and_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-very-secret"
    with serving(wrong=Misdeeds(key=key)) as server:
        assert "name the environment variable" in refused(server.url, tmp_path / "rows.csv")
        assert "none is called so" in (line := refused(server.url, tmp_path / "rows.csv", "--api-key", key))
        assert key not in line
        monkeypatch.setenv("MY_KEY", "sk-wrong-one")
        line = refused(server.url, tmp_path / "rows.csv", "--api-key", "MY_KEY")
        assert "refuses the key" in line
        assert "sk-wrong-one" not in line
        monkeypatch.setenv("MY_KEY", key)
        answer = asked("bench", server.url, "-o", str(tmp_path / "rows.csv"), *SIZE, *CARD, "--api-key", "MY_KEY")
        assert answer.returncode == 0
        assert server.keys == {"", "sk-wrong-one", key}
    assert key not in answer.stdout + answer.stderr + (tmp_path / "rows.csv").read_text()
    with serving(wrong=Misdeeds(status=429, key=key)) as server:
        line = refused(server.url, tmp_path / "others.csv", "--api-key", "MY_KEY")
        assert "429" in line
        assert key not in line


def test_a_password_in_the_address_is_not_shown(tmp_path: Path) -> None:
    with serving(wrong=Misdeeds(status=500)) as server:
        line = refused(server.url.replace("//", "//me:hidden@"), tmp_path / "rows.csv")
    assert "hidden" not in line
