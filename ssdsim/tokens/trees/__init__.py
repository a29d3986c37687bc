"""Trees of drafted tokens: their shape, how many of their tokens are accepted, and which tree is best."""
