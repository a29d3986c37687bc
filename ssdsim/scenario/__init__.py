"""From options to a checked configuration."""
