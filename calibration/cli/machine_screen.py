"""What ``ssdsim import llama-bench`` made, on a screen and as JSON: passes by rows, and the next command."""

from __future__ import annotations

from typing import Any

from calibration.importers.llama_bench import Machine
from calibration.importers.llama_models import TimedModel
from ssdsim.cli.console import console, echo, print_each, print_labelled
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.catalog import short_hardware_name


def print_machine(machine: Machine, quiet: bool) -> None:
    """The passes of each model, what was assumed, and what to ask next."""
    out, device = console(), machine.profile.device
    reached = f"{device.memory_bytes / 2**30:.1f} GiB at {device.memory_bandwidth / 1e9:.0f} GB/s"
    out.print(f"{machine.profile.name}: {device.name}, {reached}", style="bold")
    rows = sorted({rows for model in machine.models for rows in model.steps})
    table = TextTable(("ms a pass over so many rows", *map(str, rows)), pad_edge=True)
    for model in machine.models:
        table.add_row(f"{model.name}, {model.words}", *(_milliseconds(model, each) for each in rows))
    out.print(table)
    if quiet:
        return
    spread = machine.profile.spread
    between = machine.profile.gemm[machine.models[0].dtype].report
    if between is not None and between.rows_held_out:
        held_out = f"; a row by those beside it: {between.median_error:.1%} off"
    else:
        held_out = ""
    print_labelled(out, "Spread   ", f"{spread:.1%} from repeat to repeat{held_out}", "dim")
    print_each("warning: ", machine.remarks, "yellow")
    print_labelled(out, "Kept     ", f"{machine.output}{_for(machine)}")
    word = short_hardware_name(str(machine.output))
    if machine.profile.calibrated is not None:
        print_labelled(out, "Next     ", f"ssdsim predict --hardware {word}")
    else:
        print_labelled(out, "Next     ", f"add --draft-hardware {word}: SD drafts there")
    echo("")


def machine_json(machine: Machine) -> dict[str, Any]:
    """The machine for JSON."""
    return {
        "profile": str(machine.output),
        "device": machine.profile.device.name,
        "spread": machine.profile.spread,
        "per_layer_s": machine.runtime.host.per_layer_s,
        "models": [_model_json(model) for model in machine.models],
        "remarks": list(machine.remarks),
    }


def _model_json(model: TimedModel) -> dict[str, Any]:
    steps = [{"rows": rows, "seconds": seconds} for rows, seconds in model.steps.items()]
    return {"card": model.name, "dtype": model.dtype, "file_bytes": model.file_bytes, "passes": steps}


def _milliseconds(model: TimedModel, rows: int) -> str:
    return f"{1e3 * model.steps[rows]:.3g}" if rows in model.steps else ""


def _for(machine: Machine) -> str:
    made_for = machine.profile.calibrated
    return "" if made_for is None else f", for {made_for}"
