"""What a round is: outcomes, blocks of rounds, the mean round of a strategy."""
