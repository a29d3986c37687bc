"""Defaults that stand for what nobody measured of a pair, and how far off they may be."""

from __future__ import annotations

from collections.abc import Mapping

PLAUSIBLE: Mapping[str, tuple[float, float]] = {"alpha": (0.5, 0.9), "hit_c": (0.3, 1.0), "hit_r": (0.2, 0.9)}
"""By option, where the values of real pairs lie: those of docs/real-pair.md (a 135M model with two drafts, temperatures
0 to 1), and the 0.81 to 0.92 that the SSD paper fitted to the acceptance of its four data sets. No law of nature."""
