"""Least squares over noisy counts: residuals of marginals, trees, nested blocks, boxes."""
