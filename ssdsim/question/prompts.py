"""Prompts of new requests: they are processed between rounds, and no draft makes that faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.pricing.passes import cost_of_mixed_pass
from ssdsim.pricing.site import Site
from ssdsim.rounds.round import Estimate
from ssdsim.transformer.prefill import Chunk, mixed_pass

_MATTERS = 1.05  # a ratio that prompts change by less is the same answer


def ratio_with_prompts(site: Site, answer: int, strategy: Estimate, rival: Estimate) -> float:
    """How many times a strategy's tokens/s are a rival's where a prompt comes for each ``answer`` tokens of a request.

    The site's contexts are the prompts; one is processed in a pass of its own, and each token waits for its share. Each
    of the target's stages has another prompt.
    """
    shard: dict[str, Any] = {"tp": site.tp, "ep": site.ep, "states": site.runtime.states}
    formats: dict[str, Any] = {"dtype": site.dtype, "kv_dtype": site.kv_dtype}
    forward = mixed_pass(site.target, (Chunk(site.context),), context=site.context, **shard, **formats)
    beside_s = float(cost_of_mixed_pass(forward, 0, site.profile, site.runtime).seconds) / (answer * site.pp)
    own_s, other_s = (1.0 / float(each.tokens_per_second) + beside_s for each in (strategy, rival))
    return other_s / own_s


def prompts_told(site: Site | None, answer: int, estimates: Mapping[str, Estimate], name: str, rival: str) -> str:
    """A sentence on how prompts change a ratio; empty if they do not, or times are unit-free."""
    if site is None or site.data_parallel or name == rival or not {name, rival} <= estimates.keys():
        return ""
    bare = float(estimates[name].tokens_per_second) / float(estimates[rival].tokens_per_second)
    served = ratio_with_prompts(site, answer, estimates[name], estimates[rival])
    if max(bare / served, served / bare) < _MATTERS:
        return ""
    return f"prompts of {site.context:,} for {answer:,} answered make {bare:.2f}x AR {served:.2f}x: ssdsim plan"
