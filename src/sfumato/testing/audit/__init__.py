"""The auditor: detect a mechanism that leaks more than it claims, from its outputs alone.

A mechanism under audit is a callable ``(dataset, count, entropy)`` that returns `count`
independent outputs as an array of shape ``(count,)``, or ``(count, k)`` for outputs of k parts.
"""

from sfumato.testing.audit.features import Feature, lowest_bit, on_grid, reachable
from sfumato.testing.audit.fit import Fit, fit, fit_uniform
from sfumato.testing.audit.pairs import Pair, climb, neighbours, patterns, small_tables, worst
from sfumato.testing.audit.transcripts import largest_loss
from sfumato.testing.audit.verdict import Audit, Claim, Curve, audit, epsilon_bound, mu_bound

__all__ = [
    "Audit",
    "Claim",
    "Curve",
    "Feature",
    "Fit",
    "Pair",
    "audit",
    "climb",
    "epsilon_bound",
    "fit",
    "fit_uniform",
    "largest_loss",
    "lowest_bit",
    "mu_bound",
    "neighbours",
    "on_grid",
    "patterns",
    "reachable",
    "small_tables",
    "worst",
]
