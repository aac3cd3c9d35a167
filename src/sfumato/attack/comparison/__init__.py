"""Releases of one table beside each other: what attackers get, and what each is good for."""
