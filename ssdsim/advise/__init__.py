"""Searches of what to run: recommend, compare, schedule, and what to paste into an engine."""
