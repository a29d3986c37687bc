"""The records of options that are no strategy's or drafter's own, by what they are about."""
