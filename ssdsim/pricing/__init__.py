"""Costs of forward passes and messages on a profile, where models are placed, and whether they fit."""
