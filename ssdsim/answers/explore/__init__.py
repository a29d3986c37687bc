"""A page to play with: predictions on a grid, dense enough that what lies between its points can be interpolated."""
