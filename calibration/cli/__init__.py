"""The command line of the calibrator, one module a verb."""
