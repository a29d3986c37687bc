"""Lookahead decoding: the target guesses n-grams by itself and verifies those that it guessed before, in one pass."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.kinds import Whole
from ssdsim.base.option import choice
from ssdsim.base.settings import Settings
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Step
from ssdsim.rounds.actor import Actor, Program
from ssdsim.rounds.kernel import Tokens
from ssdsim.rounds.round import Seconds, States
from ssdsim.strategies.protocols.hits import acceptance_share, now_and_then
from ssdsim.strategies.protocols.strategy import Strategy


class Lookahead(Strategy):
    """``R = b (1 + found (E - 1)) / E[T_v(rows)]``: no draft, and no memory but a pool of n-grams on the host.

    The pass holds W Jacobi positions with the n-gram history of each (N - 1 levels), which fill the pool, and up to G
    n-grams of the pool that go on from the last token, each N - 1 tokens long. These are taken as independent
    chains: ``E = N - sum over i of (1 - alpha^i)^G``, an upper bound where they begin alike. In a round in which the
    pool has none that goes on (their rows are not in the pass then, as in the released code) there is one token. So n
    of a batch, a binomial number, make ``rows = b (1 + W (N - 1)) + n G (N - 1)``.
    That is the paper's damping, one good guess every f steps, with ``found`` = 1 / f.
    """

    name = "lookahead"
    title = "Lookahead"
    winner_name = "Lookahead decoding"
    source = "Fu et al., ICML 2024, arXiv 2402.02057; hao-ai-lab/LookaheadDecoding"
    rival = "ar"
    drafts = False
    ragged = True
    shown_settings = ("lookahead_window", "lookahead_ngram", "lookahead_guesses")
    options = (
        choice(
            name="lookahead_window",
            kind=Whole(most=1_000),
            default=7,
            about="Jacobi positions that Lookahead guesses from side by side (its README's WINDOW_SIZE)",
            axis="Lookahead's window W",
            symbol="W",
        ),
        choice(
            name="lookahead_ngram",
            kind=Whole(least=2, most=64),
            default=5,
            about="tokens of Lookahead's n-grams, the one that they go on from among them (LEVEL)",
            axis="Lookahead's n-grams N",
            symbol="N",
        ),
        choice(
            name="lookahead_guesses",
            kind=Whole(most=1_000),
            default=7,
            about="n-grams of the pool that Lookahead verifies at most (GUESS_SET_SIZE)",
            axis="Lookahead's verified n-grams G",
            symbol="G",
        ),
        acceptance_share(
            name="lookahead_alpha",
            default=0.4,
            about="P(a token of a pooled n-gram is right | those before it are)",
            axis="acceptance of pooled n-grams",
            plausible=(0.3, 0.5),
        ),
        acceptance_share(
            name="lookahead_found",
            default=0.3,
            about="share of rounds in which Lookahead's pool has n-grams that go on from the last token",
            axis="the pool's hit share",
            plausible=(0.2, 0.5),
        ),
    )

    def lookahead(self, options: Mapping[str, Any]) -> int:
        return _guessing(options) + _guessed(options)

    def kernel(self, settings: Settings, drafter: Drafter) -> Tokens:
        of_pool = best_of_chains(settings["lookahead_alpha"], settings["lookahead_ngram"] - 1, _guesses(settings))
        nothing = np.eye(of_pool.size)[0]
        return now_and_then(of_pool, nothing, float(settings["lookahead_found"]), _tokens(settings))

    def steps(self, site: Site, drafter: Drafter) -> Mapping[str, Step]:
        found = float(site.options["lookahead_found"])
        verify = site.mixed_step("verify", _tokens(site.options), found, masked=True)
        return {"verify": verify, "sample": site.sampling_step()}

    def parts(self, t: Mapping[str, Seconds], states: States) -> Mapping[str, FloatOrArray]:
        return {"verify": t["verify"], "host": t["sample"]}

    def programs(self, options: Mapping[str, Any], drafter: Drafter) -> Mapping[str, Program]:
        return {"target": _target}


def best_of_chains(alpha: float, tokens: int, chains: int) -> Array:
    """P(exactly k tokens are accepted) of the longest of independent chains of ``tokens`` tokens."""
    survival = 1.0 - (1.0 - alpha ** np.arange(tokens + 2.0)) ** chains
    survival[0], survival[-1] = 1.0, 0.0
    return np.asarray(survival[:-1] - survival[1:])


def _guessing(options: Mapping[str, Any]) -> int:
    """Rows a sequence that generate n-grams, beside the last token."""
    return int(options["lookahead_window"]) * (int(options["lookahead_ngram"]) - 1)


def _guessed(options: Mapping[str, Any]) -> int:
    """Rows a sequence that verify n-grams."""
    return _guesses(options) * (int(options["lookahead_ngram"]) - 1)


def _tokens(options: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of a sequence in a pass with n-grams to verify, and without."""
    wide = 1 + _guessing(options)
    return wide + _guessed(options), wide


def _guesses(options: Mapping[str, Any]) -> int:
    return int(options["lookahead_guesses"])


def _target(me: Actor) -> Generator[Any, Any, None]:
    for _ in me.rounds():
        yield me.do("verify")
        yield me.do("sample")
        me.end_round()
