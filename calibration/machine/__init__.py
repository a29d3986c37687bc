"""The machine room: ranks, devices, captured graphs, transformer-shaped passes on real hardware (torch)."""
