"""Top-k and top-p: which tokens a sampler leaves, of logits that are divided by the temperature already."""

from __future__ import annotations

import torch

from ssdsim.base.checks import Array, whole, within
from ssdsim.base.record import Record


class Cut(Record):
    """The ``top_k`` likeliest tokens, and of these the fewest with a mass of ``top_p``; 1 and None leave all.

    In the order of engines: temperature, top-k, top-p. Source: Holtzman et al., 2020, for top-p.
    """

    top_p: float = 1.0
    top_k: int | None = None

    def __post_init__(self) -> None:
        within("--top-p", self.top_p, 1e-9, 1.0)
        if self.top_k is not None:
            whole("--top-k", self.top_k, 1)

    @property
    def leaves_all(self) -> bool:
        return self.top_p == 1.0 and self.top_k is None

    def of(self, scaled: torch.Tensor) -> torch.Tensor:
        """Logits, shape ``(n, V)``, with minus infinity at what is left out; equal ones by token number."""
        if self.leaves_all:
            return scaled
        values, ids = scaled.sort(dim=-1, descending=True, stable=True)
        if self.top_k is not None:
            values[:, self.top_k :] = -torch.inf
        if self.top_p < 1.0:
            mass = torch.softmax(values, dim=-1)
            values = values.masked_fill(mass.cumsum(dim=-1) - mass >= self.top_p, -torch.inf)
        return torch.empty_like(scaled).scatter_(-1, ids, values)

    def of_array(self, scaled: Array) -> Array:
        """Cut an array's rows alike."""
        return scaled if self.leaves_all else self.of(torch.from_numpy(scaled)).numpy()


EVERYTHING = Cut()
