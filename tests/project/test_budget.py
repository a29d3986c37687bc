"""Each room of the two houses has a budget of lines and files: what is added has to find what it replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from site_generator.shown import PROJECT

# room: (lines, files of more than three lines). A room whose budget rises says why, in a sentence beside it.
BUDGETS = {
    # One rule for recommend and export, the command for all loads, who keeps up.
    # GPUs of two kinds; the gain of C is over the best without it.
    # Watts of a deployment.
    # Degrees that share a cache.
    # Flags of stages.
    # Switches of how engines test drafts.
    "ssdsim/advise": (4_599, 20),
    # Each at its own best, at many points at once; how sure, where it turns, each C; arguments of Python's calls.
    # Joules, from a replay that counts steps.
    # Where else a draft would do as well.
    # The rate of all microbatches of a batch.
    # A device of its own whose step differs by round has no clock.
    "ssdsim/answers": (5_817, 31),
    # Limits of files, what is JSON; spellings in Python; all that a card lacks, the road to one that is not there;
    # bytes that are no text.
    # What small files unpack to; a disk without room has a name.
    # What cannot run, apart from what has no room, and what would have it.
    "ssdsim/base": (2_653, 22),
    # SLOs below an idle pass, a plan's range; what plan searched; former names, next commands; memory that runs out.
    # GPUs of two kinds.
    # Joules.
    # A card that stays idle.
    # Signals at the very end.
    # How prompts are processed, and why.
    # The next command keeps the context and the acceptance; why SSD is not in a table of all strategies.
    # The rule of acceptance.
    # GPUs of all stages.
    # Ctrl-C while modules load.
    # Who cannot run, beside who has no room.
    # Outputs of a command that have one path, an engine's table without AR.
    # Stages of a replica.
    # Nothing to paste, what stands alone, a point that is not possible.
    "ssdsim/cli": (4_990, 30),
    # Names of GPUs, what attention reads at best, errors by region, who speaks for small messages and for a rack.
    # GGUF files found, runtimes beside profiles.
    # Sparse attention: an indexer, and attention to what it chose; blocks of MiniMax-M3; each engine's own kernels, and
    # what stands in for those that nobody timed.
    # Compressed attention in decoding and over prompts, and streams that are mixed.
    # Watts, by the load of memory and arithmetic.
    # Collectives through the host's memory; what an engine keeps from its caches.
    # GPUs of another maker.
    # Rounds of hybrids that no row tells.
    # Published links between machines.
    # What an engine drafts with over stages.
    # Numbers of a runtime, versions of an engine: a file each.
    # What of an engine is newer than a version; checkpoints by their configs, and timings that few models read;
    # compressed attention by engine.
    # A device, apart from what was timed on it.
    "ssdsim/hardware": (5_211, 27),
    # Prompts in passes that decode, query heads that share keys; the mean over how many of a batch found something;
    # what memory and arithmetic leave of an engine's factors, and drafts over several devices.
    # A host's CPU, which is no GPU.
    # A pass on the kernels of its engine.
    # Two passes on one device: what it hides of them, and how sure that is.
    # Devices that share a cache.
    # Messages over the link of another profile.
    # Stages: a pass that crosses them, who waits for whom, what each holds.
    # Rounds over stages that draft nothing.
    # Each sequence on one device, where that has room.
    # A refusal names only degrees that were timed.
    "ssdsim/pricing": (2_289, 10),
    # Formats that names say, names of scenarios, defaults of engines and profiles, engines without C, few devices.
    # A draft's own device, placeholders, engines of files.
    # The format of a draft beside a file.
    # A warning of rounds that no row tells.
    # Heads fall no further than the longest context measured.
    # Devices that share a cache.
    # Rules of acceptance: what each adds, and where it adds nothing.
    # The link to a draft by its name.
    # Stages, their link, what engines lack on them.
    # Versions that have what a stated one is too old for.
    # A word that leaves a value to a search; a draft that may share the target's devices; a drafter that an engine has.
    # Who cannot run, beside who has no room.
    # What some points of a grid go without.
    # Mixes in columns.
    # Shares under draws, over other states too.
    "ssdsim/question": (4_573, 23),
    # Facts held against options, texts that people paste, a file a reader, rows of any strategy.
    "ssdsim/readers": (4_840, 30),
    # Doubts that sliders move, sentences of stops, and rounds that ran come first; C is a control of its own.
    # Names that are no markup.
    "ssdsim/reports": (5_590, 30),
    # What a look at a slot finds in the long run.
    # Microbatches.
    # Rounds without drafts, and with drafts that end early.
    # Kinds of requests as one kernel, whose renewal goes in blocks.
    "ssdsim/rounds": (1_375, 6),
    # Numbers of a run that are none; no link out of a folder, no folder of what is refused.
    # Headers in place of weights.
    # No lock that is left.
    "ssdsim/runs": (1_061, 6),
    # How many replicas an SLO needs and on which degrees, K at the load; short logs repeated.
    # Prompts as the engine takes them.
    # A cache that takes as much at any context.
    # Settings that follow the batch, or do not, of one strategy.
    # Requests over pipeline stages: who is described, a prompt's way through them, the room of passes.
    "ssdsim/serving": (6_880, 26),
    # Saguaro's C, targets out of step, MineDraft's clock, Domino.
    # Devices of two kinds.
    # SSD's draft on its target's device.
    # PEARL's gamma as engines choose it, and what that loses to the best.
    # No rule of acceptance is described for trees.
    # A draft that serves microbatches; a tree over stages.
    # Drafts that end early, and a floor of acceptance.
    # Drafts that end early, refused over stages.
    # What cannot run, apart from what has no room.
    # A search whose trees of all sizes are one.
    "ssdsim/strategies": (5_878, 37),
    # Priors of acceptance, and what Saguaro's C makes of acceptance and hits.
    # Rules of acceptance, with what was published of them.
    # Trees by number, and what a draft made of each.
    # Kinds of requests in columns; trees of all sizes at once.
    "ssdsim/tokens": (3_530, 22),
    # Names of checkpoints, activations of a device; a GRU after a block.
    # Headers of GGUF files.
    # Sparse attention's operations, over prompts too, and its cache; attention to blocks, and MiniMax-M3's config.
    # Compressed attention's layers and operations, streams, and the configs of three families.
    # What engines keep from caches; how far layers see.
    # Attention of devices that share a cache, and what they exchange.
    # Degrees, apart from what each device computes.
    "ssdsim/transformer": (5_012, 24),
    # One deadline for all that a server sends, and each of its fields read as a file's is; a plan as data.
    "calibration/bench": (1_380, 7),
    # First screens of bench, fit and measure; what comes after a calibration; a plan as data; formats of rows.
    "calibration/cli": (2_600, 14),
    # Links by what nvidia-smi says of pairs, runs on other devices told apart; blocks of sparse attention;
    # a user's own models by llama-bench; blocks by engine and of MiniMax-M3; blocks of compressed attention.
    # Watts, where a table has them; experts and latent attention in a plain CSV.
    # What small files unpack to.
    "calibration/importers": (3_763, 19),
    # What other programs take of the cores, sides that say nothing for long; names of devices on ROCm and Metal.
    "calibration/machine": (2_390, 14),
    # A file that says that the hub is offline.
    "calibration/pairs": (3_495, 19),
    # Versions, mixed passes; which rows tell a number or a version, and where a fit ends.
    # Rows of a version that the card knows.
    "calibration/runtimes": (1_136, 5),
    # What a calibration is for where nobody says it; whether the latency was timed.
    # Launches that a table does not show.
    # Blocks of sparse attention, of tokens and of blocks; blocks of compressed attention.
    # Devices with another name.
    "calibration/timings": (3_721, 23),
    # Runs as the profile was calibrated; a hit law of all pairs, trees of tables, batches; trees that no guesses make.
    # Options of validate pair where there is no torch.
    # One device runs what needs no other.
    "calibration/validation": (3_039, 14),
}
_EMPTY = 3  # lines of a file that only says what its folder is for


def lengths(folder: Path) -> list[int]:
    """Lines of each module; the build makes ``typed_options.py``."""
    return [path.read_text().count("\n") for path in folder.rglob("*.py") if path.name != "typed_options.py"]


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_keeps_to_its_budget(room: str) -> None:
    lines, files = BUDGETS[room]
    found = lengths(PROJECT / room)
    assert sum(found) <= lines
    assert sum(length > _EMPTY for length in found) <= files


def test_every_room_has_a_budget() -> None:
    folders = [
        path
        for house in ("ssdsim", "calibration")
        for path in (PROJECT / house).iterdir()
        if (path / "__init__.py").exists()
    ]
    assert {str(path.relative_to(PROJECT)) for path in folders} == BUDGETS.keys()
