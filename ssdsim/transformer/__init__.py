"""Transformer cards and the one list of operations of a forward pass."""
