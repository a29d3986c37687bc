"""Look-ups of earlier text: n-grams of the context (prompt lookup), and suffixes of all past outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.kinds import SHARE, Number
from ssdsim.base.option import Option
from ssdsim.pricing.drafter import Draft, Drafter, Proposed
from ssdsim.pricing.occupancy import Demand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.strategies.protocols.drafts import without_a_model
from ssdsim.tokens.acceptance import accepted_length_pmf, rates_of
from ssdsim.tokens.accepted import Accepted, accepted_by_options
from ssdsim.transformer.card import Transformer

FOUND_SHARE = Option(
    name="found",
    kind=SHARE,
    about="share of rounds in which a look-up finds anything to propose",
    axis="share of rounds with a match",
    default_note="the drafter card's",
)
DEPTH = 24
"""Of vLLM's suffix trees: a match and what it proposes together (``suffix_decoding_max_tree_depth``)."""


class _LookUp(Drafter):
    """A look-up on the host, without a model. Where it finds nothing the target decodes a token."""

    needs_device = False

    def draft(self, target: Transformer, named: str | None, options: Mapping[str, Any]) -> Draft:
        return without_a_model(self.name, target, named, options)

    def seconds(self, options: Mapping[str, Any], tokens: int) -> float:
        """Seconds of one look-up."""
        raise NotImplementedError

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        return (site.on_host("look up", self.seconds(site.options, tokens)),)

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        return (site.on_host("look up", branches * self.seconds(site.options, tokens)),)

    def proposes(self, options: Mapping[str, Any], tokens: int) -> Proposed:
        return Proposed(_share_found(options), tokens)

    def demand(self, site: Site, tokens: int, branches: int, beside: bool = False) -> Demand:
        return Demand(0, 0)


class NGram(_LookUp):
    """Finds the longest n-gram that ends the context earlier in it, and proposes what followed.

    ``E = 1 + found (S_1 + ... + S_K)``. In a batch the pass has the rows of those that found something.
    """

    name = "ngram"
    title = "n-gram look-up"
    source = "Saxena, 2023 (prompt lookup); vLLM ngram_proposer.py"
    options = (
        FOUND_SHARE,
        Option(
            name="ngram_lookup_us",
            kind=Number(),
            default=0.0,
            about="microseconds of an n-gram look-up (no source tells it apart from the verification)",
            axis="n-gram look-up (us)",
        ),
    )

    def seconds(self, options: Mapping[str, Any], tokens: int) -> float:
        return 1e-6 * float(options["ngram_lookup_us"])

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        return accepted_by_options(options, tokens, last_continues=True).found_in(_share_found(options))


class Suffix(_LookUp):
    """SuffixDecoding: the longest suffix known from past outputs; a longer match proposes more.

    A match of p tokens proposes ``min(p, K, 24 - p)``, vLLM's rule with its factor of 1. How long matches are nobody
    has published: with ``--suffix-match`` they are geometric with that mean, else every proposal is K long.
    """

    name = "suffix"
    title = "suffix look-up"
    source = "Oliaro et al., 2025, arXiv 2411.04975; ArcticInference in vLLM"
    options = (
        FOUND_SHARE,
        Option(
            name="suffix_us",
            kind=Number(),
            default=20.0,
            about="microseconds a token that is looked up in suffix trees (their authors' blog)",
            axis="suffix look-up (us a token)",
        ),
        Option(
            name="suffix_match",
            kind=Number(),
            about="mean length of a match in suffix trees",
            axis="mean match (tokens)",
            default_note="long enough for K tokens",
        ),
    )

    def seconds(self, options: Mapping[str, Any], tokens: int) -> float:
        return 1e-6 * float(options["suffix_us"]) * tokens

    def accepted(self, options: Mapping[str, Any], tokens: int, unseen: int = 0) -> Accepted:
        whole = accepted_by_options(options, tokens, last_continues=True)
        if options["suffix_match"] is None or whole.kinds is not None:
            return whole.found_in(_share_found(options))
        shares, proposed = _by_match(options["suffix_match"], tokens)
        rates, pmf = rates_of(whole.pmf), np.zeros(whole.pmf.shape)
        for share, k in zip(shares.tolist(), proposed.tolist(), strict=True):
            pmf[..., : k + 1] += share * accepted_length_pmf(rates[..., :k], k)
        return Accepted(pmf).found_in(_share_found(options))

    def proposes(self, options: Mapping[str, Any], tokens: int) -> Proposed:
        if options["suffix_match"] is None:
            return Proposed(_share_found(options), tokens)
        shares, proposed = _by_match(options["suffix_match"], tokens)
        return Proposed(_share_found(options), float(shares @ proposed))


def _by_match(mean: float, tokens: int) -> tuple[Array, NDArray[np.int64]]:
    """Shares of matches by length (geometric), and the tokens that each proposes."""
    leave = min(1.0, 1.0 / max(1.0, mean))
    lengths = np.arange(1, DEPTH)  # the tree is no deeper, and something is proposed
    shares = leave * (1.0 - leave) ** (lengths - 1.0)
    return shares / shares.sum(), np.minimum(np.minimum(lengths, DEPTH - lengths), tokens)


def _share_found(options: Mapping[str, Any]) -> float:
    return 1.0 if options["found"] is None else float(options["found"])
