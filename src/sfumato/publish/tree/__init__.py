"""Counts of blocks at several scales at once, made consistent by least squares in linear time."""
