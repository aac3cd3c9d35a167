"""Synthetic tables of the same shape, under differential privacy."""
