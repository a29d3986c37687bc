"""Drives a running server as its users do, and makes rows of what it did."""
