"""Table B.3 of the SSD paper as rows of its engine: predicted, and fitted to."""

from __future__ import annotations

import numpy as np

from calibration.runtimes.fit import fit_runtime
from calibration.validation.measured import check_rows
from calibration.validation.paper import PublishedSpeeds, load_paper, replay_families
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.readers.row import Row

ENGINE = find_runtime("ssd-engine")


def rows_of_b3() -> list[Row]:
    """The bundled table, with the acceptance that the replay gives each data set and without a hit rate."""
    paper = load_paper("kumar2026")
    assert isinstance(paper, PublishedSpeeds)
    rows = []
    for replay in replay_families(paper, "h100-sxm"):
        family = replay.family
        sd_k, k, f = paper.setting_of(family)
        common = {"model": family.target, "hardware": "h100-sxm", "tp": paper.tp, "batch": 1, "metric": "tpot_ms"}
        common |= {"input_tokens": 256.0, "output_tokens": 512.0}
        rows.append(Row(**common, value=1e3 / family.ar_tokens_per_s, strategy="ar"))
        speeds = zip(replay.alpha, family.sd_tokens_per_s, family.ssd_tokens_per_s, strict=True)
        for alpha, sd, ssd in speeds:
            told = (("alpha", float(alpha)),)
            caches = (*told, ("f", f), ("backup", "jit"))
            rows.append(Row(**common, draft=family.draft, value=1e3 / sd, strategy="sd", k=sd_k, options=told))
            rows.append(Row(**common, draft=family.draft, value=1e3 / ssd, strategy="ssd", k=k, options=caches))
    return rows


def test_the_papers_table_is_ordinary_rows() -> None:
    rows = rows_of_b3()
    of_ssd = [one for one in check_rows(rows, ENGINE) if one.row.run == "ssd"]
    assert len(of_ssd) == 8
    assert np.mean([abs(one.error) for one in of_ssd]) < 0.04
    assert all(one.holds for one in of_ssd)
    assert all("p_hit" in one.assumed[-1] for one in of_ssd)


def test_a_fit_says_which_rows_told_it_and_where_it_ended() -> None:
    """The drafts are in time on the card that the fit starts from: no row tells what masks take."""
    fit = fit_runtime(rows_of_b3(), ENGINE, "mine")
    assert fit.paid_by["per_draft_step_s"] == {"sd": 8, "ssd": 8}
    assert fit.paid_by["per_mask_s"] == {}
    assert "per_mask_s" in fit.unpaid
    assert fit.card.host.per_mask_s == ENGINE.host.per_mask_s
    assert fit.at_bound == tuple(name for name in fit.fields if fit.card.numbers[name] == 0.0)
    assert fit.error < 0.02
