"""Options of what is compared (strategies, drafter, batch, lookahead) and of how tokens are accepted."""

from __future__ import annotations

from functools import partial

from ssdsim import strategies
from ssdsim.base.kinds import SHARE, Flag, Member, Name, Number, NumberOrWord, OneOf, OneOrByPosition, Whole
from ssdsim.base.kinds_of_lists import Names, Ranges
from ssdsim.base.option import Excludes, Group, Needs, Option, Section, searched_choice
from ssdsim.strategies import drafters
from ssdsim.tokens.priors import TEXTS
from ssdsim.tokens.rules import RULES, TOKEN

WHOM = (
    Option(
        name="strategies",
        section=Section.START,
        prominence=3,
        default=strategies.DEFAULT,
        kind=Names(strategies.ALL),
        about="which ones, or all; by default those of ar,sd,ssd that a named --engine runs",
        axis="strategies",
        spellings=("--strategy",),
        varied_by=("schedule",),
    ),
    Option(
        name="subject",
        section=Section.START,
        kind=Member(strategies.ALL),
        about="the strategy that the verdict is about, held against the others",
        axis="subject",
        default_note=f"{strategies.SUBJECT} where it is among --strategies, else the last of them",
    ),
    Option(
        name="drafter",
        section=Section.MODELS,
        prominence=1,
        default="model",
        kind=Member(drafters.ALL),
        about="what drafts: a model, a head, a look-up (ssdsim models drafters); by default a target's own heads, else "
        "model",
        axis="drafter",
    ),
    searched_choice(
        name="b",
        section=Section.START,
        prominence=7,
        default=1,
        kind=Whole(),
        about="batch: sequences decoded together",
        axis="batch size b (sequences)",
        spellings=("-b", "--batch-size", "--batch", "--bs"),
        doubling=True,
    ),
    searched_choice(
        name="k",
        section=Section.START,
        prominence=7,
        default=6,
        kind=NumberOrWord(Whole(most=1_000), "auto"),
        unsaid="auto",
        about="lookahead K: drafted tokens that a round verifies",
        default_note="auto: each strategy's own best",
        axis="lookahead K (tokens)",
        spellings=("--num-speculative-tokens",),
        symbol="K",
    ),
)


MOST_OUTPUT_TOKENS = 131_072

_acceptance = partial(Option, section=Section.ACCEPTANCE)

# The default is that of a draft model: models/priors/acceptance.toml has it, and those of other drafters and texts.
ACCEPTANCE = (
    _acceptance(
        name="alpha",
        prominence=7,
        default=0.79,
        kind=OneOrByPosition(SHARE),
        about="acceptance rate of a drafted token, or K rates by position (0.9,0.8,...)",
        axis="acceptance rate α",
        plausible=(0.31, 0.94),
        groups=(Group.ACCEPTANCE,),
        excludes=(Excludes(("text",), "{it} has no effect with --alpha (the rate is given)"),),
    ),
    _acceptance(
        name="text",
        prominence=2,
        default="mixed",
        kind=OneOf(TEXTS),
        about="the kind of text that is decoded, by which acceptance is supposed where nobody gives it",
        axis="kind of text",
    ),
    _acceptance(
        name="alpha_concentration",
        kind=Number(),
        about="spread of acceptance between requests: Beta, mean --alpha, a + b = this (by position: of all rounds)",
        axis="concentration of acceptance rates (a + b)",
        groups=(Group.ACCEPTANCE,),
    ),
    _acceptance(
        name="pair",
        prominence=3,
        example="smollm2-135m-28-layers",
        kind=Name(),
        about="measured target and draft, a name or a file (ssdsim measure, import acceptance): acceptance, hits",
        axis="measured pair",
        excludes=(Excludes(("acceptance", "text"), "{it} has no effect with --pair (the pair says what is accepted)"),),
    ),
    _acceptance(
        name="pair_set",
        kind=Name(files=False),
        about="the pair's set of requests to take",
        axis="set of the measured pair",
        default_note="all requests together",
        needs=Needs(("pair",), "(which has the sets)"),
    ),
    _acceptance(
        name="pair_backup",
        kind=Name(files=False),
        about="the backup that the pair was measured with, such as random or ngram:3",
        axis="backup of the measured pair",
        default_note="random",
        groups=(Group.BACKUP_QUALITY,),
        needs=Needs(("pair",), "(which has the backups)"),
    ),
    _acceptance(
        name="extrapolate",
        default=False,
        kind=Flag(),
        about="use the pair beyond the K, the temperature and the fan-outs that it was measured at",
        axis="pairs beyond what was measured",
        needs=Needs(("pair",), "(which says how far it was measured)"),
    ),
    _acceptance(
        name="acceptance",
        prominence=1,
        example="synthetic:3.3",
        kind=Name(),
        about="what is accepted: a card of rates (.toml), a trace of lengths (.csv, .jsonl), or a mean length",
        axis="acceptance file",
        groups=(Group.ACCEPTANCE,),
        excludes=(
            Excludes(
                ("alpha", "alpha_concentration", "text"),
                "{it} has no effect with --acceptance (the file says what is accepted)",
            ),
        ),
    ),
    _acceptance(
        name="acceptance_rule",
        prominence=1,
        default=TOKEN,
        kind=OneOf((TOKEN, *RULES.files)),
        about="how drafts are tested: a token after the other, or as vLLM's block (exact) and fly, or TensorRT-LLM's "
        "relaxed (both change the answers)",
        axis="acceptance rule",
        groups=(Group.CHOICE,),
        excludes=(
            Excludes(
                ("rule_odds",),
                "{it} has no effect with --acceptance-rule token (the odds are its own)",
                when=TOKEN,
                spared=True,
            ),
        ),
    ),
    _acceptance(
        name="rule_odds",
        kind=Number(1e3, 1.0),
        about="factor by which --acceptance-rule multiplies the odds that a drafted token is accepted",
        axis="factor of the acceptance rule",
        default_note="what was published of the rule",
        groups=(Group.ACCEPTANCE,),
        needs=Needs(("acceptance_rule",), "(which multiplies the odds of acceptance by it)"),
    ),
    Option(
        name="output_tokens",
        section=Section.START,
        default=512,
        kind=Whole(most=MOST_OUTPUT_TOKENS),
        about="tokens of a request, where requests differ",
        axis="output tokens of a request",
        spellings=("--osl",),
        needs=Needs(("acceptance", "alpha_concentration", "pair"), "(requests that are alike need no length)"),
    ),
)

RANGES = (
    _acceptance(
        name="ranges",
        kind=Ranges(),
        about="where a rate of acceptance or hits may lie, alpha=0.75:0.85, again for each; --alpha 0.75:0.85 says the "
        "same",
        axis="ranges of acceptance and hits",
        spellings=("--range",),
        default_note="a rate that is given is exact",
    ),
)
