"""Columns as small public domains and back: axes to count, and values, NULLs and keys to write."""
