"""The rounds of a replica, in plain numbers and arrays: run by Python, or compiled by numba where a run is long.

All that is compiled stands in this file, because numba finds its cache old by the function's own file.
"""

from __future__ import annotations

from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array

Integers = NDArray[np.int64]

CURVES = ("decoded", "beside", "alone", "heads", "attention", "host_decoding", "host_with_prompts")
"""Curves of a place where prompts are processed, in the order of :class:`ssdsim.serving.passes.PromptTable`."""
DECODED, BESIDE, ALONE, HEADS, ATTENTION, HOST_DECODING, HOST_WITH_PROMPTS = range(len(CURVES))
CONSTANT, ADD, SUBTRACT, MULTIPLY, MAXIMUM = range(5)
"""Operations of a round's arithmetic."""
_FIRST = 1
"""The set of the first state alone, in which sequences stay where every round yields as many tokens."""


class VariantNumbers(NamedTuple):
    """Numbers of variants, a list or an array each."""

    steps: Any  # of a round
    states: Any
    kinds: Any
    tokens_of_certain: Any  # 0 where rounds differ
    most_tokens: Any  # of a round
    question_count: Any  # about states, whose answers are a round's bits
    asks_before: Any
    queries: Any  # of a sequence in the pass with the most
    joins_in: Any  # the state of a request whose first look-up misses
    caches: Any
    p_hit: Any  # of a first look-up, where the draft guessed meanwhile
    shares_chances: Any  # of a round's outcomes, which somebody else draws
    miss_bit: Any
    name: Any  # of its strategy, as a number
    target: Any  # its place among the curves
    draft: Any  # -1 where no draft processes prompts
    has_own_device: Any
    hidden: Any
    copies: Any


class Tables(NamedTuple):
    """All variants of a policy, the variant's number first. Lists for Python are arrays for numba.

    NaN is a price that was not asked for yet.
    """

    of: VariantNumbers
    lines: Array  # [context, batch, bits]: seconds at the node, and by token
    steps: Array  # [context, batch, step]: the same
    host: Array  # [batch]
    nodes: Any  # [context]
    queries: Any  # [step]: tokens a sequence, of steps with a pass of the target
    drafting: Any  # [step]: a draft processes prompts in it
    arithmetic: Any  # [bits, row]: an operation, two registers, a value
    rows: Any  # [bits]: of arithmetic; 0 where it is not written down
    curves: Any  # [place, curve, tokens]
    cdf: Any  # [row * outcomes + outcome]
    tokens: Any  # [the same]
    state: Any  # [the same]
    kinds: Any  # [request]
    questions: Any  # [question]: its bit, whether the end of a round is meant, the state
    ledgers: Any  # [ledger]: places that a sequence may waste, places, tokens it reserves, tokens of a block, blocks
    contexts: Any  # of the policy, without the variant's number
    wanted: Any  # [context, batch]: a variant's number


class RequestColumns(NamedTuple):
    """Columns of the requests, and those that wait, in the order in which they came."""

    comes_s: Any  # when each is offered; empty where somebody else offers them
    arrival_s: Array
    todo: Integers
    total: Integers
    replica: Integers
    rejected: NDArray[np.bool_]
    scheduled_s: Array
    first_s: Array
    last_s: Array
    rounds: Integers
    preemptions: Integers
    forced_misses: Integers
    queue: Integers


class Limits(NamedTuple):
    """What an engine and a policy allow."""

    max_batch: int
    token_budget: int
    passes: int  # of a round: one a pipeline stage
    least_chunk: int
    longest: int  # tokens of a request that can be held
    stretch: float  # times as long as a round would be
    hold: int  # rounds before a schedule switches
    has_priority: bool  # prompts, over decoding
    is_elsewhere: bool  # where prompts are processed
    elsewhere_s: float  # what they take there
    guesses: bool  # a draft guesses while a prompt is processed
    counts_scheduled: bool
    is_steered: bool
    number: int  # of the replica


class State(NamedTuple):
    """A replica between two rounds. The first five are lists where Python runs."""

    c: Any  # counters, by the names below
    f: Any  # seconds and a context, likewise
    prompts: Any  # request, tokens done, tokens in all
    chunks: Any  # of the next pass: tokens, and those cached before
    register: Any
    missed: Integers  # whether the first look-up of each prompt that ends misses
    round_tokens: Array  # tokens of each sequence in the last round, where a policy is steered by them
    ones: Array
    sequences: Array  # left, total, request, first round, row, kind
    uniforms: Array
    journal: Array


(NUMBER, RUNNING, CACHED, PROMPTS, PROMPT_TOKENS, ROUND, MISSES, LOOKUPS, FORCED, CAME, HEAD, TAIL) = range(12)
(DRAWN, LOGGED, SURELY, SCHEDULED, SETTLED, WANTED, ASKED_FOR, STEERED, WASTED, FINISHED, PHASE) = range(12, 23)
(MOVED, NODE, BITS, PARTS, ENDED, KEPT, WANTING, BATCH, HEARD, ALIKE, COUNTERS) = range(23, 34)
"""Places of the counters, and how many they are."""
NOW, CONTEXT, PRICE, LATE = range(4)
"""Places of when the last round ended, the context of a price, a price from outside, and until the draft is free."""
DONE, LINE, ROUND_PRICE, PROMPTS_PRICE, NUMBERS, JOURNAL, CHANCES, STEERING, HEARING = range(9)
"""Why rounds end: nothing is left, or somebody else must give a price, random numbers, room, chances, a K."""


# prices


def node_of(nodes: Any, context: float, near: int) -> int:
    """Place of the last node that is not above a context, or of the first one, sought from ``near``."""
    at = near
    while at > 0 and nodes[at] > context:
        at -= 1
    while at + 1 < len(nodes) and nodes[at + 1] <= context:
        at += 1
    return at


def over_cache_s(attention: Any, chunks: Any, count: int) -> float:
    """Attention of parts of prompts: each takes its share of that of its prompt up to its end."""
    seconds = 0.0
    for tokens, prefix in chunks[:count]:
        end = tokens + prefix
        seconds += attention[end] * (1.0 - prefix * (prefix + 1) / (end * (end + 1)))
    return seconds


def tokens_of(chunks: Any, count: int) -> int:
    """Tokens of parts of prompts."""
    total = 0
    for tokens, _ in chunks[:count]:
        total += tokens
    return total


def alone_s(curves: Any, chunks: Any, count: int) -> float:
    """A pass over parts of prompts and nothing else."""
    total = tokens_of(chunks, count)
    over_tokens_s = curves[ALONE][total] + curves[HEADS][count]
    return float(over_tokens_s + over_cache_s(curves[ATTENTION], chunks, count) + curves[HOST_WITH_PROMPTS][total])


def added_s(curves: Any, decoded: int, chunks: Any, count: int) -> float:
    """What parts of prompts add to a pass over decoded tokens."""
    total = decoded + tokens_of(chunks, count)
    share = decoded / total
    tokens_s = share * curves[BESIDE][total] + (1.0 - share) * curves[ALONE][total] - curves[DECODED][decoded]
    heads_s = curves[HEADS][decoded + count] - curves[HEADS][decoded]
    host_s = curves[HOST_WITH_PROMPTS][total] - curves[HOST_DECODING][decoded]
    return float(tokens_s + heads_s + over_cache_s(curves[ATTENTION], chunks, count) + host_s)


def add_prompts(
    seconds: Any,
    queries: Any,
    drafting: Any,
    steps: int,
    decoding: int,
    target: Any,
    draft: Any,
    drafts: bool,
    hidden: bool,
    chunks: Any,
    count: int,
) -> bool:
    """Add to the seconds of each step what parts of prompts take in it; say whether every price is known.

    ``decoding`` sequences are in a pass of the target. A draft that is ``hidden`` is idle while the target works.
    """
    verified_s = np.inf
    for step in range(steps):
        if queries[step]:
            seconds[step] += added_s(target, decoding * queries[step], chunks, count)
            verified_s = min(verified_s, seconds[step])
        if isnan(seconds[step]):
            return False
    if drafts:
        draft_s = alone_s(draft, chunks, count)
        if isnan(draft_s):
            return False
        if hidden:
            draft_s = max(0.0, draft_s - verified_s)
        for step in range(steps):
            if drafting[step]:
                seconds[step] += draft_s
    return True


def prompts_alone_s(
    target: Any, draft: Any, drafts: bool, has_own_device: bool, more_s: float, late_s: float, chunks: Any, count: int
) -> float:
    """A pass over parts of prompts alone, ``more_s`` for the host, and the draft's, which begins ``late_s`` later."""
    pass_s = alone_s(target, chunks, count) + more_s
    if drafts:
        draft_s = alone_s(draft, chunks, count)
        if isnan(draft_s):
            return nan
        pass_s = max(pass_s, draft_s + late_s) if has_own_device else pass_s + draft_s
    return pass_s


def line_s(t: Tables, v: int, at: int, batch: int, context: float, bits: int) -> float:
    """A round in which nothing but decoding is done, from the node of its context."""
    line = t.lines[v, at, batch, bits]
    return float(line[0] + (context - t.nodes[v][at]) * line[1])


def mixed_s(t: Tables, state: State, v: int, bits: int) -> float:
    """A round in whose verification parts of prompts are processed, too; NaN where a price is not known."""
    c, register, of = state.c, state.register, t.of
    batch, context, at = c[RUNNING], state.f[CONTEXT], c[NODE]
    steps, rows = of.steps[v], t.rows[v][bits]
    if rows == 0:
        return nan
    more, lines = context - t.nodes[v][at], t.steps[v, at, batch]
    for step in range(steps):
        register[step] = float(lines[step, 0] + more * lines[step, 1])
    decoding, target, draft = -(-batch // of.copies[v]), t.curves[of.target[v]], t.curves[max(0, of.draft[v])]
    drafts, hidden, queries, drafting = of.draft[v] >= 0, of.hidden[v] > 0, t.queries[v], t.drafting[v]
    chunks, parts = state.chunks, c[PARTS]
    if not add_prompts(register, queries, drafting, steps, decoding, target, draft, drafts, hidden, chunks, parts):
        return nan
    sheet, place = t.arithmetic[v][bits], steps
    for operation, left, right, value in sheet[:rows]:
        if operation == CONSTANT:
            register[place] = value
        elif operation == ADD:
            register[place] = register[int(left)] + register[int(right)]
        elif operation == SUBTRACT:
            register[place] = register[int(left)] - register[int(right)]
        elif operation == MULTIPLY:
            register[place] = register[int(left)] * register[int(right)]
        else:
            register[place] = max(register[int(left)], register[int(right)])
        place += 1
    return float(register[place - 1])


def prompts_s(t: Tables, state: State, v: int, joins: int) -> float:
    """A pass over parts of prompts alone, after which so many requests look in a speculation cache in vain."""
    batch, of, chunks, parts = max(1, joins), t.of, state.chunks, state.c[PARTS]
    target, draft, drafts = t.curves[of.target[v]], t.curves[max(0, of.draft[v])], of.draft[v] >= 0
    host_s = float(t.host[v, batch])
    if isnan(host_s):
        return nan
    pass_s = prompts_alone_s(target, draft, drafts, of.has_own_device[v] > 0, host_s, state.f[LATE], chunks, parts)
    if joins and of.miss_bit[v]:
        longest = 0
        for tokens, prefix in chunks[:parts]:
            longest = max(longest, tokens + prefix)
        context = float(longest)
        at = node_of(t.nodes[v], context, state.c[NODE])
        pass_s += line_s(t, v, at, batch, context, of.miss_bit[v]) - line_s(t, v, at, batch, context, 0)
    return pass_s


# the caches


def surely_fit(ledgers: Any, sequences: int, tokens: int) -> bool:
    """So many sequences and tokens fit, even if each wasted a block."""
    for ledger in ledgers:  # noqa: SIM110  numba knows no generator
        if tokens + sequences * ledger[0] > ledger[1]:
            return False
    return True


def fit(ledgers: Any, state: State, more: int) -> bool:
    """Say whether what is held fits, and a sequence of ``more`` tokens, where that is not negative."""
    c, running = state.c, state.c[RUNNING]
    held, tokens = running + c[PROMPTS], c[CACHED] + c[PROMPT_TOKENS]
    if surely_fit(ledgers, held + (more >= 0), tokens + max(0, more)):
        return True
    for ledger in ledgers:  # noqa: SIM110  numba knows no generator
        if blocks_in_use(ledger[2], ledger[3], state, more) > ledger[4]:
            return False
    return True


def blocks_in_use(reserve: int, block: int, state: State, more: int) -> int:
    """Blocks in use, each of so many tokens, where a sequence reserves some."""
    c, sequences = state.c, state.sequences
    cached = sequences[1, : c[RUNNING]] - sequences[0, : c[RUNNING]]
    blocks = int(((cached + (reserve + block - 1)) // block).sum())
    for _, _, tokens in state.prompts[: c[PROMPTS]]:
        blocks += -(-(tokens + reserve) // block)
    return blocks + (-(-(more + reserve) // block) if more >= 0 else 0)


def make_room(ledgers: Any, columns: RequestColumns, state: State) -> None:
    """The newest sequences go back to the queue until what is held fits."""
    c, sequences = state.c, state.sequences
    while c[RUNNING] + c[PROMPTS] > 1 and not fit(ledgers, state, -1):
        if c[PROMPTS]:
            c[PROMPTS] -= 1
            request, done, tokens = state.prompts[c[PROMPTS]]
            c[PROMPT_TOKENS] -= tokens
            c[WASTED] += done
        else:
            at = c[RUNNING] = c[RUNNING] - 1
            request = int(sequences[2, at])
            cached = int(sequences[1, at] - sequences[0, at])
            columns.todo[request] = int(sequences[0, at])
            columns.rounds[request] += c[ROUND] - int(sequences[3, at])
            c[CACHED] -= cached
            c[WASTED] += cached
        columns.preemptions[request] += 1
        c[HEAD] -= 1
        columns.queue[c[HEAD]] = request


# requests come


def offer(limits: Limits, columns: RequestColumns, c: Any, first: int, last: int) -> None:
    """Requests from ``first`` to before ``last`` arrive now; one that could never fit is rejected."""
    for request in range(first, last):
        if columns.total[request] <= limits.longest:
            columns.queue[c[TAIL]] = request
            columns.replica[request] = limits.number
            c[TAIL] += 1
        else:
            columns.rejected[request] = True
            c[FINISHED] += 1


def admit(t: Tables, limits: Limits, columns: RequestColumns, state: State, now: float) -> None:
    """First come, first served, while there is a place and a block."""
    c, v = state.c, state.c[NUMBER]
    while c[HEAD] < c[TAIL] and c[RUNNING] + c[PROMPTS] < limits.max_batch:
        request = int(columns.queue[c[HEAD]])
        tokens = int(columns.total[request] - columns.todo[request])
        if not fit(t.ledgers[v], state, tokens):
            return
        c[HEAD] += 1
        if isnan(columns.scheduled_s[request]):
            columns.scheduled_s[request] = now
        if limits.is_elsewhere and not columns.preemptions[request]:
            join(t, limits, columns, state, request, True, now)
            c[FORCED] = t.of.caches[v]
        else:
            state.prompts[c[PROMPTS]] = request, 0, tokens
            c[PROMPTS] += 1
            c[PROMPT_TOKENS] += tokens


def next_chunks(limits: Limits, state: State, queries: int) -> None:
    """Write the parts of prompts of the next pass; how many they are, and how many prompts end in it."""
    c, parts, ended, room = state.c, 0, 0, limits.token_budget
    if not limits.has_priority:
        room = max(limits.least_chunk, limits.passes * room - c[RUNNING] * queries)
    for _, done, tokens in state.prompts[: c[PROMPTS]]:
        take = min(room, tokens - done)
        state.chunks[parts] = take, done
        parts += 1
        ended += done + take == tokens
        room -= take
        if room <= 0:
            break
    c[PARTS], c[ENDED] = parts, ended


def join(
    t: Tables, limits: Limits, columns: RequestColumns, state: State, request: int, missed: bool, end: float
) -> None:
    """A prompt is done: its request has its first token, and decodes from now on."""
    c, sequences, v = state.c, state.sequences, state.c[NUMBER]
    todo, total = int(columns.todo[request]), int(columns.total[request])
    if isnan(columns.first_s[request]):
        columns.first_s[request] = columns.arrival_s[request] + limits.elsewhere_s if limits.is_elsewhere else end
    left = todo - 1
    if left <= 0:
        finish(columns, c, request, end)
        return
    if missed and t.of.caches[v]:
        columns.forced_misses[request] += 1
    at, kinds = c[RUNNING], t.kinds[v]
    kind = int(kinds[request if len(kinds) > 1 else 0]) * t.of.states[v]
    sequences[0, at], sequences[1, at], sequences[2, at], sequences[3, at] = left, total, request, c[ROUND]
    sequences[4, at], sequences[5, at] = kind + (t.of.joins_in[v] if missed else 0), kind
    c[RUNNING] = at + 1
    c[CACHED] += total - left
    c[SURELY] = min(c[SURELY], (left - 1) // t.of.most_tokens[v])


def join_all(t: Tables, limits: Limits, columns: RequestColumns, state: State, end: float) -> None:
    """The prompts that are done leave, and those that are not move up."""
    c, prompts, ended = state.c, state.prompts, state.c[ENDED]
    for at in range(ended):
        request, _, tokens = prompts[at]
        c[PROMPT_TOKENS] -= tokens
        join(t, limits, columns, state, request, state.missed[at] > 0, end)
    for at in range(ended, c[PROMPTS]):
        prompts[at - ended] = prompts[at]
    c[PROMPTS] -= ended


# requests go


def retire(t: Tables, columns: RequestColumns, state: State, end: float) -> None:
    """Sequences that have all their tokens leave; count the rounds in which surely none does."""
    c, sequences, least = state.c, state.sequences, 1
    while c[RUNNING]:
        at = int(sequences[0, : c[RUNNING]].argmin())  # sooner than its minimum
        least = int(sequences[0, at])
        if least > 0:
            break
        request, since = int(sequences[2, at]), int(sequences[3, at])
        c[CACHED] -= int(sequences[1, at]) - least
        columns.rounds[request] += c[ROUND] - since
        finish(columns, c, request, end)
        c[RUNNING] -= 1
        sequences[:, at : c[RUNNING]] = sequences[:, at + 1 : c[RUNNING] + 1]
    c[SURELY] = max(0, least - 1) // t.of.most_tokens[c[NUMBER]]


def finish(columns: RequestColumns, c: Any, request: int, end: float) -> None:
    """A request has its last token."""
    columns.last_s[request] = end
    columns.todo[request] = 0
    c[FINISHED] += 1


# the schedule


def choose(t: Tables, limits: Limits, state: State) -> bool:
    """Choose what the policy wants for what runs; False where somebody else says which K."""
    c, running, settles = state.c, state.c[RUNNING], len(t.contexts) == 1
    counted = c[SCHEDULED] if limits.counts_scheduled else running
    if counted == c[SETTLED]:
        return True
    batch = max(1, counted)
    if limits.is_steered:
        if c[STEERED] < 0:
            c[BATCH] = batch
            return False
        wanted = c[STEERED]
        c[STEERED] = -1
    else:
        nearest = 0
        if not settles:
            context = c[CACHED] / running if running else t.contexts[0]
            for at in range(len(t.contexts)):
                if abs(t.contexts[at] - context) < abs(t.contexts[nearest] - context):
                    nearest = at
        wanted = int(t.wanted[nearest][batch])
    if wanted == c[NUMBER]:
        c[ASKED_FOR], c[SETTLED] = 0, counted if settles else -1
        return True
    c[SETTLED] = -1
    c[ASKED_FOR] = c[ASKED_FOR] + 1 if wanted == c[WANTED] else 1
    c[WANTED] = wanted
    if not running or c[ASKED_FOR] >= limits.hold:
        switch(t, state, wanted)
    return True


def switch(t: Tables, state: State, wanted: int) -> None:
    """Another variant runs; another strategy starts as new requests do."""
    c, of, before, running = state.c, t.of, state.c[NUMBER], state.c[RUNNING]
    request, row, kind = state.sequences[2, :running], state.sequences[4, :running], state.sequences[5, :running]
    c[NUMBER], c[ASKED_FOR], c[SURELY] = wanted, 0, 0
    in_state, kinds = row - kind, t.kinds[wanted]
    if len(kinds) > 1:
        kind[:] = kinds[request.astype(np.int64)] * of.states[wanted]
    else:
        kind[:] = kinds[0] * of.states[wanted]
    if of.name[before] != of.name[wanted]:
        in_state[:] = of.joins_in[wanted]
        c[FORCED] = of.caches[wanted] * (running > 0)
    row[:] = kind + in_state


# rounds


def log(state: State, seconds: float, decoding: int, bits: int, of_prompts: int) -> None:
    """A round's line, after :data:`ssdsim.serving.journal.ROUND`."""
    c, f, line = state.c, state.f, state.journal[state.c[LOGGED]]
    start = f[NOW]
    f[NOW] = start + seconds
    line[0], line[1], line[2], line[3] = start, f[NOW], decoding, c[RUNNING] + c[PROMPTS]
    still = 0 if decoding else c[RUNNING]
    line[4], line[5], line[6], line[7] = bits, c[NUMBER], of_prompts, still
    c[LOGGED] += 1
    c[ROUND] += 1
    c[SCHEDULED] = decoding + still + c[PARTS]


def lacks_numbers(state: State, outcomes: int, looks: int) -> bool:
    """Whether random numbers end before a round: those of its outcomes, then those of the first look-ups."""
    c, left = state.c, state.uniforms.size - state.c[DRAWN]
    c[KEPT], c[WANTING] = (0, outcomes) if outcomes > left else (outcomes, looks)
    return bool(outcomes + looks > left)


def set_of(counts: Integers) -> int:
    """The states that some sequence is in, as bits."""
    among = 0
    for state in range(counts.size):
        if counts[state]:
            among |= 1 << state
    return among


def bits_of(questions: Any, count: int, before: int, after: int) -> int:
    """Answers to what a strategy asks, by the sets of states in which sequences begin and end the round."""
    bits = 0
    for at in range(count):
        bit, ends, state = questions[at]
        if (after if ends else before) >> state & 1:
            bits |= bit
    return bits


def first_lookups(t: Tables, limits: Limits, state: State, v: int, outcomes: int) -> int:
    """How many of the prompts that end miss in the speculation cache first; none where nothing is cached."""
    c, misses = state.c, 0
    for at in range(c[ENDED]):
        missed = t.of.caches[v] > 0
        if missed and limits.guesses:
            missed = state.uniforms[c[DRAWN] + outcomes + at] >= t.of.p_hit[v]
        state.missed[at] = missed
        misses += missed
    return int(misses)


def alike(t: Tables, limits: Limits, columns: RequestColumns, state: State, horizon: float) -> int:
    """Rounds in which every sequence makes as many tokens, until one ends or somebody comes."""
    c, f, v, running, left = state.c, state.f, state.c[NUMBER], state.c[RUNNING], state.sequences[0]
    each = t.of.tokens_of_certain[v]
    rounds = -(-int(left[:running].min()) // each)
    held, tokens = running + c[PROMPTS], c[CACHED] + c[PROMPT_TOKENS]
    if len(t.of.steps) > 1 or not surely_fit(t.ledgers[v], held, tokens + rounds * running * each):
        rounds = 1
    if c[LOGGED] + rounds > len(state.journal):
        c[WANTING] = rounds
        return JOURNAL
    context, start, logged, first, done = c[CACHED] / running, f[NOW], c[LOGGED], c[ROUND], 0
    bits = bits_of(t.questions[v], t.of.question_count[v], _FIRST, _FIRST) if t.of.question_count[v] else 0
    while done < rounds and (done == 0 or f[NOW] < horizon):
        f[CONTEXT] = context + done * each
        c[NODE] = node_of(t.nodes[v], f[CONTEXT], c[NODE])
        seconds = line_s(t, v, c[NODE], running, f[CONTEXT], bits) * limits.stretch
        if isnan(seconds):
            f[NOW], c[LOGGED], c[ROUND], c[BITS] = start, logged, first, bits
            return LINE
        log(state, seconds, running, bits, 0)
        done += 1
    state.round_tokens[:running] = each
    c[HEARD], c[ALIKE] = running, 1
    left[:running] -= done * each
    c[CACHED] += done * each * running
    c[SURELY] = max(0, c[SURELY] - done)
    retire(t, columns, state, f[NOW])
    return DONE


def prompts_alone(t: Tables, limits: Limits, state: State) -> int:
    """A pass over prompts; nothing is decoded."""
    c, f, v = state.c, state.f, state.c[NUMBER]
    looks = c[ENDED] if t.of.caches[v] and limits.guesses else 0
    if looks and lacks_numbers(state, 0, looks):
        return NUMBERS
    c[BATCH] = first_lookups(t, limits, state, v, 0)
    seconds = f[PRICE] if f[PRICE] >= 0.0 else prompts_s(t, state, v, c[BATCH])
    if isnan(seconds):
        return PROMPTS_PRICE
    c[DRAWN] += looks
    log(state, seconds * limits.stretch, 0, 0, tokens_of(state.chunks, c[PARTS]))
    return DONE


def decode(t: Tables, limits: Limits, columns: RequestColumns, state: State) -> int:
    """One round of what runs, with parts of prompts of which some end."""
    c, f, v, running, of = state.c, state.f, state.c[NUMBER], state.c[RUNNING], t.of
    row, kind = state.sequences[4, :running], state.sequences[5, :running]
    certain, states, caches, joins_in = of.tokens_of_certain[v], of.states[v], of.caches[v], of.joins_in[v]
    looks = c[ENDED] if caches and limits.guesses else 0
    before, after, misses = _FIRST, _FIRST, running * (joins_in == 0)
    if certain:
        if looks and lacks_numbers(state, 0, looks):
            return NUMBERS
        tokens, after_row = np.full(running, float(certain)), row
    else:
        if c[DRAWN] + running + looks > state.uniforms.size and lacks_numbers(state, running, looks):
            return NUMBERS
        if of.shares_chances[v] and not c[MOVED]:
            return CHANCES
        place = state.uniforms[c[DRAWN] : c[DRAWN] + running]
        if states * of.kinds[v] > 1:
            place = place + row
        drawn = np.searchsorted(t.cdf[v], place, side="right")
        tokens, after_row = t.tokens[v][drawn], row
        if of.asks_before[v]:
            before = set_of(np.bincount((row - kind).astype(np.int64), minlength=states))
        if states > 1:
            in_state = t.state[v][drawn]
            counts = np.bincount(in_state, minlength=states)
            after, misses, after_row = set_of(counts), int(counts[joins_in]), kind + in_state
    bits = bits_of(t.questions[v], of.question_count[v], before, after) if of.question_count[v] else 0
    forced = first_lookups(t, limits, state, v, 0 if certain else running) if c[ENDED] else 0
    if c[FORCED] or forced:
        bits |= of.miss_bit[v]
    f[CONTEXT], c[BITS] = c[CACHED] / running, bits
    at = c[NODE] = node_of(t.nodes[v], f[CONTEXT], c[NODE])
    seconds, of_prompts = f[PRICE], 0
    if c[PARTS]:
        of_prompts = tokens_of(state.chunks, c[PARTS])
    if seconds < 0.0:
        if f[LATE] > 0.0:
            return ROUND_PRICE
        seconds = mixed_s(t, state, v, bits) if c[PARTS] else line_s(t, v, at, running, f[CONTEXT], bits)
    if isnan(seconds):
        return ROUND_PRICE if c[PARTS] else LINE
    log(state, seconds * limits.stretch, running, bits, of_prompts)
    state.sequences[0, :running] -= tokens
    if not certain:
        c[DRAWN] += running
        if states > 1:
            row[:] = after_row
    if limits.is_steered:
        state.round_tokens[:running] = tokens
    c[DRAWN] += looks
    c[LOOKUPS] += caches * running
    c[MISSES] += caches * misses
    c[CACHED] += int(np.dot(tokens, state.ones[:running]))  # sooner than their sum
    c[FORCED] = c[MOVED] = 0
    c[HEARD] = running
    if c[SURELY]:
        c[SURELY] -= 1
    else:
        retire(t, columns, state, f[NOW])
    return DONE


def one_round(t: Tables, limits: Limits, columns: RequestColumns, state: State, horizon: float) -> int:
    """A round, or several that are all alike, which end before anybody comes at the horizon.

    Where it needs somebody else, nothing is done yet, and it begins again where it was.
    """
    c, f = state.c, state.f
    if c[PHASE] == 0:
        if c[HEAD] < c[TAIL]:
            admit(t, limits, columns, state, f[NOW])
        c[PHASE] = 1
    if c[PHASE] == 1:
        if len(t.of.steps) > 1 and not choose(t, limits, state):
            return STEERING
        ledgers = t.ledgers[c[NUMBER]]
        if not surely_fit(ledgers, c[RUNNING] + c[PROMPTS], c[CACHED] + c[PROMPT_TOKENS]):
            make_room(ledgers, columns, state)
        c[PHASE] = 2
    v, running = c[NUMBER], c[RUNNING]
    c[PARTS] = c[ENDED] = c[HEARD] = c[ALIKE] = 0
    if c[PROMPTS]:
        next_chunks(limits, state, t.of.queries[v])
    if running == 0 and c[PARTS] == 0:
        c[PHASE] = 0
        return DONE  # who came had its only token where its prompt was processed
    if c[LOGGED] >= len(state.journal):
        c[WANTING] = 1
        return JOURNAL
    if c[PARTS] and (running == 0 or limits.has_priority):
        why = prompts_alone(t, limits, state)
    elif t.of.tokens_of_certain[v] and c[PARTS] == 0 and not c[FORCED]:
        why = alike(t, limits, columns, state, horizon)
    else:
        why = decode(t, limits, columns, state)
    if why == DONE:
        for at in range(c[PARTS]):
            request, done, tokens = state.prompts[at]
            state.prompts[at] = request, done + state.chunks[at][0], tokens
        if c[ENDED]:
            join_all(t, limits, columns, state, f[NOW])
        c[PHASE], f[PRICE] = 0, -1.0
    return why


def advance(
    t: Tables, limits: Limits, columns: RequestColumns, state: State, until: int, horizon: float, rounds: int
) -> int:
    """So many rounds, one after the other, until ``until`` requests came or none is left; why they end.

    The last ones end before ``horizon``, where somebody else offers requests.
    """
    c, f, comes_s = state.c, state.f, columns.comes_s
    come = len(comes_s)
    while rounds > 0:
        if c[PHASE] == 0:
            if c[HEAD] == c[TAIL] and c[RUNNING] == 0 and c[PROMPTS] == 0:
                if c[CAME] == come:
                    break
                f[NOW] = max(f[NOW], comes_s[c[CAME]])
            first = last = c[CAME]
            while last < come and comes_s[last] <= f[NOW]:
                last += 1
            if last > first:
                offer(limits, columns, c, first, last)
                c[CAME] = last
            if c[CAME] >= until:
                break
            if c[HEAD] == c[TAIL] and c[RUNNING] == 0 and c[PROMPTS] == 0:
                continue
        why = one_round(t, limits, columns, state, comes_s[c[CAME]] if c[CAME] < come else horizon)
        if why != DONE:
            return why
        rounds -= 1
        if limits.is_steered and c[HEARD]:
            return HEARING
    return DONE
