"""What drafts: heads, look-ups, one-pass drafters, and the target itself."""
