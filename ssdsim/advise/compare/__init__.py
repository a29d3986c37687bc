"""The fastest strategy on as many GPUs, under the same draws of all that is not known."""
