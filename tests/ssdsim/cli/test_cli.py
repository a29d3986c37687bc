"""The command line as a person or a script meets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ssdsim.base.errors import InputError
from ssdsim.cli.main import cli
from ssdsim.hardware.catalog import transformer_names
from tests.refusals import assert_names, assert_refused
from tests.ssdsim.cli.in_process import asked

GOLDEN = Path(__file__).parent / "golden"


def answer(*arguments: str) -> Any:
    done = asked(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.txt")))
def test_output_is_the_golden_one(name: str) -> None:
    """Update with ``python tests/ssdsim/cli/golden/update.py`` after looking at the difference."""
    command, expected = (GOLDEN / f"{name}.txt").read_text().split("\n", 1)
    arguments = command.removeprefix("$ ssdsim").split()
    done = (process if "--help" in arguments else asked)(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same by a process of its own, which knows what it is called."""
    command = [sys.executable, "-m", "ssdsim", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_first_prediction_of_the_readme() -> None:
    result = answer("predict", "--b", "16", "--p-hit", "0.85")
    assert set(result["strategies"]) == {"ar", "sd", "ssd"}
    for strategy in result["strategies"].values():
        assert strategy["low"] < strategy["tokens_per_second"] < strategy["high"]
    assert result["scenario"]["b"] == {"value": 16, "source": "given"}
    assert result["scenario"]["hardware"] == {"value": "h100-sxm", "source": "default"}
    assert result["provenance"][0]["summary"].startswith("imported from")
    assert result["verdict"]["sentence"]


def test_the_measured_engines_are_reproduced() -> None:
    """The two AR speeds that the fixed costs were fitted to: 54.7 and 88.8 tokens/s (SSD paper, table B.3)."""
    llama = answer("predict", "--b", "1", "--p-hit", "0.8", "--context", "512")
    assert llama["strategies"]["ar"]["tokens_per_second"] == pytest.approx(54.7, rel=1e-3)
    qwen = answer(*"predict --target qwen3-32b --draft qwen3-0.6b --b 1 --p-hit 0.8 --context 512".split())
    assert qwen["strategies"]["ar"]["tokens_per_second"] == pytest.approx(88.8, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("predict --target lama-3.1-70b", "lama-3.1-70b, llama-3.1-70b"),
        ("predict --hardware h100-sxn", "h100-sxn, h100-sxm"),
        ("predict --hardware absent.json", "absent.json"),
        ("predict --alpha 1.2", "--alpha, got 1.2"),
        ("predict --alpha 0.9,x", "--alpha, 0.9,x"),
        ("predict --tp 3", "tp 3, llama-3.1-70b"),
        ("predict --t-sd 0.2 --p-hit 0.5 --f 3", "--f, --p-hit, --t-sd"),
        ("predict --t-sd 0.2 --context 10", "--context, --t-sd"),
        ("predict --contxt 10", "--contxt"),
        ("predict --backup jti", "jti, jit"),
        ("predict --dtype float32", "float32 gemm, bfloat16"),
        ("predict --draft-hardware v100-sxm2-32gb", "--dtype float16"),
        ("validate paper kumar2026 --rounds 12", "--rounds"),
        ("predict --strategy ssd --hardware v100-sxm2-32gb --dtype float16 --tp 8", "at most tp 4 is there"),
        (
            "predict --strategies sd,sdd",
            "--strategies, sdd, sd",
        ),
        ("predict --strategies ar,sd --subject ssd", "--subject ssd, --strategies ar,sd"),
        ("simulate --tp 8 --trace t.json", "no timeline: SSD, 8 target, 1 draft"),
        ("predict --tp 1", "llama-3.1-70b, tp 1"),
        ("predict --b 4096 --context 8192", "the largest batch that fits is"),
        ("predict --t-sd 0.2 --spread 0.1 --solver closed", "--solver, --spread"),
        ("predict --f window --t-sd 0.2", "--f window"),
        ("predict --k 6 --fl 3,2,1", "7 numbers, got 3"),
        ("predict --hit-curve 1:0.5,2:0.4", "rates"),
        ("predict --acceptance absent.csv", "absent.csv"),
        ("predict --output-tokens 100", "--output-tokens, --acceptance, --alpha-concentration"),
        ("predct", "unknown verb 'predct'; did you mean 'predict'?"),
        ("models show gpt-5", "gpt-5"),
        ("simulate --t-sd 0.2 --solver mc --trace t.json", "--trace, --tokens, --solver des"),
        ("simulate --t-sd 0.2 --tokens 10 --rounds 5", "--rounds, --tokens"),
        ("simulate --t-sd 0.2 --precision 2", "--precision"),
        ("import aiconfigurator absent -o x.json", "absent"),
        ("plan --rate 1 --seconds inf", "--seconds"),
        ("measure --resume . ", "no measurement there"),
        ("simulate --spread 8", "--spread, got 8.0"),
        ("simulate --spread 2 --rounds 3", "3 rounds, AR"),
        ("import aiconfigurator absent --ar llama -o x.json", "CARD:TP:TOKENS_PER_S"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(arguments: str, names: str) -> None:
    assert_refused(asked(*arguments.split()), *names.split(", "))


@pytest.mark.parametrize(("p_hit", "said"), [("0", "one with a miss 1.200"), ("1", "all hit takes 1.000")])
def test_rounds_that_never_came_take_no_time_that_is_not_a_number(p_hit: str, said: str) -> None:
    done = asked("simulate", "--t-sd", "0.2", "--p-hit", p_hit, "--rounds", "200")
    assert said in done.stdout
    assert "nan" not in done.stdout


def test_the_interval_of_a_probability_is_one_of_probabilities() -> None:
    options = ["--t-sd", "0.2", "--alpha-backup", "0.9", "--f", "8", "--rounds", "50"]
    p_hit = answer("simulate", *options)["strategies"]["ssd"]["p_hit"]
    assert 0.0 <= p_hit["low"] <= p_hit["mean"] <= p_hit["high"] <= 1.0  # by batch means alone it was 1.008


def test_an_interval_of_one_round_is_unknown() -> None:
    done = asked("simulate", "--t-sd", "0.2", "--rounds", "1")
    assert "unknown" in done.stdout
    assert "inf" not in done.stdout


@pytest.mark.parametrize("verb", ["predict", "simulate --rounds 100"])
def test_a_strategy_without_room_is_told_of_beside_the_others(verb: str) -> None:
    arguments = f"{verb} --tp 8 --p-hit 0.8".split()
    shown = answer(*arguments)
    assert list(shown["strategies"]) == ["ar", "sd"]
    assert list(shown["no_room"]) == ["ssd"]
    why = shown["no_room"]["ssd"]
    assert_names(why, ("SSD", "8 target", "1 draft", "h100-sxm has 8", "tp 4"))
    done = asked(*arguments)
    assert done.returncode == 0, done.stderr
    assert why in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("predict", "-b 2 --strategies ar,sd,amusd"),
        ("predict", "--strategies ar,sd,pearl --pp 2 --tp 2"),
        ("predict", "--strategies ar,sd --acceptance-floor 0.4 --sd-draft separate"),
        ("plan", "--strategies ar,sd --acceptance-floor 0.4 --sd-draft separate --rate 1 --requests 50"),
        ("recommend", "--gpus 2 -b 8 --k 3 --tp 1 --pp 2 --strategies sd --draft-p-min 0.5 --model llama-3.1-8b"),
    ],
)
def test_what_nobody_described_is_no_lack_of_room(verb: str, more: str) -> None:
    """It was shown as "No room", and stood among what has none."""
    arguments = (verb, *more.split(), "--alpha", "0.8")
    screen = " ".join(asked(*arguments, "--quiet").stdout.split())
    assert re.search(" cannot run so: |Cannot run ", screen)
    assert "No room" not in screen
    if verb != "recommend":
        told = answer(*arguments)
        assert told["no_room"] == {}
        (why,) = told["cannot_run"].values()
        assert why in screen


@pytest.mark.parametrize(
    "arguments",
    [
        "simulate --t-sd 0.2 --trace",
        "export --b 1 --k 2 --f 2 -o",
        "calibrate --device cpu -o",
        "report . -o",
        "validate run --trace",
        "validate run -o",
        "hardware scale h100-sxm --clock 2 -o",
        "import csv pyproject.toml -o",
    ],
)
def test_an_output_without_its_folder_is_refused_before_any_work(arguments: str) -> None:
    path = "absent/made.jsonl"
    with pytest.raises((click.ClickException, InputError)) as refused:
        CliRunner().invoke(cli, [*arguments.split(), path], standalone_mode=False, catch_exceptions=False)
    error = refused.value
    message = error.format_message() if isinstance(error, click.ClickException) else str(error)
    assert f"'{path}' cannot be written: there is no folder absent" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "arguments",
    [
        ["hardware", "scale", "h100-sxm", "--clock", "2", "-o", "\udcff"],
        ["sweep", "--t-sd", "0.2", "--k", "2,3", "-o", "run", "--drafter", "\udcff"],
    ],
)
def test_what_is_no_text_is_refused(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell hands on any bytes; what is written carries its file's name, and a sweep's folder its options."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((click.BadParameter, InputError), match="no text in UTF-8"):
        CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)


@pytest.mark.long
def test_warnings_of_a_kind_are_one_line_with_their_number() -> None:
    command = "recommend --gpus 2 --k 4 --tp 1,3 --draft-gpus 1 --target llama-3.1-8b --hardware v100-sxm2-32gb"
    arguments = [*command.split(), "--dtype", "float16"]
    first = CliRunner().invoke(cli, arguments).stderr
    assert first.count("warning: ") == 1, "what a user asked for and does not get"
    shown = " ".join(CliRunner().invoke(cli, [*arguments, "--explain"]).stderr.split()).split("warning: ")[1:]
    every = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)["warnings"]
    assert shown[0].startswith("--tp 3 cannot be used")
    assert len(shown) < 8 < len(every)
    alike = [re.search(r"and (\d+) more of this kind", line) for line in shown]
    extrapolated = sum(" is extrapolated: " in line for line in every)
    beyond = sum("is extrapolated beyond measured shapes" in line for line in shown)
    assert len(shown) - beyond + sum(int(each[1]) for each in alike if each) == len(every) - extrapolated


def test_a_warning_says_how_much_is_beyond_what_was_timed_and_verbose_names_it() -> None:
    arguments = ["predict", "-b", "64", "--engine", "vllm", "--strategies", "ar,sd,ssd", "--f", "32"]
    short = asked(*arguments).stderr
    assert re.search(
        r"warning: h100-sxm: \d+ % of pass time \(attention, gemm\) is extrapolated beyond measured", short
    )
    every = asked(*arguments, "--verbose").stderr
    assert "h100-sxm: gemm:128256x2048:bfloat16 is extrapolated: n above the largest timed, 65536" in every
    assert every.count("warning: ") == short.count("warning: ") + 2  # and masks, which matter less


def test_a_verdict_says_first_that_the_engine_has_no_such_strategy() -> None:
    said = asked("predict", "--engine", "vllm", "--strategies", "ar,ssd").stdout.partition("batch 1\n")[2]
    assert said.startswith("vLLM does not run SSD so; if it did: SSD is ")
    assert "does not run" not in asked("predict", "--engine", "vllm").stdout


def test_a_truncated_profile_is_one_clear_line(tmp_path: Path) -> None:
    from ssdsim.base.bundled import models_folder

    whole = (models_folder() / "hardware" / "h100-sxm.json").read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(whole[: len(whole) // 2])
    assert_refused(asked("predict", "--hardware", str(cut)), str(cut), "not JSON")


def test_a_misspelt_key_in_a_profile_names_the_right_one(tmp_path: Path) -> None:
    from ssdsim.base.bundled import models_folder

    whole = json.loads((models_folder() / "hardware" / "h100-sxm.json").read_text())
    whole["elementwize"] = whole.pop("elementwise")
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(whole))
    assert_refused(asked("predict", "--hardware", str(wrong)), "elementwize", "elementwise")


def test_importing_ssdsim_is_light() -> None:
    code = "import sys, ssdsim; print([m for m in ('torch', 'pandas', 'plotly', 'scipy', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


UNREAD = (
    *("torch", "pandas", "plotly", "scipy", "simpy", "numpy.ma", "difflib"),
    *("ssdsim.rounds.outcomes", "ssdsim.reports"),
)
"""What takes long to load, and what no prediction in closed form reads."""


def test_predict_loads_nothing_that_it_does_not_need() -> None:
    code = (
        "import sys; from ssdsim.cli.main import cli; cli(['predict', '--b', '4', '--p-hit', '0.8'], "
        f"standalone_mode=False); print([m for m in {UNREAD} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


@pytest.mark.long
def test_every_verb_can_be_asked_without_torch() -> None:
    """A paper and an engine's rows are replayed without it, and an option that is unknown looks for its verbs."""
    code = (
        "import sys; sys.modules.update(torch=None, transformers=None)\n"
        "from importlib import import_module; from ssdsim.cli.main import VERBS\n"
        "for module, _ in VERBS.values(): import_module(module)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


THREADS = """
import os, sys
from ssdsim.cli.main import main
sys.argv = ["ssdsim", *sys.argv[1:]]
try:
    main()
except SystemExit:
    print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"), file=sys.stderr)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the threads of Linux")
def test_an_answer_starts_no_threads_and_what_measures_keeps_those_that_it_has() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    for arguments, said in (("predict --p-hit 0.8 --quiet", "1 1"), ("bench --help", "None")):
        command = [sys.executable, "-c", THREADS, *arguments.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stderr.strip().endswith(said)


COMPILED = """
import gc, sys
from ssdsim.cli.main import cli
cli(["predict", "--b", "4", "--p-hit", "0.8", "--json"], standalone_mode=False)
made = [each for each in gc.get_objects() if isinstance(each, type) and str(each.__module__).startswith("ssdsim")]
of_dataclass = [each.__dict__.get("__dataclass_params__") for each in made]
print([each for each in of_dataclass if each and each.frozen], file=sys.stderr)
"""


@pytest.mark.long
def test_what_predict_loads_has_no_methods_compiled_that_records_share() -> None:
    """Each frozen dataclass costs half a millisecond at every start."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=True)
    assert done.stderr.strip().endswith("[]")


@pytest.mark.long
def test_an_answer_in_json_loads_nothing_that_prints_in_colours() -> None:
    code = (
        "import sys; from ssdsim.cli.main import cli; "
        "cli(['predict', '--hardware', 'h100-sxm', '--p-hit', '0.8', '--json'], standalone_mode=False); "
        "print([m for m in ('rich', 'ssdsim.question.typed_options') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip().endswith("[]")


@pytest.mark.long
def test_a_numba_that_cannot_be_imported_compiles_nothing(tmp_path: Path) -> None:
    """A numba older than numpy ended long runs in a traceback, and doctor said that they are compiled."""
    for name, text in (
        ("numba/__init__.py", "raise ImportError('Numba needs NumPy 2.0 or less')"),
        ("numba-0.60.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: numba\nVersion: 0.60.0\n"),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        "from ssdsim.serving import replica; replica._LONG = 0; from ssdsim.cli.main import cli; "
        "cli(['serve', '--rate', '1', '--requests', '20', '--strategies', 'ar', '--quiet'], standalone_mode=False); "
        "cli(['doctor', '--json'], standalone_mode=False); cli(['doctor'], standalone_mode=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert '"numba": null' in done.stdout
    said = "numba 0.60.0 cannot be imported (Numba needs NumPy 2.0 or less): long runs are not compiled"
    assert said in " ".join(done.stdout.split())


@pytest.mark.long
def test_doctor_and_lists_answer_in_json() -> None:
    assert answer("doctor")["dependencies"]["numpy"]
    assert len(answer("models", "list")["transformers"]) == len(transformer_names())
    assert {h["name"] for h in answer("hardware", "list")["hardware"]} >= {"h100-sxm", "v100-sxm2-32gb"}
    assert answer("hardware", "show", "h100-sxm")["schema"] == 1


def test_simulate_writes_a_timeline(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    done = asked(*"simulate --p-hit 0.7 --b 4 --rounds 50 --trace".split(), str(path))
    assert done.returncode == 0, done.stderr
    names = {e["args"]["name"] for e in json.loads(path.read_text())["traceEvents"] if e["name"] == "thread_name"}
    assert {"target GPU 0", "target GPU 3", "draft GPU 0", "link"} <= names


def test_a_sweep_is_shown_whatever_comes_before_the_subject() -> None:
    """The subject is held against strategies that are named after it too."""
    done = asked("sweep", "--t-sd", "0.2", "--b", "1,2", "--strategies", "ar,sd,ssd,pearl", "--subject", "sd")
    assert done.returncode == 0, done.stderr
    assert "SD/PEARL" in done.stdout


@pytest.mark.parametrize("arguments", ["simulate --t-sd 0.2 --trace -", "sweep --t-sd 0.2 -o -", "validate run -o -"])
def test_a_dash_is_no_file_to_write(arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = asked(*arguments.split())
    assert done.returncode == 2
    assert "nothing else goes to standard output" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_simulate_says_that_targets_share_a_draft() -> None:
    done = asked(*"simulate --strategies ssd --targets 2 --draft-serves in-turn --rounds 50 --quiet".split())
    assert "Draft    SSD: one for 2 targets, one after the other" in done.stdout


def test_a_sweep_over_backups_has_one_column_of_them() -> None:
    """Beside the axis stood the same again; and "1 points are not possible; 1 of them"."""
    one, both = (
        asked("sweep", "--t-sd", "0.2", "--k", "4", "--backup", backups, "--p-hit-backup", "0.5", "--quiet").stdout
        for backups in ("jit,fast", "jit,auto")
    )
    assert len(re.findall("(?m)^ *backup|  backup", one)) == 1
    assert len(re.findall("(?m)^ *backup|  backup", both)) == 2
    assert "1 point is not possible: --p-hit-backup needs --p-hit" in " ".join(one.split())


def test_a_reason_says_whose_it_is() -> None:
    said = asked(*"predict --draft-p-min 0.5 --tp 2 --pp 2 --strategies ar,sd,ssd --quiet".split()).stdout
    assert "Cannot run  SD: --draft-p-min over pipeline stages (--pp) is not described" in said


def test_two_outputs_of_a_command_have_two_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After minutes of work the timeline found the folder of the runs in its place."""
    monkeypatch.chdir(tmp_path)
    assert_refused(
        asked("plan", "--rate", "2", "-o", "made", "--trace", "./made"), "'./made'", "--output", "of its own"
    )
    assert not (tmp_path / "made").exists()
