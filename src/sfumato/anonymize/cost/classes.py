"""Costs that look at classes and suppressed rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.cost.base import Cost
from sfumato.anonymize.criteria.identity import KAnonymity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost.base import Bounds, PricedRelease
    from sfumato.anonymize.lattice.nodes import Node
    from sfumato.anonymize.problem import Problem
    from sfumato.data.counting.memory_limit import SizeCounts


class AverageClassSize(Cost):
    """N over the number of classes, suppressed rows being one more, in multiples of k.

    *Guarantee*: N / (released classes + 1 if anything is suppressed) / k.
    *Error*: one division.
    *Edges*: k = 1 where k-anonymity is not asked.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006, section 5, with suppression.
    """

    name = "average-class-size"

    def value(self, release: PricedRelease) -> float:
        """The cost of a release."""
        classes = len(release.sizes) + (release.suppressed > 0)
        return release.problem.rows / classes / release.problem.k

    def from_sizes(self, problem: Problem, original: SizeCounts) -> float:
        """Coarser nodes have no more classes."""
        return problem.rows / _most_of(problem, original) / problem.k

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

    def value(self, release: PricedRelease) -> float:
        """The cost of a release."""
        released = release.problem.rows - release.suppressed
        return released / len(release.sizes) / release.problem.k

    def from_sizes(self, problem: Problem, original: SizeCounts) -> float:
        """Coarser nodes have no more classes, and no more rows are suppressed than allowed."""
        rows = problem.rows - problem.allowed_rows
        return rows / _most_of(problem, original) / problem.k

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


def _most_of(problem: Problem, original: SizeCounts) -> int:
    """The same for all nodes, from the sizes of the classes of the original."""
    passing = original.sizes >= problem.smallest
    failing = int(original.rows[~passing].sum())
    most = int(original.classes[passing].sum()) + failing // problem.smallest + 1
    return min(len(original), most)


def _most_below(node: Node) -> int:
    """How many classes a finer node can release at most."""
    sizes = node.classes.sizes[~node.lacking]
    return int((sizes // node.problem.smallest).sum())


class Discernability(Cost):
    """The sum of |E|^2 over released classes E, plus N for each suppressed row.

    *Guarantee*: at least the sum of |E|^2 over all classes, which never falls as classes unite.
    *Error*: none; integers below 2^63.
    *Edges*: none.
    *Reference*: Bayardo and Agrawal 2005, section 3.
    """

    name = "discernability"

    def value(self, release: PricedRelease) -> float:
        """The cost of a release."""
        return int(release.sizes @ release.sizes) + release.suppressed * release.problem.rows

    def floor(
        self,
        problem: Problem,
        box: Sequence[slice],  # noqa: ARG002
        failing: Counts,
        upward: Bounds,
    ) -> Bounds:
        """The sum of squares, where rows that must be suppressed pay N instead of their share.

        A class that fails for its size alone has fewer than k rows, so its share is known.
        """
        floor: Bounds = np.maximum(upward, failing * float(problem.rows))
        sized = all(isinstance(criterion, KAnonymity) for criterion in problem.necessary)
        if sized and problem.people is None:
            floor = upward + failing * float(problem.rows - problem.k + 1)
        # Above 2^53 a float may lie above the integer it stands for.
        return floor if problem.rows**2 < 1 << 53 else floor * (1 - 1e-15)

    def from_sizes(self, problem: Problem, original: SizeCounts) -> float:  # noqa: ARG002
        """Uniting classes never lowers the sum of squares."""
        return float(original.squares)

    def upward(self, node: Node) -> float:
        """Uniting classes never lowers the sum of squares, and suppressing a class never does."""
        return float(node.classes.sizes @ node.classes.sizes)


class Suppressed(Cost):
    """The number of suppressed rows; among equals the lowest node wins.

    *Guarantee*: a count.
    *Error*: none.
    *Edges*: none.
    *Reference*: Samarati 2001 (MaxSup).
    """

    name = "suppressed"

    def value(self, release: PricedRelease) -> float:
        """The cost of a release."""
        return release.suppressed

    def floor(
        self,
        problem: Problem,  # noqa: ARG002
        box: Sequence[slice],  # noqa: ARG002
        failing: Counts,
        upward: Bounds,  # noqa: ARG002
    ) -> Bounds:
        """The rows that must be suppressed."""
        return failing.astype(np.float64)
