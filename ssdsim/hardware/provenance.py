"""A summary of where a profile's timings came from and how good they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set

from ssdsim.hardware.profile import HardwareProfile
from ssdsim.transformer.operations import QUANTISED_BYTES
from ssdsim.transformer.recurrences import Rule


def summary(
    profile: HardwareProfile,
    dtypes: set[str],
    ranks: int,
    experts: bool = False,
    windows: bool = False,
    exchanges: bool = False,
    rules: Set[Rule] = frozenset(),
) -> str:
    """The timings that a placement reads, by the kind of their provenance, with held-out median errors.

    ``dtypes`` are of weights, activations and caches; timings in a quantised one are told by its name. ``experts``
    and ``windows``: a model has some; ``exchanges``: all-to-alls bring tokens to their experts; ``rules``: of models'
    recurrent layers.
    """
    unread = {"prefill_attention", "prefill_recurrence"}  # by passes that decode
    some = {"experts": experts, "attention_windowed": windows, "all_to_all": exchanges, "convolution": bool(rules)}
    unread |= {name for name, there in some.items() if not there}
    by_kind: dict[str, list[str]] = defaultdict(list)
    origins: dict[str, set[str]] = defaultdict(set)
    for name, model in profile.models().items():
        what, _, variant = name.partition(":")
        if what in unread:
            continue
        if variant and variant not in {*dtypes, *rules, str(ranks)}:
            continue
        source = profile.sources[model.source]
        error = f" {model.report.median_error:.1%}" if model.report else ""
        called = what if variant not in QUANTISED_BYTES else f"{what} {variant}"
        by_kind[source.kind].append(f"{called}{error}")
        origins[source.kind].add(f"{source.source} {source.commit}".strip())
    parts = [f"{kind} from {', '.join(sorted(origins[kind]))}: {', '.join(by_kind[kind])}" for kind in by_kind]
    return "; ".join(parts) + " (held-out medians)"
