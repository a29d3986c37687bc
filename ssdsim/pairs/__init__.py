"""Knowledge of a target and its draft as a pair: acceptance and hit rates, and the file that holds them."""
