"""A tree of random questions, whose leaves each tell one class that was chosen for it.

Decision `learn-tables`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import Neighbours
from sfumato.methods.learn.bins import ClassCounter
from sfumato.methods.learn.model import words
from sfumato.methods.learn.row_sums import whole_row
from sfumato.methods.learn.splits import (
    SplitQuestions,
    SplitTrees,
    blank_tables,
    leaves_table,
    trees_facts,
)
from sfumato.privacy.mechanisms.selection import PermuteAndFlip

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.methods.learn.bins import BinnedSpace, ClassLabels
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Spending
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class RandomTree:
    """Draw questions without looking at rows, and choose the class of every leaf by its count.

    *Guarantee*: the price in full, as a pure epsilon, for all leaves together: a choice with scores
    that a person moves by w costs rate w, and a person's weights over all leaves add up to m rows.
    *Sensitivity*: m rows a person over all leaves; adding a person moves no count down. Replaced
    people are taken away and added: twice as much, for which the rate is halved.
    *Error*: the class of a leaf has at most log(classes / beta) / rate rows fewer than the
    commonest, with probability at least 1 - beta; `error` states that for 5 %.
    *Edges*: rows without a declared class are left out. In leaves without rows every class has the
    same chance to be told. It tells classes without chances.
    *Reference*: McKenna & Sheldon 2020 for the choice; Jagannathan, Pillaipakkamnatt & Wright 2009
    for random questions.
    """

    request: LearningRequest
    space: BinnedSpace
    labels: ClassLabels
    spending: Spending
    depth: int

    @cached_property
    def choice(self) -> PermuteAndFlip:
        """The choice of a leaf's class; all leaves together cost it once."""
        unit = self.request.unit
        return PermuteAndFlip(
            epsilon=self.spending.pure_epsilon(),
            candidates=len(self.labels),
            sensitivity=Fraction(unit.max_rows * whole_row(unit)),
            monotone=unit.relation is Neighbours.ADD_REMOVE,
        )

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.choice.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How it is grown."""
        told = {"bins": list(self.space.sizes), "classes": words(self.labels)}
        return {**told, "growth": "random", "depth": self.depth}

    @property
    def error(self) -> Mapping[str, Any]:
        """How many rows of a leaf fewer are told rightly than could be."""
        return {"rows_missed": {"bound95": self.choice.bound(0.05) / whole_row(self.request.unit)}}

    @property
    def facts(self) -> Mapping[str, Any]:
        """How columns are read, and which classes there are."""
        return trees_facts(self.space, self.labels, 1, 0.0)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row."""
        return blank_tables(self.space, self.labels)

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The questions, and one row of the class that each leaf tells. Weights need no salt."""
        tree = SplitTrees.drawn(SplitQuestions(self.space), 1, self.depth, entropy)
        counter = ClassCounter(salted.data, self.space, self.labels)
        (counts,) = counter.tables(tree.leaves, layer=tree.layer())
        chosen = self.choice.sample(counts.T, entropy)
        told = np.zeros((1, *counts.T.shape))
        told[0, np.arange(len(chosen)), chosen] = 1
        return {"splits": tree.table(), "leaves": leaves_table(self.labels, told)}
