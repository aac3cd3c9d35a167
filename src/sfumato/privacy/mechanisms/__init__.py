"""Differentially private mechanisms, one per module."""
