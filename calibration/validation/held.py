"""Rows put aside before anything is fitted, and how well a card predicts them that never saw them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibration.validation.measured import Checked, check_rows
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.readers.noise import Repeated, noise_of, repeated
from ssdsim.readers.row import Row

_LEAST_FITTED = 2  # settings of a drafter, or of none, that a fit must see
_NEXT = 3  # settings that are named to be measured again


class Held(Record):
    """``fitted`` rows and settings put ``aside``, each with all its repeats; ``settings`` are both."""

    fitted: tuple[Row, ...]
    aside: tuple[Repeated, ...]
    settings: tuple[Repeated, ...]

    @property
    def noise(self) -> float | None:
        """The noise of a repeat; None where nothing was repeated."""
        return noise_of(self.settings)


def put_aside(rows: Sequence[Row], share: float, seed: int = 0) -> Held:
    """A ``share`` of the settings, drawn by chance among those of each drafter, and among those of none."""
    settings = repeated(rows)
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, each in enumerate(settings):
        row = each.rows[0]
        groups.setdefault((row.model, row.k is None, row.draft, row.drafter), []).append(place)
    random = np.random.default_rng(seed)
    aside: set[int] = set()
    for places in groups.values():
        most = max(0, len(places) - _LEAST_FITTED)
        aside |= set(random.permutation(places)[: min(most, round(share * len(places)))].tolist())
    if not aside:
        raise InputError(
            f"--hold {share:g} of {len(settings)} settings puts none aside that the fit could spare: measure more "
            "batches, lengths or K"
        )
    fitted = tuple(row for place, each in enumerate(settings) if place not in aside for row in each.rows)
    return Held(fitted, tuple(settings[place] for place in sorted(aside)), tuple(settings))


def check_noise(held: Held, within: float) -> None:
    """Raise :class:`InputError` where repeats lie further apart than what is asked of the fit, or were never made."""
    if held.noise is None:
        raise InputError(
            "no setting was repeated, so nobody knows what the engine's noise is: ssdsim bench --repeats 3"
        )
    if held.noise > within:
        noisy = sorted((each for each in held.settings if each.noise), key=lambda each: each.noise or 0.0)[::-1]
        again = ", ".join(f"{said(each)} ({each.noise:.0%})" for each in noisy[:_NEXT])
        raise InputError(
            f"repeats differ by {held.noise:.1%} (standard deviation), more than --within {within:.0%} asks: nothing "
            f"is fitted. Measure again on a quiet machine, first {again}"
        )


def said(setting: Repeated) -> str:
    """A setting in a few words."""
    row = setting.rows[0]
    drafts = f" K {row.k}" if row.k is not None else ""
    return f"batch {row.batch}{drafts}, {row.input_tokens:.0f} tokens in"


def predict_aside(held: Held, card: Runtime, seed: int = 0) -> list[Checked]:
    """Predict the means of the settings that were put aside."""
    means = []
    for each in held.aside:
        row = each.rows[0]
        lengths = [own.acceptance_length for own in each.rows if own.acceptance_length is not None]
        more = {"acceptance_length": float(np.mean(lengths))} if lengths else {}
        means.append(row.model_copy(update={"value": each.mean, **more}))
    return check_rows(means, card, seed)
