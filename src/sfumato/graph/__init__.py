"""Graphs of people: counts and degrees under differential privacy, for edges or for nodes."""
