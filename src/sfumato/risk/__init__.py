"""Seeing the risk in a table: who is unique, who can be re-identified."""

from sfumato.risk.inspection import Inspection, inspect

__all__ = ["Inspection", "inspect"]
