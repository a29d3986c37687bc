"""Benchmarks of whole engines as their users ran them: rows, where they come from, and what a runtime predicts."""
