"""What forward passes and messages cost on a profile, where models are placed, and whether they fit."""
