"""Runtimes: what an engine adds to the kernels of its passes, one card an engine and range of versions."""
