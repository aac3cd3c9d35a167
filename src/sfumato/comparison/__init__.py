"""Releases of one table beside each other: what an attacker gets of each, and what it is good for."""
