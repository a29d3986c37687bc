"""Scenarios: from options to a checked configuration."""
