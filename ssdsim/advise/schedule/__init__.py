"""A schedule, the strategy and settings for each batch and context: the search, and the file that holds it."""
