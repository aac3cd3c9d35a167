"""Spark, where tables too large for one machine live."""
