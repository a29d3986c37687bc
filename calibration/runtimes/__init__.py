"""Runtimes fitted to benchmarks of whole engines."""
