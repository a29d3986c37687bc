"""Which strategy is the fastest on as many GPUs, given what is known of acceptance: ranges, draws, verdict."""
