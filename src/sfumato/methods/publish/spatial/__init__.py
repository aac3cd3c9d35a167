"""Private spatial decompositions: trees of boxes that follow the data, with noisy counts."""
