"""A pair's models run for real, one rank each, beside what is predicted of them."""
