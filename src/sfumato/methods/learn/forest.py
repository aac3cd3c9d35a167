"""A forest: many trees of random questions, whose leaves are counted with noise.

Decision `learn-tables`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.learn.bins import (
    MOST_BINS,
    BinnedSpace,
    ClassCounter,
    ClassLabels,
    table_sensitivity,
)
from sfumato.methods.learn.model import words
from sfumato.methods.learn.naive_bayes import ASSUMED_ROWS, clarity
from sfumato.methods.learn.row_sums import whole_row
from sfumato.methods.learn.splits import (
    MOST_DEPTH,
    SplitQuestions,
    SplitTrees,
    TreesModel,
    blank_tables,
    leaves_table,
    trees_facts,
)
from sfumato.methods.options import whole
from sfumato.privacy.accounting.events import Repeated
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy

MOST_TREES = 256
_BINS, _DEPTH = 16, 5


@dataclass(frozen=True)
class Forest:
    """Draw questions without looking at rows, and count classes in the leaves of every tree.

    *Guarantee*: the price in full, in equal shares for the trees: every tree has every person. The
    leaves of one tree have different rows and cost once.
    *Sensitivity*: of a tree's leaves m rows a person in L1 and L2, 2 m and m sqrt(2) where people
    are replaced. SplitQuestions depend on nothing but the schema and chance.
    *Error*: `error` states how far a leaf's count is off.
    *Edges*: rows without a declared class are left out. Leaves without rows hold noise alone, which
    is believed little. One tree is a tree of random questions.
    *Reference*: Jagannathan, Pillaipakkamnatt & Wright 2009, on declared splits.
    """

    request: LearningRequest
    space: BinnedSpace
    labels: ClassLabels
    spending: Spending
    trees: int
    depth: int

    @cached_property
    def noise(self) -> Noise:
        """The noise of one tree's leaves."""
        return self.spending.noise(table_sensitivity(self.request.unit), Fraction(1, self.trees))

    @property
    def event(self) -> Event:
        """What it costs."""
        return Repeated(self.noise.event, self.trees)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many trees there are, and how deep they are."""
        told = {"bins": list(self.space.sizes), "classes": words(self.labels)}
        return {**told, "growth": "random", "depth": self.depth, "trees": self.trees}

    @property
    def error(self) -> Mapping[str, Any]:
        """How far the counts of leaves are off."""
        part, noise = whole_row(self.request.unit), self.noise
        return {"count": {"sd": noise.stddev / part, "bound95": noise.bound(0.05) / part}}

    @property
    def facts(self) -> Mapping[str, Any]:
        """How columns are read, which classes there are, and how far counts are off."""
        sd = self.noise.stddev / whole_row(self.request.unit)
        return trees_facts(self.space, self.labels, self.trees, sd)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row."""
        return blank_tables(self.space, self.labels)

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Draw the trees, and count all of their leaves in one pass. Weights need no salt."""
        drawn = SplitTrees.drawn(SplitQuestions(self.space), self.trees, self.depth, entropy)
        counter = ClassCounter(salted.data, self.space, self.labels)
        counts = np.array(counter.tables(drawn.leaves, layer=drawn.layer()))
        noisy = self.noise.steps(counts.transpose(0, 2, 1), entropy) / whole_row(salted.data.unit)
        return {"splits": drawn.table(), "leaves": leaves_table(self.labels, noisy)}


def prepare(
    request: LearningRequest,
    *,
    bins: object = None,
    depth: object = None,
    trees: object = None,
) -> Forest:
    """Choose how many trees there are, by declared rows, classes and price.

    `trees` is their number, `depth` how many questions lead to a leaf, `bins` how finely numbers
    are cut.
    """
    assert request.target is not None
    labels = ClassLabels.of(request.target)
    cut = _BINS if bins is None else whole(bins, "bins", least=2, most=MOST_BINS)
    deep = _DEPTH if depth is None else whole(depth, "depth", least=1, most=MOST_DEPTH)
    sensitivity, rows = table_sensitivity(request.unit), request.rows or ASSUMED_ROWS
    offers = []
    for one in spendings(request.price):
        clear = clarity(one.noise(sensitivity), request.unit, rows, len(labels))
        many = _many(clear) if trees is None else whole(trees, "trees", least=1, most=MOST_TREES)
        offers.append((one.noise(sensitivity, Fraction(1, many)).stddev / many, many, one))
    _, many, spending = min(offers, key=lambda offer: offer[0])
    space = BinnedSpace.of(request.features, cut)
    return Forest(request, space, labels, spending, trees=many, depth=deep)


def _many(clear: float) -> int:
    """How many trees pay, by how clear counts of classes are if all is spent on one tree."""
    return next((many for many, end in ((1, 10), (4, 40), (16, 800)) if clear < end), 64)


MODEL = TreesModel
