"""What a validation is made of: its grid, what timelines tell, comparisons, and the log."""
