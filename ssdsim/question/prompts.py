"""Prompts of new requests: they are processed between rounds, and no draft makes that faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.base.record import Record
from ssdsim.pricing.passes import cost_of_mixed_pass
from ssdsim.pricing.site import Site
from ssdsim.rounds.round import Estimate
from ssdsim.transformer.prefill import Chunk, mixed_pass

_MATTERS = 1.05  # a ratio that prompts change by less is the same answer


class PromptLoad(Record):
    """Prompts of ``prompt`` tokens, one in the place of each request that ends after ``answer`` tokens."""

    prompt: int
    answer: int
    batch: int
    seconds: float

    @classmethod
    def at(cls, site: Site, answer: int) -> PromptLoad:
        """The load of a site whose contexts are prompts; one is processed in a pass of its own."""
        shard: dict[str, Any] = {"tp": site.tp, "ep": site.ep, "states": site.runtime.states}
        formats: dict[str, Any] = {"dtype": site.dtype, "kv_dtype": site.kv_dtype}
        forward = mixed_pass(site.target, (Chunk(site.context),), context=site.context, **shard, **formats)
        seconds = cost_of_mixed_pass(forward, 0, site.profile, site.runtime).seconds
        return cls(site.context, answer, site.batch, float(seconds))

    def ratio(self, strategy: Estimate, rival: Estimate) -> float:
        """How many times a strategy's tokens/s are a rival's: each token waits for its share of the others' prompts."""
        beside_s = self.seconds / self.answer  # a token of the batch, whoever decodes it
        each_s = [1.0 / float(each.tokens_per_second) + beside_s for each in (rival, strategy)]
        return each_s[0] / each_s[1]


def prompts_told(site: Site | None, answer: int, estimates: Mapping[str, Estimate], name: str, rival: str) -> str:
    """A sentence on how prompts change a ratio; empty if they do not, or times are unit-free."""
    if site is None or site.data_parallel or name == rival or not {name, rival} <= estimates.keys():
        return ""
    bare = float(estimates[name].tokens_per_second) / float(estimates[rival].tokens_per_second)
    load = PromptLoad.at(site, answer)
    served = load.ratio(estimates[name], estimates[rival])
    if max(bare / served, served / bare) < _MATTERS:
        return ""
    return f"prompts of {load.prompt:,} for {answer:,} answered make {bare:.2f}x AR {served:.2f}x: ssdsim plan"
