"""What proposes tokens: the interface between strategies and drafters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ssdsim.option import Option
from ssdsim.pricing.memory import Demand
from ssdsim.pricing.site import Site
from ssdsim.pricing.step import Piece
from ssdsim.speculation.accepted import Accepted


class Drafter(Protocol):
    """A model, a head, a look-up of n-grams: whatever drafts tokens for a strategy to verify.

    ``options`` are the drafter's own. ``needs_device`` is False where it runs on the host: it then occupies no GPU,
    wherever a strategy would put it, and holds no memory there.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def options(self) -> tuple[Option, ...]: ...
    @property
    def needs_device(self) -> bool: ...

    def speculate(self, site: Site, tokens: int, beside: bool) -> tuple[Piece, ...]:
        """Draft ``tokens`` tokens of every sequence, one after the other.

        ``beside`` the target on its devices, or on a device of its own.
        """
        ...

    def prespeculate(self, site: Site, tokens: int, branches: int) -> tuple[Piece, ...]:
        """Draft ``tokens`` tokens for each of ``branches`` outcomes a sequence, on one device of its own."""
        ...

    def accepted(self, options: Mapping[str, Any], tokens: int) -> Accepted:
        """How many of ``tokens`` drafted tokens are accepted."""
        ...

    def demand(self, site: Site, tokens: int, branches: int) -> Demand:
        """Bytes on the device that it runs on, with ``branches`` cached outcomes a sequence."""
        ...
