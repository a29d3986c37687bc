"""A closed loop: so many requests in flight, each followed by the next as soon as it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from calibration.bench.answer import Answer
from calibration.bench.points import Point
from ssdsim.base.errors import InputError

Ask = Callable[[int, int, bool], Awaitable[Answer]]
"""Asks for an answer of so many tokens to a prompt of so many, which is measured or not."""


async def closed_loop(point: Point, ask: Ask) -> list[Answer]:
    """All answers of a point.

    Raises
    ------
    InputError : one failed; the others are given up.
    """
    answers: list[Answer] = []

    async def stream(number: int) -> None:
        for tokens, measured in point.lengths(number):
            answers.append(await ask(point.input_tokens, tokens, measured))

    try:
        async with asyncio.TaskGroup() as streams:
            for number in range(point.concurrency):
                streams.create_task(stream(number))
    except ExceptionGroup as errors:
        failed, others = errors.split(InputError)
        if failed is None or others is not None:
            raise
        raise failed.exceptions[0] from None
    return answers
