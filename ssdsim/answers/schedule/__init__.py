"""Which strategy at which batch and context, with which settings: the search, and the file that holds the answer."""
