"""Runs the operations for real: one process a rank, through torch."""
