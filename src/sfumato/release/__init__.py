"""Releases: their tables, guarantee and side-cars, the recodings that make them, and the writer."""
