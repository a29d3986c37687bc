"""Files in folders of somebody else: links in their place, bits that flip, disks that are full, readers that leave."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ssdsim.answers.simulation.trace import Trace
from ssdsim.answers.sweep import sweep
from ssdsim.base.bundled import models_folder
from ssdsim.base.errors import InputError
from ssdsim.base.files import replaced, write_whole
from ssdsim.base.parquet import read_table, write_table
from ssdsim.hardware.catalog import TRANSFORMERS
from ssdsim.reports.build import report
from tests.refusals import assert_refused, refused
from tests.ssdsim.cli.in_process import asked


def test_a_link_beside_a_file_is_not_followed(tmp_path: Path) -> None:
    """A folder may hold links by every name that a process id gives."""
    precious = tmp_path / "precious"
    precious.write_text("kept")
    for name in ("report.html.partial", f"report.html.{os.getpid()}.partial"):
        (tmp_path / name).symlink_to(precious)
    write_whole(tmp_path / "report.html", "<html>")
    assert (tmp_path / "report.html").read_text() == "<html>"
    assert precious.read_text() == "kept"


@pytest.mark.long
@pytest.mark.parametrize("verb", ["sweep", "plan", "recommend"])
def test_a_link_in_a_run_folder_leads_nobody_out_of_it(verb: str, tmp_path: Path) -> None:
    """``parts/`` of a folder of others would be written to, or ``files/``, wherever it leads."""
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.mkdir()
    run.mkdir()
    card = tmp_path / "mine.toml"
    card.write_text(TRANSFORMERS.files["llama-3.1-8b"].read_text())
    (run / ("files" if verb == "recommend" else "parts")).symlink_to(elsewhere)
    words = {
        "sweep": ("--t-sd", "0.2", "--b", "1,2"),
        "plan": ("--target", "llama-3.1-8b", "--hardware", "h100-sxm", "--rate", "1"),
        "recommend": ("--target", str(card), "--hardware", "h100-sxm", "--gpus", "2"),
    }
    assert_refused(asked(verb, *words[verb], "-o", str(run), "--quiet"), "link")
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "--t-sd", "0.2", "--b", "1,2", "--alpha", "2"),
        ("sweep", "--t-sd", "0.2", "--b", "1", "--draft-gpus", "9"),
        ("plan", "--target", "no-such-model", "--hardware", "h100-sxm", "--rate", "1"),
        ("validate", "run", "--grid", "single", "--hardware", "h100-sxm"),
    ],
    ids=" ".join,
)
def test_a_command_that_is_refused_leaves_no_folder(words: tuple[str, ...], tmp_path: Path) -> None:
    """The next one, put right, was told that there is another run."""
    assert_refused(asked(*words, "-o", str(tmp_path / "run")))
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "run").mkdir()
    assert_refused(asked(*words, "-o", str(tmp_path / "run")))
    assert (tmp_path / "run").is_dir()


def test_a_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "whole", "x")
    (tmp_path / "plain").write_text("x")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.long
def test_a_note_of_pandas_that_is_damaged_is_not_read(tmp_path: Path) -> None:
    """It names types; ``floa-64`` was a traceback."""
    sweep(b=[1, 2], folder=tmp_path / "run")
    results = tmp_path / "run/results.parquet"
    table = read_table(results)
    note = json.dumps({"columns": [{"name": "b", "field_name": "b", "numpy_type": "floa-64", "pandas_type": "x"}]})
    write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), b"pandas": note.encode()}), results)
    assert report(tmp_path / "run").html


@pytest.mark.filterwarnings("error")
def test_rows_without_the_subjects_rate_are_summed_up_without_its_ratio(tmp_path: Path) -> None:
    words = [*"sweep --t-sd 0.2 --p-hit 0.8 --k 2,4 --alpha 0.7 -o".split(), str(tmp_path / "run")]
    assert "SSD/SD 1." in asked(*words).stdout
    results = tmp_path / "run/results.parquet"
    table = read_table(results)
    at = table.column_names.index("ssd_tokens_per_second")
    write_table(table.set_column(at, table.field(at), pa.array([None] * 2, pa.float64())), results)
    said = asked(*words).stdout
    assert "SD at 100% of the possible points" in said
    assert "nan" not in said


def test_no_two_writers_share_a_name(tmp_path: Path) -> None:
    with replaced(tmp_path / "x") as one, replaced(tmp_path / "x") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.long
def test_a_flipped_byte_of_a_number_is_refused(tmp_path: Path) -> None:
    """Without checksums of the pages a number changed and nobody heard of it."""
    path = tmp_path / "results.parquet"
    values = np.arange(64) * 1.7
    write_table(pa.table({"tokens": values}), path, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    start = whole.index(values.tobytes())
    for at in range(start, start + values.nbytes):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError, match="not a Parquet file that can be read"):
            read_table(path)


@pytest.mark.long
def test_no_flipped_bit_of_a_file_changes_what_is_read(tmp_path: Path) -> None:
    """Nor of what says which columns there are: a name changed in one case of fifty."""
    path, written = tmp_path / "results.parquet", pa.table({"k": [1, 2, 3], "tokens": [1.5, None, 2.5], "s": ["a"] * 3})
    write_table(written, path)
    whole, refused = path.read_bytes(), 0
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        try:
            assert read_table(path).equals(written), at
        except InputError:
            refused += 1
    assert refused > len(whole) / 2


def test_a_timeline_on_a_full_disk_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: str, **how: object) -> int:
        with self.open("w") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        Trace("x").save(tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("verb", ["predict --t-sd 0.2", "predict --t-sd 0.2 --json", "simulate --t-sd 0.2 --rounds 50"])
def test_a_reader_that_left_is_no_answer_of_no(verb: str) -> None:
    """1 says that the answer is no. Nor is there a word, since nobody is there to read it."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "ssdsim", *verb.split()], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("name", ["/etc/hostname", "../secret.json", "files/link.json"])
def test_a_run_folder_names_no_file_outside_of_it(name: str, tmp_path: Path) -> None:
    """Nor by a link: a run keeps the files that its options name."""
    run = tmp_path / "run"
    (run / "files").mkdir(parents=True)
    (tmp_path / "secret.json").write_text("{}")
    (run / "files" / "link.json").symlink_to(tmp_path / "secret.json")
    (run / "config.toml").write_text(
        f'schema = 1\nverb = "sweep"\n[options]\nhardware = "{name}"\n[grid]\nb = [1, 2]\n'
    )
    with pytest.raises(InputError, match="a file outside of it"):
        report(run)


@pytest.mark.parametrize(
    "lines",
    ["[options]\nalpha = nan", "[options]\nfl = [3, nan, 5]", "[grid]\nk = [3, nan, 5]", "[grid]\nb = [1, inf]"],
    ids=lambda lines: lines.partition("\n")[2],
)
def test_a_number_that_is_none_is_one_line(lines: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'schema = 1\nverb = "sweep"\n{lines}\n')
    with refused(f"--{lines.splitlines()[1].partition(' ')[0]}"):
        report(tmp_path)


def test_a_page_holds_no_text_that_ends_or_hides_its_script(tmp_path: Path) -> None:
    """``<!--<script>`` in a name left the page blank: no ``</script>`` ends that."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "<!--<script>.toml").write_text((models_folder() / "runtimes" / "vllm.toml").read_text())
    options = '[options]\nstrategies = ["ar"]\nruntime = "<!--<script>.toml"\n[grid]\nb = [1, 2]\n'
    (run / "config.toml").write_text(f'schema = 1\nverb = "sweep"\n{options}')
    report(run).save(run / "report.html")
    page = (run / "report.html").read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert data is not None
    assert "<" not in data[1]
    assert "base-uri 'none'; form-action 'none'" in page


def test_an_axis_in_the_results_holds_numbers(tmp_path: Path) -> None:
    """A column of lists ended in a traceback of the plot that reads it."""
    sweep(t_sd=0.2, k=[2, 4], alpha=[0.7, 0.9], folder=tmp_path / "run")
    results = tmp_path / "run" / "results.parquet"
    table = pq.read_table(results).replace_schema_metadata(None)
    at = table.column_names.index("alpha")
    pq.write_table(table.set_column(at, "alpha", pa.array([[1]] * len(table))), results)
    with refused(str(results), "alpha"):
        report(tmp_path / "run")
