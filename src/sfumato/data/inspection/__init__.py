"""Inspect a table: guess roles, find who is unique, and estimate the re-identification risk."""

from sfumato.data.inspection.table import Inspection, inspect

__all__ = ["Inspection", "inspect"]
