"""The calibrator: makes the cards that ssdsim reads, from this machine, real models, running servers and tables."""
