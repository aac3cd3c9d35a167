"""Counting: every method sees rows only as counts of combinations, bounded by person."""
