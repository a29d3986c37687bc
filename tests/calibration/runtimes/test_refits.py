"""The scripts that fit bundled cards leave alone what another of them, or nobody's rows, told."""

from __future__ import annotations

import pytest
from fidelity import GROUPS, OF_OTHERS, note_beside, with_other_fits
from fidelity_rounds import without_rounds

from ssdsim.hardware.runtime_card import Fp4Overrides, Runtime
from ssdsim.hardware.runtime_catalog import find_runtime

CARDS = [group.card for group in GROUPS]


@pytest.mark.parametrize("name", CARDS)
def test_a_refit_of_rounds_keeps_what_no_round_tells(name: str) -> None:
    card = find_runtime(name)
    assert without_rounds(card).host.per_mask_s == card.host.per_mask_s
    assert ("masks: " in card.evidence.note) is ("masks: " in note_beside(card, "rounds"))


@pytest.mark.parametrize("name", CARDS)
def test_a_refit_of_dense_models_keeps_the_numbers_of_all_others(name: str) -> None:
    """Seconds of a recurrent layer were lost, with what is open of them."""
    card = find_runtime(name)
    again = with_other_fits(_as_dense_rows_tell(card))
    assert again.numbers == card.numbers
    assert _moved(again) == _moved(card)
    assert (again.four_bits or Fp4Overrides()).numbers == (card.four_bits or Fp4Overrides()).numbers


def _as_dense_rows_tell(card: Runtime) -> Runtime:
    def dense(ways: tuple[dict[str, float], ...]) -> tuple[dict[str, float], ...]:
        return tuple(way for way in ways if not set(way) & set(OF_OTHERS))

    there = card.four_bits
    if there is not None:
        numbers = {name: value for name, value in there.numbers.items() if name not in OF_OTHERS}
        there = there.changed(numbers=numbers, wander=dense(there.wander))
    bare = card.with_numbers({name: 1.0 if "expert" in name and "_s" not in name else 0.0 for name in OF_OTHERS})
    return bare.changed(wander=dense(card.wander), four_bits=there, covered=())


def _moved(card: Runtime) -> set[str]:
    there = () if card.four_bits is None else card.four_bits.wander
    return {name for way in (*card.wander, *there) for name in way}
