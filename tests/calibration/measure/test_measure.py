"""``ssdsim measure`` on a pair of real models that was trained on the spot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration.pairs.records import RecordFolder
from site_generator.json_reference import undescribed
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.tokens.pair_file import Pair, load_pair
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked

pytestmark = pytest.mark.long

REQUESTS, TOKENS = 24, 48


def arguments(pair: Path, output: Path, *more: str) -> list[str]:
    sets = [f"--set={name}={pair / name}.jsonl" for name in ("prose", "code")]
    models = ["--target", str(pair / "target"), "--draft", str(pair / "draft")]
    size = ["--requests", str(REQUESTS), "--max-new-tokens", str(TOKENS), "--temperature", "0,1"]
    return ["measure", *models, *sets, *size, "-o", str(output), "--quiet", *more]


@pytest.fixture(scope="session")
def measured(trained_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """``pair.json`` with its records beside it, and what was printed."""
    output = tmp_path_factory.mktemp("measured") / "pair.json"
    done = asked(*arguments(trained_pair, output, "--check-loop", "4", "--lossless", "2", "--explain"))
    assert done.returncode == 0, done.stdout + done.stderr
    return output, done.stdout


def test_the_pair_says_what_was_measured(measured: tuple[Path, str]) -> None:
    pair = load_pair(measured[0])
    assert (pair.how, pair.requests, pair.temperatures) == ("teacher-forced", REQUESTS, (0.0, 1.0))
    assert pair.target.parameters is not None
    assert pair.draft.parameters is not None
    assert pair.target.parameters > pair.draft.parameters
    greedy, sampled = pair.by_temperature
    for at in (greedy, sampled):
        assert set(at.sets) == {"prose", "code"}
        assert at.alpha.mean is not None
        assert at.alpha.low is not None
        assert at.alpha.high is not None
        assert 0.0 < at.alpha.low < at.alpha.mean < at.alpha.high < 1.0
        assert set(at.hits.after_backup) == {"random", "ngram:3", "suffix"}
    assert sampled.overlap is not None
    assert sampled.alpha.mean is not None
    assert sampled.overlap == pytest.approx(sampled.alpha.mean, abs=0.05)
    rejected = sampled.hits.rejected
    assert rejected is not None
    assert rejected.fits is False  # 512 tokens are no vocabulary for a power law: the curve is used
    assert rejected.curve is not None


def test_real_loops_keep_the_targets_tokens(measured: tuple[Path, str]) -> None:
    lossless = load_pair(measured[0]).lossless
    assert lossless is not None
    assert lossless.greedy is not None
    assert lossless.sampling is not None
    # SD and SSD with four fallbacks, two requests each
    assert (lossless.greedy.requests, lossless.greedy.bugs) == (10, 0)
    assert lossless.greedy.identical == 10 - (lossless.greedy.near_ties or 0)
    assert lossless.sampling.passed


def test_the_screen_tells_it(measured: tuple[Path, str]) -> None:
    shown = measured[1]
    for words in ("temperature 0", "temperature 1", "a rejection", "Saguaro's C", "prose", "lossless", "a real loop"):
        assert words in shown


def test_records_are_analysed_again_without_torch(measured: tuple[Path, str], tmp_path: Path) -> None:
    """Other questions in a process that cannot import torch; the same ones have the same answers."""
    output, folder = tmp_path / "again.json", measured[0].with_suffix("")
    program = (
        "import sys\n"
        "class Refusing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'transformers', 'tokenizers'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refusing())\n"
        "from ssdsim.cli.main import main\n"
        "main()"
    )
    command = ["measure", "--resume", str(folder), "-o", str(output), "--quiet"]
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _numbers(load_pair(output)) == _numbers(load_pair(measured[0]))
    other = asked(
        "measure", "--resume", str(folder), "-o", str(output), "--k", "1:3", "--f", "1,2", "--c", "1", "--json"
    )
    assert other.returncode == 0, other.stderr
    answered = json.loads(other.stdout)
    assert undescribed("measure", answered) == []
    found = answered["by_temperature"][1]
    assert len(found["alpha_k"]) == found["length"]["k"] == 3
    assert [point[0] for point in found["hits"]["rejected"]["curve"]] == [1, 2]


def test_batches_of_each_set_and_of_the_mix_are_simulated_as_they_were_measured(measured: tuple[Path, str]) -> None:
    """P(all hit) by the exported concentration, with the hit rate that the batches had, within its interval."""
    told = []
    for at in load_pair(measured[0]).by_temperature:
        for name, findings in ((None, at), *at.sets.items()):
            batch = [each for each in findings.correlation.batch if (each.independent or 0.0) > 0.005][-1]
            assert batch.independent is not None
            assert batch.p_all_hit is not None
            assert batch.low is not None
            assert batch.high is not None
            options = {"pair": str(measured[0]), "pair_set": name, "temperature": at.temperature, "b": batch.b}
            shared = {"p_hit": batch.independent ** (1 / batch.b), "backup": "jit", "t_sd": 0.2}
            scenario = configure(**options, **shared).scenarios["ssd"]
            assert scenario.settings["hit_concentration"] == batch.concentration
            hit = simulate(scenario, solver="mc", rounds=20_000, seed=3).p_all_hit
            assert hit is not None
            told.append(
                f"{name or 'mix'}, temperature {at.temperature:g}, b {batch.b}: P(all hit) {batch.p_all_hit:.4f} "
                f"({batch.low:.4f} to {batch.high:.4f}), p^b {batch.independent:.4f}, simulated {hit.value:.4f}"
            )
            assert batch.low <= hit.high, told
            assert hit.low <= batch.high, told
    print(*told, sep="\n")
    assert len(told) == 6


@pytest.mark.slow
def test_the_coupling_says_what_two_thousand_rounds_of_real_models_do(trained_pair: Path, tmp_path: Path) -> None:
    size = ["--requests", "64", "--max-new-tokens", "64", "--temperature", "0.7,1", "--batch", "64", "--k", "1:5"]
    done = asked(*arguments(trained_pair, tmp_path / "pair.json"), *size, "--check-loop", "64", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    loop = json.loads(done.stdout)["loop"]
    for each in loop:
        errors = abs(each["coupling"] - each["loop"]) / each["error"]
        print(
            f"{each['what']} at {each['temperature']:g}: {each['coupling']:.4f} by the coupling, "
            f"{each['loop']:.4f} by the loop, {errors:.2f} errors"
        )
        assert errors < 3.0


def _numbers(pair: Pair) -> Any:
    return {key: value for key, value in pair.as_dict().items() if key != "provenance"}


def test_a_killed_measurement_goes_on(measured: tuple[Path, str], trained_pair: Path, tmp_path: Path) -> None:
    """Killed after its first answers; what it then collects is what it would have without."""
    output = tmp_path / "pair.json"
    command = [sys.executable, "-m", "ssdsim", *arguments(trained_pair, output, "--batch", "4")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        while not list(tmp_path.glob("pair/t*/*.parquet")) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("pair/t*/*.parquet")}
    assert 0 < len(before) < 2 * REQUESTS
    done = asked(*arguments(trained_pair, output, "--batch", "4"))
    assert done.returncode == 0, done.stderr
    assert all(file.stat().st_mtime_ns == time_ns for file, time_ns in before.items())
    mine, theirs = (RecordFolder(of.with_suffix("")) for of in (output, measured[0]))
    for ours, other in zip(mine.requests(), theirs.requests(), strict=True):
        assert ours.id == other.id
        # batches of another size add in another order, which may part an answer at a near tie
        shared = min(len(ours), len(other))
        same = ours.positions.token[:shared] == other.positions.token[:shared]
        upto = shared if same.all() else int(same.argmin())
        np.testing.assert_allclose(ours.positions.p[:upto], other.positions.p[:upto], atol=1e-4)


def test_given_answers_are_not_written_again(measured: tuple[Path, str], trained_pair: Path, tmp_path: Path) -> None:
    """By their token ids, as a production log has them; without tokens in the records."""
    lines = [
        json.dumps({"prompt_ids": request.prompt, "output_ids": request.positions.token.tolist()})
        for request in RecordFolder(measured[0].with_suffix("")).requests()
        if request.temperature == 1.0
    ]
    answers, output = tmp_path / "answers.jsonl", tmp_path / "given.json"
    answers.write_text("\n".join(lines))
    models = ["--target", str(trained_pair / "target"), "--draft", str(trained_pair / "draft")]
    command = ["measure", *models, "--answers", str(answers), "-o", str(output), "--quiet"]
    assert "say with --temperature" in asked(*command).stderr
    done = asked(*command, "--temperature", "1", "--no-tokens")
    assert done.returncode == 0, done.stderr
    given, own = load_pair(output).by_temperature[0], load_pair(measured[0]).by_temperature[1]
    assert given.alpha.mean == pytest.approx(own.alpha.mean, abs=1e-5)
    assert set(given.backups) == {"random"}
    assert all(not request.has_tokens for request in RecordFolder(output.with_suffix("")).requests())

    rng = np.random.default_rng(0)
    foreign = [json.dumps({"prompt_ids": [5, 6], "output_ids": rng.integers(1, 512, 60).tolist()}) for _ in range(6)]
    answers.write_text("\n".join(foreign))
    for temperature, words in (("1", "mean log p is"), ("0", "of the tokens are its likeliest")):
        wrong = asked(*command[:-3], "-o", str(tmp_path / f"foreign{temperature}.json"), "--temperature", temperature)
        assert wrong.returncode == 2
        assert "did not write these answers" in wrong.stderr
        assert words in wrong.stderr


def test_what_the_samplers_leave_is_measured(trained_pair: Path, tmp_path: Path) -> None:
    """With top-p on both sides, and on the target's alone: a draft that samples from everything is accepted less."""
    size = ["--temperature", "1", "--requests", "6", "--max-new-tokens", "40", "--k", "1:4"]
    base, found = [*size, "--top-p", "0.8", "--top-k", "100"], {}
    for sampling, check in (("same", ["--check-loop", "3"]), ("raw", ["--lossless", "1"])):
        output = tmp_path / f"{sampling}.json"
        done = asked(*arguments(trained_pair, output), *base, "--draft-sampling", sampling, *check)
        assert done.returncode == 0, done.stdout + done.stderr
        found[sampling] = load_pair(output)
        settings = found[sampling].settings
        assert (settings.top_p, settings.top_k, settings.draft_sampling) == (0.8, 100, sampling)
        for request in RecordFolder(output.with_suffix("")).requests():
            assert float(request.positions.p.min()) > 0.0  # nothing came that was left out
            assert (request.positions.q == 0.0).any() == (sampling == "same")
    same, raw = (found[sampling].by_temperature[0].alpha.mean for sampling in ("same", "raw"))
    assert same is not None
    assert raw is not None
    assert raw < same
    other = asked(*arguments(trained_pair, tmp_path / "same.json"), *base, "--draft-sampling", "raw")
    assert "measured with another settings" in other.stderr


def test_precision_and_time_end_it_early(trained_pair: Path, tmp_path: Path) -> None:
    short = ["--temperature", "1", "--batch", "12", "--precision", "0.5", "--k", "1:4"]
    done = asked(*arguments(trained_pair, tmp_path / "rough.json"), *short)
    assert done.returncode == 0, done.stderr
    assert load_pair(tmp_path / "rough.json").requests == 12
    again = asked(
        *arguments(trained_pair, tmp_path / "brief.json"), *short[:4], "--limit-minutes", "0.0001", "--k", "1:4"
    )
    assert again.returncode == 0, again.stderr
    assert load_pair(tmp_path / "brief.json").requests == 12


def test_what_cannot_be_measured_is_told(trained_pair: Path, tmp_path: Path) -> None:
    target, draft = str(trained_pair / "target"), str(trained_pair / "draft")
    prompts = tmp_path / "asked.jsonl"
    prompts.write_text('{"text": "def f(x):"}')
    other = tmp_path / "other"
    other.mkdir()
    for file in (trained_pair / "draft").iterdir():
        text = file.read_bytes()
        if file.name == "tokenizer.json":
            vocabulary = json.loads(text)
            words = vocabulary["model"]["vocab"]
            first, second = (next(word for word, i in words.items() if i == id_) for id_ in (100, 101))
            words[first], words[second] = 101, 100
            text = json.dumps(vocabulary).encode()
        (other / file.name).write_bytes(text)
    windowed = tmp_path / "windowed"
    windowed.mkdir()
    for file in (trained_pair / "draft").iterdir():
        config = json.loads(file.read_text()) if file.name == "config.json" else None
        if config is not None:
            config["sliding_window"] = 32
        (windowed / file.name).write_bytes(file.read_bytes() if config is None else json.dumps(config).encode())
    base = ["--prompts", str(prompts), "-o", str(tmp_path / "pair.json")]
    cases = [
        (["--target", target, *base], "--target, --draft"),
        (["--target", target, "--draft", draft, "-o", str(tmp_path / "p.json")], "nothing to ask"),
        (["--target", target, "--draft", str(tmp_path / "none"), *base], "no such folder"),
        (["--target", target, "--draft", str(tmp_path), *base], "config.json"),
        (["--target", target, "--draft", str(tmp_path / "x.gguf"), *base], "no such file"),
        (["--target", target, "--draft", "nobody/has-this", *base], "not a model that transformers can load"),
        (["--target", target, "--draft", str(other), *base], "another vocabulary than"),
        (["--target", target, "--draft", str(windowed), *base], "sliding_window"),
        (["--target", target, "--draft", draft, *base, "--max-new-tokens", "2000"], "1024"),
        (["--target", target, "--draft", draft, *base, "--set", "code"], "--set, NAME=FILE"),
        (["--target", target, "--draft", draft, *base, "--backup", "ngrams"], "backup, ngrams"),
        (["--resume", str(tmp_path)], "no measurement there"),
        (["--resume", str(tmp_path), "--target", target], "--target"),
        (["--resume", str(tmp_path), "--top-p", "0.9"], "--top-p"),
    ]
    for command, names in cases:
        assert_refused(asked("measure", *command, "--quiet"), *names.split(", "))
