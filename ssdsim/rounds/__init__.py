"""Rounds: outcomes, blocks of rounds, the mean round of a strategy."""
