"""Differentially private statistics for release: histograms, trees, maps, marginals, quantiles."""
