"""One self-contained interactive HTML page from a run folder."""
