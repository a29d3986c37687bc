"""What a source says of the run that it tells of. A reader maps a source's names to it, and does nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ssdsim.base.record import Record, field
from ssdsim.readers.row import Metric


class Facts(Record):
    """What a source says of its run, in its own words; None of what it does not say.

    ``model`` is the name that it was served by, or its file's; ``parameters`` and ``weight_bytes`` are its size, and
    ``weights`` the format of its weights. ``gpus`` is the tensor-parallel degree, of which the model may be in several
    ``stages``; ``gpu_layers`` are on the GPU. ``batch`` are the sequences in flight: ``counted``, or only a mean that
    follows from other numbers. ``arrivals`` is why it does not say them. ``speculated`` is False of what cannot, and
    of a run that certainly did not. ``usual_draft`` drafts where nobody names another; ``options`` are what else the
    run was told, by the names of a question's options.
    """

    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    parameters: float | None = None
    weight_bytes: float | None = None
    weights: str | None = None
    kv_dtype: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    stages: int = 1
    backend: Literal["cuda", "cpu", "another"] | None = None
    backend_name: str | None = None
    gpu_layers: int | None = None
    batch: int | None = None
    counted: bool = True
    arrivals: str | None = None
    speculated: bool | None = None
    k: int | None = None
    acceptance_length: float | None = None
    drafter: str | None = None
    draft: str | None = None
    usual_draft: str | None = None
    strategy: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    temperature: float | None = None

    @property
    def bits(self) -> float | None:
        """Of a weight, by the size of the file."""
        sized = self.parameters and self.weight_bytes
        return 8.0 * (self.weight_bytes or 0.0) / (self.parameters or 1.0) if sized else None


class RunSpeed(Record):
    """The speed that a source tells of, as :class:`Row` has it."""

    metric: Metric
    value: float
    input_tokens: float
    output_tokens: float
