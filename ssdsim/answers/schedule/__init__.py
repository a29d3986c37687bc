"""Which strategy at which batch and context, and with which settings: the search, and the file of its answer."""
