"""Validation: its grid, timelines, comparisons, and the log."""
