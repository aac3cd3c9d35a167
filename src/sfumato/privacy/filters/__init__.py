"""Budgets for adaptive use, kept by filters that stay valid when questions depend on answers."""

from sfumato.privacy.filters.budget import Budget, Charge, charge_from_record
from sfumato.privacy.filters.kinds import ApproxFilter, Filter, PureFilter, RenyiFilter, ZcdpFilter

__all__ = [
    "ApproxFilter",
    "Budget",
    "Charge",
    "Filter",
    "PureFilter",
    "RenyiFilter",
    "ZcdpFilter",
    "charge_from_record",
]
