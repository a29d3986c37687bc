"""Choosing a deployment: search, Pareto frontier, verdict at equal GPU count, break-even, what to improve."""
