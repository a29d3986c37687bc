"""Real models: what they write, what they make of an answer, and real loops of speculative decoding (torch)."""
