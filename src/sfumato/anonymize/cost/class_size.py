"""Costs that look at the number of classes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.cost.base import Cost

if TYPE_CHECKING:
    from sfumato.anonymize.cost.base import Release
    from sfumato.anonymize.node import Node


class AverageClassSize(Cost):
    """N over the number of classes, suppressed rows being one more, in multiples of k.

    *Guarantee*: N / (released classes + 1 if anything is suppressed) / k.
    *Error*: one division.
    *Edges*: k = 1 where k-anonymity is not asked.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006, section 5, with suppression.
    """

    name = "average-class-size"

    def value(self, release: Release) -> float:
        """The cost of a release."""
        classes = len(release.sizes) + (release.suppressed > 0)
        return release.problem.rows / classes / release.problem.k

    def upward(self, node: Node) -> float:
        """Coarser nodes have no more classes."""
        return node.problem.rows / _most_above(node) / node.problem.k

    def downward(self, node: Node) -> float:
        """Finer nodes split a class into pieces that are not too small."""
        return node.problem.rows / (_most_below(node) + 1) / node.problem.k


class CAvg(Cost):
    """Released rows over released classes, in multiples of k: C_AVG.

    *Guarantee*: (released rows / released classes) / k; 1 is the best that k-anonymity allows.
    *Error*: one division.
    *Edges*: k = 1 where k-anonymity is not asked; suppressing rows can lower it.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006, section 5.
    """

    name = "c-avg"

    def value(self, release: Release) -> float:
        """The cost of a release."""
        released = release.problem.rows - release.suppressed
        return released / len(release.sizes) / release.problem.k

    def upward(self, node: Node) -> float:
        """Coarser nodes have no more classes, and no more rows are suppressed than allowed."""
        problem = node.problem
        return (problem.rows - problem.allowed_rows) / _most_above(node) / problem.k

    def downward(self, node: Node) -> float:
        """Finer nodes split a class into pieces that are not too small."""
        problem = node.problem
        return (problem.rows - problem.allowed_rows) / max(_most_below(node), 1) / problem.k


def _most_above(node: Node) -> int:
    """How many classes a coarser node has at most, all suppressed rows being one.

    Each of its passing classes holds one that passes here, or is made of rows that fail here.
    """
    passing = len(node.classes) - int(np.count_nonzero(node.lacking))
    return min(len(node.classes), passing + node.failing // node.problem.smallest + 1)


def _most_below(node: Node) -> int:
    """How many classes a finer node can release at most."""
    sizes = node.classes.sizes[~node.lacking]
    return int((sizes // node.problem.smallest).sum())
