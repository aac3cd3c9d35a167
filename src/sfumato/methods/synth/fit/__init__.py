"""Fits: from a log of noisy tables to a distribution."""
