"""The protocol of a strategy, and rounds and options that several strategies or drafters share."""
