"""The engines' parts: outcomes drawn in blocks, durations, devices, statistics, traces."""
