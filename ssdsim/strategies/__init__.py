"""AR, SD and SSD: one file a strategy, each with its closed form."""
