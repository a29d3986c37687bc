"""The answers of a recommendation by batch, in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssdsim.advise.recommend.request import Request
from ssdsim.base.told import Told

if TYPE_CHECKING:
    from ssdsim.advise.recommend.answer import Answer

TITLE = "Tokens/s per user and per GPU by batch; P that no other strategy is better"


def told(request: Request, answers: tuple[Answer, ...], sentence: str) -> Told:
    """A row a batch: the best deployment, the runner-up, and how far they are apart."""
    costs = ["$/Mtoken"] if request.gpu_hour is not None else []
    best = ("best", "settings", "/user", "/GPU", *costs, "idle")
    header = ("batch", *best, "runner-up", "/user", "/GPU", "margin", "P")
    rows = [_row(request, answer) for answer in answers]
    return Told(TITLE, header, [row + ("",) * (len(header) - len(row)) for row in rows], sentence)


def _row(request: Request, answer: Answer) -> tuple[str, ...]:
    best, second, price = answer.best, answer.runner_up, request.gpu_hour
    if best is None:
        return str(answer.batch), "-"
    rival = [second.name, f"{second.per_user:.1f}", f"{second.per_gpu:.1f}"] if second else ["-", "", ""]
    return (
        str(answer.batch),
        best.name,
        best.settings,
        f"{best.per_user:.1f}",
        f"{best.per_gpu:.1f}",
        *([f"{best.cost_per_million(price):.2f}"] if price is not None else []),
        str(request.gpus - best.gpus),
        *rival,
        f"{answer.margin:+.1%}" if answer.margin is not None else "",
        f"{answer.probability:.2f}" if answer.probability is not None and second else "",
    )
