"""Simulation of rounds: events on SimPy's clock, or Monte Carlo without one."""
