"""Sweeps: their points, who works on them, and the folder that keeps them."""
