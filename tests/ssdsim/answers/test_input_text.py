"""What tokens rest on, in one line: a text stands once."""

from __future__ import annotations

from ssdsim.answers.evidence import inputs_text
from ssdsim.question.token_inputs import TokenInput

OF = "pair.json: measured on 160 requests, temperature 0"


def test_what_a_text_adds_to_another_stands_beside_its_value() -> None:
    inputs = [
        TokenInput("alpha", [0.8, 0.9], "measured", f"{OF}, to K 2"),
        TokenInput("alpha_concentration", 15.0, "measured", OF),
        TokenInput("hit_concentration", 12.0, "measured", f"{OF}, batches of 16"),
        TokenInput("hit_c", 0.4, "placeholder", "a default", (0.3, 1.0)),
        TokenInput("p_hit", 0.85, "given", "given"),
    ]
    assert inputs_text(inputs) == (
        "--alpha 0.8...0.9 by position (to K 2), --alpha-concentration 15, --hit-concentration 12 (batches of 16): "
        f"measured, {OF}; --hit-c 0.4 (0.3-1): a placeholder, nobody measured it; --p-hit 0.85: given"
    )
    assert inputs_text([]) == ""


def test_another_temperature_is_another_text() -> None:
    inputs = [TokenInput("alpha", 0.8, "measured", OF), TokenInput("alpha_backup", 0.0, "measured", f"{OF}.7")]
    assert inputs_text(inputs) == f"--alpha 0.8: measured, {OF}; --alpha-backup 0: measured, {OF}.7"
