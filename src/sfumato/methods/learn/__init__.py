"""Learning that does not leak: models made of noisy sums and counts alone."""
