"""The few numbers of each position that are kept, of both models' logits, where the models run."""

from __future__ import annotations

import numpy as np
import torch

from calibration.pairs.measure.verification import EVERYTHING, Cut
from calibration.pairs.records import SCALES, Positions

_AT_ONCE = {"cpu": 2**16, "cuda": 2**24}
"""Numbers in a block of rows: what a core's cache holds, what keeps a GPU busy."""


@torch.inference_mode()
def positions_of(
    target: torch.Tensor,
    draft: torch.Tensor,
    tokens: torch.Tensor,
    temperature: float,
    top: int,
    cuts: tuple[Cut, Cut] = (EVERYTHING, EVERYTHING),
) -> Positions:
    """The numbers of the positions whose token is ``tokens[t]``, given both models' logits there, shape ``(n, V)``.

    ``cuts`` are what the samplers leave of target and draft; ranks are those of the draft's logits without it.
    At temperature 0 probabilities are those at 1: what decides are ranks alone. Equal logits rank by token number.
    ``above`` is then 1 wherever the token was not the draft's first choice, which was rejected.
    """
    rows = max(1, _AT_ONCE[target.device.type] // target.shape[-1])
    blocks = zip(*(torch.split(each, rows) for each in (target, draft, tokens)), strict=True)
    return Positions.joined([_block(p, q, came, temperature, top, cuts) for p, q, came in blocks])


def _block(
    target: torch.Tensor,
    draft: torch.Tensor,
    tokens: torch.Tensor,
    temperature: float,
    top: int,
    cuts: tuple[Cut, Cut],
) -> Positions:
    if temperature == 0.0:
        cuts = EVERYTHING, EVERYTHING
    p, q = (
        torch.softmax(cut.of(logits / (temperature or 1.0)), dim=-1)
        for cut, logits in zip(cuts, (target, draft), strict=True)
    )
    own = tokens[:, None]
    likelier = _likelier(draft, own)
    rank = likelier.sum(-1)
    if temperature == 0.0:
        above = (rank > 0).float()
    else:
        rejected = (q - p).clamp_(min=0.0)
        total = rejected.sum(-1)
        above = (rejected * likelier).sum(-1) / torch.where(total > 0.0, total, 1.0)
    ids = _top(draft, min(top, q.shape[-1]))
    top_q, top_p = q.gather(-1, ids), p.gather(-1, ids)
    numbers = {
        "token": tokens,
        "p": p.gather(-1, own)[:, 0],
        "q": q.gather(-1, own)[:, 0],
        "rank": rank,
        "target_rank": _likelier(target, own).sum(-1),
        "above": above,
        "overlap": torch.minimum(p, q).sum(-1),
        "entropy": torch.special.entr(p).sum(-1),
        "top_ids": ids,
        "top_q": top_q,
        "top_p": top_p,
        "tail_overlap": _scaled_overlap(p, q).sub_(_scaled_overlap(top_p, top_q)).clamp_(min=0.0),
    }
    return Positions(**{name: _on_host(values) for name, values in numbers.items()})


def _on_host(values: torch.Tensor) -> np.ndarray:
    whole = not values.is_floating_point()
    on_host: np.ndarray = values.to(torch.int32 if whole else torch.float32).cpu().numpy()
    return on_host


def _likelier(logits: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Mask of the tokens that rank above each row's own one, shape ``(n, V)``."""
    value = logits.gather(-1, own)
    earlier = torch.arange(logits.shape[-1], device=logits.device) < own
    return (logits > value).logical_or_((logits == value).logical_and_(earlier))


def _top(logits: torch.Tensor, top: int) -> torch.Tensor:
    """The likeliest tokens in the order of their ranks."""
    least = logits.topk(top, dim=-1).values[:, -1:]
    chosen = logits >= least
    if int(chosen.sum()) > len(logits) * top:  # of those that are as likely as the last one the first by token number
        above, equal = logits > least, logits == least
        chosen = above | (equal & (equal.cumsum(-1) <= top - above.sum(-1, keepdim=True)))
    tokens = chosen.nonzero()[:, 1].view(-1, top)
    order = logits.gather(-1, tokens).argsort(dim=-1, descending=True, stable=True)
    return tokens.gather(-1, order)


def _scaled_overlap(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """The sum of min(p, s q) for each of ``SCALES``, as q times a ratio that is cut at s; shape ``(n, scales)``."""
    ratio = p / q.clamp(min=torch.finfo(q.dtype).tiny)
    sums_at_scales = [torch.linalg.vecdot(ratio.clamp_(max=float(scale)), q) for scale in SCALES[::-1]]
    return torch.stack(sums_at_scales[::-1], dim=-1)


@torch.inference_mode()
def draw(logits: torch.Tensor, temperature: float, coins: np.ndarray, cut: Cut = EVERYTHING) -> list[int]:
    """A token of each row of ``logits``, shape ``(rows, V)``, by a number in [0, 1) each; the likeliest one at 0."""
    if temperature == 0.0:
        greedy: list[int] = logits.argmax(dim=-1).tolist()
        return greedy
    sums = torch.softmax(cut.of(logits / temperature), dim=-1, dtype=torch.float64).cumsum(dim=-1)
    at = torch.as_tensor(coins, device=logits.device)[:, None] * sums[:, -1:]
    drawn: list[int] = torch.searchsorted(sums, at, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1).tolist()
    return drawn
