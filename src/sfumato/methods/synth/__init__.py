"""Synthetic tables: choose what to measure, measure with noise, fit a distribution, draw rows."""
