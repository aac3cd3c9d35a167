"""Who stands out: roles guessed, uniqueness, the risk of being re-identified."""

from sfumato.data.inspection.table import Inspection, inspect

__all__ = ["Inspection", "inspect"]
