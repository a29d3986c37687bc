"""Rounds of a replica without Python between them, on arrays.

Plain functions, which numba compiles where it works. They do what comes often in
:class:`ssdsim.serving.replica.Replica`. Where a price was never asked for, a cache may be full or random
numbers end, they leave the round to it. All stand in one file: numba finds its cache old by the function's own file.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, nan
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.extras import failure

Function = TypeVar("Function", bound=Callable[..., Any])
Whole = NDArray[np.int64]

IS_COMPILED = failure("numba") is None

CURVES = ("decoded", "beside", "alone", "heads", "attention", "host_decoding", "host_with_prompts")
"""Curves of a place where prompts are processed: their names in :class:`ssdsim.serving.passes.PromptTable`."""
DECODED, BESIDE, ALONE, HEADS, ATTENTION, HOST_DECODING, HOST_WITH_PROMPTS = range(len(CURVES))
CONSTANT, ADD, SUBTRACT, MULTIPLY, MAXIMUM = range(5)
"""Operations of a round's arithmetic."""


def _compiled(function: Function) -> Function:
    """Compile a function once for this machine, where numba works."""
    if not IS_COMPILED:
        return function
    from numba import njit

    try:
        return cast("Function", njit(cache=True)(function))
    except RuntimeError:  # no folder can be written to
        return cast("Function", njit(function))


class Counts(NamedTuple):
    """Whole numbers of variants, an array each, or of one variant."""

    steps: Any  # of a round
    states: Any
    tokens_of_certain: Any  # 0 where rounds differ
    questions: Any  # about states, whose answers are a round's bits
    asks_before: Any
    queries: Any  # of a sequence in the pass with the most
    joins_in: Any
    caches: Any
    miss_bit: Any
    name: Any  # of its strategy, as a number
    target: Any  # its place among the curves
    draft: Any  # -1 where no draft processes prompts
    apart: Any
    hidden: Any
    copies: Any


class Tables(NamedTuple):
    """All variants of a policy in arrays, the variant's number first. NaN is what nobody asked for yet."""

    of: Counts
    lines: Array  # [context, batch, bits]: seconds at the node, and by token
    steps: Array  # [context, batch, step]: the same
    nodes: Array
    queries: Whole  # [step]: tokens a sequence, of steps with a pass of the target
    drafting: Whole  # [step]: a draft processes prompts in it
    arithmetic: Array  # [bits, row]: an operation, two registers, a value
    rows: Whole  # [bits]
    host: Array  # [batch]
    curves: Array  # [place, curve, tokens]
    cdf: Array  # [row, outcome]
    tokens: Whole  # [outcome]
    state: Whole  # [outcome]
    kinds: Whole  # [request]
    asked: Whole  # [question]: its bit, whether the end of a round is meant, the state
    ledgers: Whole  # [ledger]: places that a sequence may waste, places in all
    wanted: Whole  # by the running sequences, the variant's number


class Columns(NamedTuple):
    """Columns of the requests, and those that wait, in the order in which they came."""

    arrival_s: Array  # when they can be offered
    todo: Whole
    total: Whole
    rejected: NDArray[np.bool_]
    scheduled_s: Array
    first_s: Array
    last_s: Array
    rounds: Whole
    forced_misses: Whole
    queue: Whole


class Limits(NamedTuple):
    """What an engine allows."""

    max_batch: int
    token_budget: int
    least_chunk: int
    longest: int  # tokens of a request that can be held
    stretch: float  # times as long as it would be


NUMBER, RUNNING, CACHED, PROMPTS, PROMPT_TOKENS, ROUND, MISSES = range(7)
LOOKUPS, FORCED, CAME, HEAD, TAIL, DRAWN, LOGGED, COUNTERS = range(7, 15)
"""Places of a replica's counters, and how many they are."""


@_compiled
def below(nodes: Array, context: float) -> int:
    """Place of the last node that is not above a context, or of the first one."""
    low, high = 0, nodes.size
    while high - low > 1:
        middle = (low + high) // 2
        if nodes[middle] <= context:
            low = middle
        else:
            high = middle
    return low


@_compiled
def line_s(lines: Array, nodes: Array, batch: int, context: float, bits: int) -> float:
    """A round in which nothing but decoding is done."""
    at = below(nodes, context)
    return float(lines[at, batch, bits, 0] + (context - nodes[at]) * lines[at, batch, bits, 1])


@_compiled
def over_cache_s(attention: Array, chunks: Whole, count: int) -> float:
    """Attention of parts of prompts."""
    seconds = 0.0
    for tokens, prefix in chunks[:count]:
        end = tokens + prefix
        seconds += attention[end] * (1.0 - prefix * (prefix + 1) / (end * (end + 1)))
    return seconds


@_compiled
def alone_s(curves: Array, chunks: Whole, count: int) -> float:
    """A pass over parts of prompts and nothing else."""
    total = chunks[:count, 0].sum()
    seconds = curves[ALONE, total] + curves[HEADS, count] + over_cache_s(curves[ATTENTION], chunks, count)
    return float(seconds + curves[HOST_WITH_PROMPTS, total])


@_compiled
def added_s(curves: Array, decoded: int, chunks: Whole, count: int) -> float:
    """What parts of prompts add to a pass over decoded tokens."""
    total = decoded + chunks[:count, 0].sum()
    share = decoded / total
    tokens_s = share * curves[BESIDE, total] + (1.0 - share) * curves[ALONE, total] - curves[DECODED, decoded]
    heads_s = curves[HEADS, decoded + count] - curves[HEADS, decoded]
    host_s = curves[HOST_WITH_PROMPTS, total] - curves[HOST_DECODING, decoded]
    return float(tokens_s + heads_s + over_cache_s(curves[ATTENTION], chunks, count) + host_s)


@_compiled
def mixed_s(t: Tables, v: int, batch: int, context: float, bits: int, chunks: Whole, count: int) -> float:
    """A round in whose verification parts of prompts are processed, too."""
    at = below(t.nodes[v], context)
    steps, rows = t.of.steps[v], t.rows[v, bits]
    register = np.empty(steps + rows)
    verified_s = np.inf
    for step in range(steps):
        seconds = t.steps[v, at, batch, step, 0] + (context - t.nodes[v, at]) * t.steps[v, at, batch, step, 1]
        if t.queries[v, step]:
            decoded = -(-batch // t.of.copies[v]) * t.queries[v, step]
            seconds += added_s(t.curves[t.of.target[v]], decoded, chunks, count)
            verified_s = min(verified_s, seconds)
        if isnan(seconds):
            return nan
        register[step] = seconds
    if t.of.draft[v] >= 0:
        draft_s = alone_s(t.curves[t.of.draft[v]], chunks, count)
        if isnan(draft_s):
            return nan
        if t.of.hidden[v]:
            draft_s = max(0.0, draft_s - verified_s)
        for step in range(steps):
            if t.drafting[v, step]:
                register[step] += draft_s
    for row in range(rows):
        operation, left, right = t.arithmetic[v, bits, row, :3].astype(np.int64)
        if operation == CONSTANT:
            made = t.arithmetic[v, bits, row, 3]
        elif operation == ADD:
            made = register[left] + register[right]
        elif operation == SUBTRACT:
            made = register[left] - register[right]
        elif operation == MULTIPLY:
            made = register[left] * register[right]
        else:
            made = max(register[left], register[right])
        register[steps + row] = made
    return float(register[steps + rows - 1])


@_compiled
def prompts_s(t: Tables, v: int, chunks: Whole, count: int, joins: int) -> float:
    """A pass over parts of prompts alone, after which so many requests look in a speculation cache in vain."""
    batch = max(1, joins)
    pass_s = alone_s(t.curves[t.of.target[v]], chunks, count) + t.host[v, batch]
    if t.of.draft[v] >= 0:
        draft_s = alone_s(t.curves[t.of.draft[v]], chunks, count)
        if isnan(draft_s):
            return nan
        if not t.of.apart[v]:
            pass_s += draft_s
        elif draft_s > pass_s:
            pass_s = draft_s
    if joins and t.of.miss_bit[v]:
        context = float((chunks[:count, 0] + chunks[:count, 1]).max())
        missed = line_s(t.lines[v], t.nodes[v], batch, context, t.of.miss_bit[v])
        pass_s += missed - line_s(t.lines[v], t.nodes[v], batch, context, 0)
    return float(pass_s)


@_compiled
def fits(ledgers: Whole, sequences: int, tokens: int) -> bool:
    """So many sequences and tokens fit, even if each wasted a block."""
    for at in range(len(ledgers)):  # noqa: SIM110  numba knows no generator
        if tokens + sequences * ledgers[at, 0] > ledgers[at, 1]:
            return False
    return True


@_compiled
def next_chunks(prompts: Whole, count: int, room: int, chunks: Whole) -> tuple[int, int]:
    """Write the parts of prompts of the next pass; how many they are, and how many prompts end in it."""
    parts = ended = 0
    for _, done, tokens in prompts[:count]:
        take = min(room, tokens - done)
        chunks[parts] = take, done
        parts += 1
        ended += done + take == tokens
        room -= take
        if room <= 0:
            break
    return parts, ended


@_compiled
def draw(cdf: Array, state_of: Whole, uniforms: Array, row: Array, drawn: Whole) -> int:
    """Outcomes of a round of each sequence, by the rows in which they are; the set of states in which they end it."""
    after = 0
    for at in range(row.size):
        own, outcome = int(row[at]), 0
        uniform = uniforms[at] + own
        while cdf[own, outcome] <= uniform:
            outcome += 1
        drawn[at] = outcome
        after |= 1 << state_of[outcome]
    return after


@_compiled
def states(row: Array, kind: Array) -> int:
    """The set of states in which sequences are."""
    before = 0
    for at in range(row.size):
        before |= 1 << int(row[at] - kind[at])
    return before


@_compiled
def bits_of(asked: Whole, before: int, after: int) -> int:
    """Answers to what a strategy asks, by the sets of states in which sequences begin and end the round."""
    bits = 0
    for at in range(len(asked)):
        if (after if asked[at, 1] else before) >> asked[at, 2] & 1:
            bits |= asked[at, 0]
    return bits


@_compiled
def join(t: Tables, columns: Columns, c: Whole, sequences: Array, prompts: Whole, ended: int, end: float) -> None:
    """Prompts that are done leave; their requests have their first token, and decode."""
    v = c[NUMBER]
    caches = t.of.caches[v]
    for request, _, tokens in prompts[:ended]:
        c[PROMPT_TOKENS] -= tokens
        if isnan(columns.first_s[request]):
            columns.first_s[request] = end
        left = columns.todo[request] - 1
        if left <= 0:
            columns.last_s[request] = end
            columns.todo[request] = 0
            continue
        columns.forced_misses[request] += caches
        total, kind = columns.total[request], t.kinds[v, request if t.kinds.shape[1] > 1 else 0] * t.of.states[v]
        own = sequences[:, c[RUNNING]]
        own[0], own[1], own[2], own[3] = left, total, request, c[ROUND]
        own[4], own[5] = kind + (t.of.joins_in[v] if caches else 0), kind
        c[RUNNING] += 1
        c[CACHED] += total - left
    for at in range(ended, c[PROMPTS]):
        prompts[at - ended] = prompts[at]
    c[PROMPTS] -= ended


@_compiled
def decode(
    c: Whole,
    sequences: Array,
    drawn: Whole,
    tokens: Whole,
    state_of: Whole,
    certain: int,
    several: bool,
    joins_in: int,
    caches: int,
) -> bool:
    """Each sequence has the tokens, and the state, that were drawn for it; say whether one has all of its tokens."""
    left, row, kind = sequences[0], sequences[4], sequences[5]
    leaves = False
    for at in range(c[RUNNING]):
        made, state = certain, 0
        if not certain:
            made, state = tokens[drawn[at]], state_of[drawn[at]]
            if several:
                row[at] = kind[at] + state
        c[MISSES] += caches * (state == joins_in)
        c[CACHED] += made
        left[at] -= made
        leaves |= left[at] <= 0
    if not certain:
        c[DRAWN] += c[RUNNING]
    c[LOOKUPS] += caches * c[RUNNING]
    c[FORCED] = 0
    return leaves


@_compiled
def retire(columns: Columns, c: Whole, sequences: Array, end: float) -> None:
    """Sequences that have all their tokens leave; the others keep their order."""
    stay = 0
    for at in range(c[RUNNING]):
        left = sequences[0, at]
        if left > 0:
            if stay < at:
                sequences[:, stay] = sequences[:, at]
            stay += 1
            continue
        request = int(sequences[2, at])
        c[CACHED] -= int(sequences[1, at] - left)
        columns.rounds[request] += c[ROUND] - int(sequences[3, at])
        columns.last_s[request] = end
        columns.todo[request] = 0
    c[RUNNING] = stay


@_compiled
def switch(t: Tables, c: Whole, sequences: Array, wanted: int) -> None:
    """Another variant runs; another strategy starts as new requests do."""
    states, before, running = t.of.states[wanted], c[NUMBER], c[RUNNING]
    c[NUMBER] = wanted
    another = t.of.name[before] != t.of.name[wanted]
    for at in range(running):
        state = t.of.joins_in[wanted] if another else sequences[4, at] - sequences[5, at]
        sequences[5, at] = t.kinds[wanted, int(sequences[2, at]) if t.kinds.shape[1] > 1 else 0] * states
        sequences[4, at] = sequences[5, at] + state
    if another:
        c[FORCED] = t.of.caches[wanted] * (running > 0)


@_compiled
def offer(columns: Columns, c: Whole, now: float, longest: int) -> None:
    """Requests that came wait; one that could never be held is rejected."""
    while c[CAME] < columns.arrival_s.size and columns.arrival_s[c[CAME]] <= now:
        request = c[CAME]
        c[CAME] += 1
        if columns.total[request] <= longest:
            columns.queue[c[TAIL]] = request
            c[TAIL] += 1
        else:
            columns.rejected[request] = True


@_compiled
def admit(ledgers: Whole, most: int, columns: Columns, c: Whole, prompts: Whole, now: float) -> bool:
    """First come, first served, while there is a place; say whether who is left lacks a place, not a block."""
    while c[HEAD] < c[TAIL] and c[RUNNING] + c[PROMPTS] < most:
        request = columns.queue[c[HEAD]]
        tokens = columns.total[request] - columns.todo[request]
        if not fits(ledgers, c[RUNNING] + c[PROMPTS] + 1, c[CACHED] + c[PROMPT_TOKENS] + tokens):
            return False
        c[HEAD] += 1
        if isnan(columns.scheduled_s[request]):
            columns.scheduled_s[request] = now
        prompts[c[PROMPTS]] = request, 0, tokens
        c[PROMPTS] += 1
        c[PROMPT_TOKENS] += tokens
    return True


@_compiled
def log(journal: Array, c: Whole, start: float, end: float, decoding: int, bits: int, of_prompts: int) -> None:
    """A round's line, after :data:`ssdsim.serving.journal.ROUND`."""
    line = journal[c[LOGGED]]
    line[0], line[1], line[2], line[3] = start, end, decoding, c[RUNNING] + c[PROMPTS]
    line[4], line[5], line[6], line[7] = bits, c[NUMBER], of_prompts, 0
    c[LOGGED] += 1
    c[ROUND] += 1


@_compiled
def alike(
    lines: Array,
    nodes: Array,
    c: Whole,
    rounds: int,
    each: int,
    stretch: float,
    now: float,
    horizon: float,
    journal: Array,
) -> float:
    """Rounds that differ in nothing, until somebody comes; NaN, and nothing done, without a price."""
    running, logged, first, done = c[RUNNING], c[LOGGED], c[ROUND], 0
    context = c[CACHED] / running
    while done < rounds and (done == 0 or now < horizon):
        seconds = line_s(lines, nodes, running, context + done * each, 0) * stretch
        if isnan(seconds):
            c[LOGGED], c[ROUND] = logged, first
            return nan
        log(journal, c, now, now + seconds, running, 0, 0)
        now += seconds
        done += 1
    return now


@_compiled
def advance(
    t: Tables,
    limits: Limits,
    columns: Columns,
    c: Whole,
    now: float,
    until: int,
    sequences: Array,
    prompts: Whole,
    uniforms: Array,
    journal: Array,
) -> float:
    """Rounds, one after the other, until ``until`` requests came or one cannot be done here; when the last ended."""
    chunks, drawn = np.empty((limits.max_batch, 2), dtype=np.int64), np.empty(limits.max_batch, dtype=np.int64)
    arrival_s, wanted, ledgers, of_lines, of_nodes = columns.arrival_s, t.wanted, t.ledgers, t.lines, t.nodes
    cdf, tokens, state_of, asked, of = t.cdf, t.tokens, t.state, t.asked, t.of
    left, rows, kinds = sequences[0], sequences[4], sequences[5]
    while c[LOGGED] < len(journal):
        if c[HEAD] == c[TAIL] and c[RUNNING] == 0 and c[PROMPTS] == 0:
            if c[CAME] == arrival_s.size:
                break
            now = max(now, arrival_s[c[CAME]])
        if c[CAME] < arrival_s.size and arrival_s[c[CAME]] <= now:
            offer(columns, c, now, limits.longest)
        if c[CAME] >= until:
            break
        v, running = c[NUMBER], c[RUNNING]
        if c[HEAD] < c[TAIL] and not admit(ledgers[v], limits.max_batch, columns, c, prompts, now):
            break
        if wanted.size > 1 and wanted[running] != v:
            v = wanted[running]
            switch(t, c, sequences, v)
        held, places = running + c[PROMPTS], c[CACHED] + c[PROMPT_TOKENS]
        if not fits(ledgers[v], held, places):
            break
        caches, certain = of.caches[v], of.tokens_of_certain[v]
        parts = ended = of_prompts = bits = 0
        if c[PROMPTS]:
            room = max(limits.least_chunk, limits.token_budget - running * of.queries[v])
            parts, ended = next_chunks(prompts, c[PROMPTS], room, chunks)
            of_prompts = chunks[:parts, 0].sum()
        if running == 0:
            if parts == 0:
                continue
            seconds = prompts_s(t, v, chunks, parts, ended * caches)
        elif certain and parts == 0 and not c[FORCED]:
            rounds = -(-int(left[:running].min()) // certain)
            if wanted.size > 1 or not fits(ledgers[v], held, places + rounds * running * certain):
                rounds = 1
            if c[LOGGED] + rounds > len(journal):
                break
            horizon, first = arrival_s[c[CAME]] if c[CAME] < arrival_s.size else np.inf, c[ROUND]
            then = alike(of_lines[v], of_nodes[v], c, rounds, certain, limits.stretch, now, horizon, journal)
            if isnan(then):
                break
            now, done = then, c[ROUND] - first
            left[:running] -= done * certain
            c[CACHED] += done * certain * running
            retire(columns, c, sequences, now)
            continue
        else:
            before, after = 0, 1
            if not certain:
                if c[DRAWN] + running > uniforms.size:
                    break
                if of.asks_before[v]:
                    before = states(rows[:running], kinds)
                after = draw(cdf[v], state_of[v], uniforms[c[DRAWN] :], rows[:running], drawn)
            bits = bits_of(asked[v, : of.questions[v]], before, after)
            if c[FORCED] or (ended and caches):
                bits |= of.miss_bit[v]
            context = c[CACHED] / running
            if parts:
                seconds = mixed_s(t, v, running, context, bits, chunks, parts)
            else:
                seconds = line_s(of_lines[v], of_nodes[v], running, context, bits)
        seconds *= limits.stretch
        if isnan(seconds):
            break
        log(journal, c, now, now + seconds, running, bits, of_prompts)
        now += seconds
        for at in range(parts):
            prompts[at, 1] += chunks[at, 0]
        if running:
            several, joins_in = of.states[v] > 1, of.joins_in[v]
            if decode(c, sequences, drawn, tokens[v], state_of[v], certain, several, joins_in, caches):
                retire(columns, c, sequences, now)
        if ended:
            join(t, columns, c, sequences, prompts, ended, now)
    return now
