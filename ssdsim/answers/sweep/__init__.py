"""How a sweep is done: its points, who works on them, and the folder that keeps them."""
