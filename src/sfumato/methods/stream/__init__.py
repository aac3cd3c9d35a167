"""Streams: counts released period by period, while later periods are still unknown."""
