"""A schedule in the words of the engines, one file a dialect."""
