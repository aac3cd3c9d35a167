"""Exact noise from the operating system's random bytes."""
