"""Streams: figures told period by period, of which the next may be told without the rest known."""
