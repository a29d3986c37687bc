"""Requests that arrive: the batch is an outcome, and so are waiting, tails, goodput and the rate that is too much."""
