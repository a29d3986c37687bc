"""Readers of engines' benchmarks, one file an engine; each says in ``FORMATS`` which files are its own."""
