"""Vidur's network tables: a sample with their columns and quirks, and the real ones where they are at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibration.importers.vidur import import_all_reduce, import_link
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware
from tests.refusals import refused

REAL = Path(__file__).parents[4] / "shared" / "measurements" / "vidur" / "network" / "h100_dgx"
real = pytest.mark.skipif(not REAL.is_dir(), reason="the measured tables are not here")
PEAK = 450e9


def sample(kind: str, workers: int, unit: int) -> pd.DataFrame:
    """Rows within a node and across two, in ms rounded to the microsecond; sizes count ``unit`` bytes."""
    sizes = np.unique(np.geomspace(2048, 64e6, 120).astype(int))
    share = 1.0 if kind == "send_recv" else 2 * (workers - 1) / workers
    inside = 8e-6 + unit * sizes * share / 350e9
    tables = []
    for per_node, seconds in ((workers, inside), (1, 30e-6 + unit * sizes / 35e9)):
        times = {f"time_stats.{kind}.{name}": np.round(1e3 * seconds, 3) for name in ("min", "median", "mean")}
        shape = {"rank": 0, "num_workers": workers, "size": sizes, "collective": kind, "devices_per_node": per_node}
        tables.append(pd.DataFrame(times | shape))
    return pd.concat(tables).reset_index(names="Unnamed: 0")


@pytest.mark.parametrize("unit", [1, 2])
def test_a_link_in_bytes_or_elements(tmp_path: Path, unit: int) -> None:
    sample("send_recv", 2, unit).to_csv(tmp_path / "send_recv.csv")
    link = import_link(tmp_path / "send_recv.csv", PEAK)
    assert link.latency_s == pytest.approx(8e-6, rel=0.05)
    assert link.bandwidth == pytest.approx(350e9, rel=0.05)
    assert link.source == "vidur"


def test_what_no_clock_can_tell_is_left_out(tmp_path: Path) -> None:
    table = sample("send_recv", 2, 1)
    table.loc[table.index[-1], "time_stats.send_recv.median"] = 1e-320
    table.to_csv(tmp_path / "send_recv.csv")
    assert import_link(tmp_path / "send_recv.csv", PEAK).bandwidth == pytest.approx(350e9, rel=0.05)


@pytest.mark.long
def test_all_reduces_by_ranks(tmp_path: Path) -> None:
    table = pd.concat([sample("all_reduce", 2, 1), sample("all_reduce", 4, 1)])
    table.to_csv(tmp_path / "all_reduce.csv")
    models = import_all_reduce(tmp_path / "all_reduce.csv", PEAK)
    assert sorted(models) == [2, 4]
    assert models[4].seconds(1e7) == pytest.approx(8e-6 + 1e7 * 1.5 / 350e9, rel=0.05)


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a readable CSV"):
        import_link(tmp_path / "none.csv", PEAK)
    sample("all_reduce", 2, 1).to_csv(tmp_path / "all_reduce.csv")
    with refused("time_stats.send_recv.median"):
        import_link(tmp_path / "all_reduce.csv", PEAK)
    sample("send_recv", 2, 1).query("devices_per_node == 1").to_csv(tmp_path / "far.csv")
    with refused("send_recv"):
        import_link(tmp_path / "far.csv", PEAK)


@real
def test_the_bundled_h100_link_is_vidurs() -> None:
    link = import_link(REAL / "send_recv.csv", PEAK)
    assert link == find_hardware("h100-sxm").link
    assert link.bandwidth < PEAK
    assert link.report
    assert link.report.median_error < 0.03


@pytest.mark.long
@real
def test_the_h100_all_reduces_of_two_sources_agree() -> None:
    """Vidur's eager NCCL and aiconfigurator's tables, read in the units found, give one large-message time."""
    ours, theirs = find_hardware("h100-sxm").collectives["all_reduce"], import_all_reduce(REAL / "all_reduce.csv", PEAK)
    for ranks in (2, 4, 8):
        assert theirs[ranks].seconds(4e7) == pytest.approx(float(ours[ranks].seconds(4e7)), rel=0.25)
