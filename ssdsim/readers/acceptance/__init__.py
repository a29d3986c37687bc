"""Readers of what engines log of their speculation, one file an engine."""
