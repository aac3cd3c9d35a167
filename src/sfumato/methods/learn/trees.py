"""Private decision trees and forests: how questions are chosen, and how leaves are counted.

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import Neighbours
from sfumato.methods.learn.bins import (
    MOST_BINS,
    BinnedSpace,
    ClassCounter,
    ClassLabels,
    table_sensitivity,
)
from sfumato.methods.learn.model import class_names
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
from sfumato.methods.options import choice, whole
from sfumato.privacy.accounting.events import Composed, Repeated
from sfumato.privacy.mechanisms.selection import Exponential, PermuteAndFlip
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.arrays import IntArray
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


_LEAVES = Fraction(1, 2)
"""The share of the budget for the counts of leaves; the levels share the rest equally."""

_BINS = 16
_GINI_ROW = 1 << 20
"""A row in scores by Gini impurity."""
_GINI_CLARITY = 200_000
"""The least clarity of counts for Gini impurity.

It costs twice as much as correct rows, and was behind at clarities up to 20,000 (decision
`learning`); but only trees by impurity tend to those that scikit-learn grows.
"""
_GROWTHS = ("greedy", "stump", "random")


@dataclass(frozen=True)
class TreeLearner:
    """The public facts that all kinds of trees share."""

    request: LearningRequest
    space: BinnedSpace
    labels: ClassLabels
    spending: Spending

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row."""
        return blank_tables(self.space, self.labels)

    @property
    def questions(self) -> SplitQuestions:
        """All possible questions about the features."""
        return SplitQuestions(self.space)

    def grown_by(self, growth: str, depth: int) -> dict[str, Any]:
        """The public choices of a tree, in JSON form."""
        bins, classes = list(self.space.sizes), class_names(self.labels)
        return {"bins": bins, "classes": classes, "growth": growth, "depth": depth}

    def count_error(self, noise: Noise) -> dict[str, Any]:
        """The noise of a leaf's count, in rows."""
        row = whole_row(self.request.unit)
        return {"count": {"sd": noise.stddev / row, "bound95": noise.bound(0.05) / row}}

    def leaf_facts(self, noise: Noise | None, trees: int = 1) -> dict[str, Any]:
        """The public facts that a model needs; classes chosen without counts have no noise."""
        sd = 0.0 if noise is None else noise.stddev / whole_row(self.request.unit)
        return trees_facts(self.space, self.labels, trees, sd)


@dataclass(frozen=True)
class GreedyTree(TreeLearner):
    """Choose the question of every node by the exponential mechanism, then count leaves with noise.

    *Guarantee*: the price in full: half of it in equal parts for the levels (`choices`), half for
    the counts of classes in leaves. The nodes of a level have disjoint rows, so that a level costs
    once.
    *Sensitivity*: m rows a person for scores and counts, in L1 and L2; replaced people 2 m and
    m sqrt(2) for counts, and twice m for scores. A score by Gini impurity may move down too.
    *Error*: `error` states the noise of a leaf's count.
    *Edges*: rows without a declared class are not counted; columns of one bin are never useful, and
    may be chosen all the same. Nodes without rows are grown like all others.
    *Reference*: Friedman & Schuster 2010; McSherry & Talwar 2007 for the choice.
    """

    depth: int
    gini: bool
    """Whether questions are scored by Gini impurity, as scikit-learn scores them."""

    @cached_property
    def noise(self) -> Noise:
        """The noise of the counts of leaves."""
        return self.spending.noise(table_sensitivity(self.request.unit), _LEAVES)

    @cached_property
    def choices(self) -> Exponential:
        """The choice of one question for every node of a level, all nodes for one epsilon.

        Choosing for all nodes is the exponential mechanism over all combinations of questions,
        whose score is the sum of the nodes' scores. The score of a question is the number of rows
        that the commonest class of either side predicts correctly, or is by Gini impurity
        (`scores`); it moves by at most the person's weight in that node. A person's weights add up
        to at most m rows over all nodes, so that the sum moves by at most m rows; the number of
        correct rows never moves down if a person is added.
        """
        share = (1 - _LEAVES) / self.depth
        epsilon = self.spending.choice_epsilon(share)
        if not self.gini:
            return _score_choice(self.request, epsilon, len(self.questions))
        unit = self.request.unit
        rows = unit.max_rows * (2 if unit.relation is Neighbours.REPLACE_ONE else 1)
        # Each side that a person's rows fall into is rounded down once.
        return Exponential(
            epsilon=epsilon,
            candidates=len(self.questions),
            sensitivity=Fraction(rows * _GINI_ROW + 2**self.depth),
        )

    def scores(self, no: IntArray, yes: IntArray) -> IntArray:
        """The score of each question, (nodes, questions), from counts (nodes, classes, questions).

        By Gini impurity, the score of a side with n rows, n_c of each class, is sum n_c^2 / n: the
        rows less their impurity. Its derivative by n_c is 2 p_c - sum p^2, from -1 to 1, so that it
        moves by at most the weight of the rows that come or go.
        """
        if not self.gini:
            return np.asarray(no.max(axis=1) + yes.max(axis=1))
        scale, total = _GINI_ROW // whole_row(self.request.unit), np.zeros((), dtype=object)
        for side in (no, yes):
            counts = side.astype(object)  # squares exceed 64 bits
            rows = np.maximum(counts.sum(axis=1), 1)
            total = total + scale * (counts**2).sum(axis=1) // rows
        return total.astype(np.int64)

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed((Repeated(self.choices.event, self.depth), self.noise.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The bins, the classes, the growth, the depth, and how questions are scored."""
        score = "gini" if self.gini else "correct rows"
        return {**self.grown_by("greedy", self.depth), "score": score}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of a leaf's count, in rows."""
        return self.count_error(self.noise)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The bins, the classes, and the standard deviation of a leaf's count."""
        return self.leaf_facts(self.noise)

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Grow the tree, one scan a level, and count its leaves. Row weights need no salt."""
        counter = ClassCounter(salted.data, self.space, self.labels)
        questions = self.questions
        chosen = np.zeros(0, dtype=np.int64)
        for level in range(self.depth):
            if not level:
                tables = [table[None] for table in counter.tables(counter.bins)]
            else:
                parents = _tree_of(questions, chosen)
                tables = counter.tables(
                    counter.bins, within=parents.leaves[0], layer=parents.layer()
                )
            scores = self.scores(*questions.sides(tables))
            chosen = np.concatenate([chosen, self.choices.sample(scores, entropy)])
        tree = _tree_of(questions, chosen)
        (counts,) = counter.tables(tree.leaves, layer=tree.layer())
        noisy = self.noise.steps(counts.T, entropy) / whole_row(salted.data.unit)
        return {"splits": tree.table(), "leaves": leaves_table(self.labels, noisy[None])}


@dataclass(frozen=True)
class Stump(TreeLearner):
    """Choose one question together with the classes of its two answers, for the whole price.

    *Guarantee*: epsilon, of bounded range epsilon, by one exponential choice.
    *Sensitivity*: the score, the number of correctly predicted rows, moves by at most the m rows of
    a person, and never down if one is added.
    *Error*: it predicts at most log(candidates / beta) / rate rows fewer correctly than the best
    stump, with probability at least 1 - beta; `error` states that for 5 %.
    *Edges*: rows without a declared class are not counted. It predicts classes without
    probabilities.
    *Reference*: McSherry & Talwar 2007, Theorem 6.
    """

    @cached_property
    def choice(self) -> Exponential:
        """The choice of a question, the class of no, and the class of yes."""
        candidates = len(self.questions) * len(self.labels) ** 2
        return _score_choice(self.request, self.spending.choice_epsilon(), candidates)

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.choice.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The bins, the classes, the growth and the depth."""
        return self.grown_by("stump", 1)

    @property
    def error(self) -> Mapping[str, Any]:
        """How many correct rows fewer than the best stump, at most with 95 %."""
        return {"rows_missed": {"bound95": self.choice.bound(0.05) / whole_row(self.request.unit)}}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The bins and the classes."""
        return self.leaf_facts(None)

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Choose the question and its classes; the table has one row of the class of each leaf."""
        counter = ClassCounter(salted.data, self.space, self.labels)
        no, yes = self.questions.sides(counter.tables(counter.bins))
        # (class of no, class of yes, questions)
        scores = no[:, None, :] + yes[None, :, :]
        first = int(self.choice.sample(scores.reshape(1, -1), entropy)[0])
        no_class, yes_class, question = np.unravel_index(first, scores.shape)
        leaves = np.zeros((1, 2, len(self.labels)))
        leaves[0, 0, no_class] = leaves[0, 1, yes_class] = 1
        tree = _tree_of(self.questions, np.array([question]))
        return {"splits": tree.table(), "leaves": leaves_table(self.labels, leaves)}


def prepare(
    request: LearningRequest,
    *,
    bins: object = None,
    depth: object = None,
    growth: object = None,
) -> GreedyTree | Stump | RandomTree:
    """Plan a tree from declared rows, classes and price.

    `growth` is "greedy", "stump" (two leaves, the whole price for one choice) or "random" (random
    questions cost nothing, the whole price goes to the classes of leaves). `depth` is the number of
    questions from the root to a leaf, `bins` the number of bins of a numeric feature.
    """
    assert request.target is not None
    labels = ClassLabels.of(request.target)
    bin_count = _BINS if bins is None else whole(bins, "bins", least=2, most=MOST_BINS)
    space, sensitivity = (
        BinnedSpace.of(request.features, bin_count),
        table_sensitivity(request.unit),
    )
    rows = request.rows or ASSUMED_ROWS
    offers = [(spending, spending.noise(sensitivity)) for spending in spendings(request.price)]
    spending, noise = min(offers, key=lambda offer: offer[1].stddev)
    count_clarity = clarity(noise, request.unit, rows, len(labels))
    default = _default_growth(count_clarity, len(labels)) if depth is None else "greedy"
    chosen = default if growth is None else choice(growth, "growth", _GROWTHS)
    if chosen == "stump":
        return Stump(request, space, labels, spending)
    # Random questions cost nothing, so that depth is free; greedy levels divide the budget.
    levels = MOST_DEPTH if chosen == "random" else _default_depth(count_clarity)
    if depth is not None:
        levels = whole(depth, "depth", least=1, most=MOST_DEPTH)
    if chosen == "random":
        return RandomTree(request, space, labels, spending, levels)
    gini = count_clarity >= _GINI_CLARITY
    return GreedyTree(request, space, labels, spending, levels, gini)


def _default_growth(count_clarity: float, classes: int) -> str:
    """The best growth by the clarity of counts; a stump predicts no more than two classes."""
    if classes <= 2:
        return "stump" if count_clarity < 60 else "greedy"
    return "random" if count_clarity < 20 else "greedy"


def _default_depth(count_clarity: float) -> int:
    limits = enumerate((100, 1_000, 20_000), 2)
    return next((depth for depth, limit in limits if count_clarity < limit), 5)


def _score_choice(request: LearningRequest, epsilon: Fraction, candidates: int) -> Exponential:
    """The exponential mechanism for scores that count rows: a person moves them by m rows."""
    return Exponential(
        epsilon=epsilon,
        candidates=candidates,
        sensitivity=Fraction(request.unit.max_rows * whole_row(request.unit)),
        monotone=request.unit.relation is Neighbours.ADD_REMOVE,
    )


def _tree_of(questions: SplitQuestions, chosen: IntArray) -> SplitTrees:
    """The tree of the chosen questions of all levels so far."""
    features, cuts = questions.features[chosen], questions.cuts[chosen]
    return SplitTrees(questions.space, features[None], cuts[None])


MODEL = TreesModel


# A tree of random questions: the budget goes to the choice of one class for each leaf.


@dataclass(frozen=True)
class RandomTree(TreeLearner):
    """Draw questions without looking at rows, and choose the class of every leaf by its count.

    *Guarantee*: the price in full, as a pure epsilon, for all leaves together: a choice whose
    scores a person moves by w costs rate w, and a person's weights over all leaves add up to m
    rows.
    *Sensitivity*: m rows a person over all leaves; adding a person moves no count down. A replaced
    person is removed and added: twice as much, for which the rate is halved.
    *Error*: the class of a leaf has at most log(classes / beta) / rate rows fewer than the
    commonest, with probability at least 1 - beta; `error` states that for 5 %.
    *Edges*: rows without a declared class are not counted. In a leaf without rows every class is
    equally likely. It predicts classes without probabilities.
    *Reference*: McKenna & Sheldon 2020 for the choice; Jagannathan, Pillaipakkamnatt & Wright 2009
    for random questions.
    """

    depth: int

    @cached_property
    def choice(self) -> PermuteAndFlip:
        """The choice of a leaf's class; all leaves together cost its epsilon once."""
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
        """The bins, the classes, the growth and the depth."""
        return self.grown_by("random", self.depth)

    @property
    def error(self) -> Mapping[str, Any]:
        """How many correct rows fewer in a leaf than the commonest class, at most with 95 %."""
        return {"rows_missed": {"bound95": self.choice.bound(0.05) / whole_row(self.request.unit)}}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The bins and the classes."""
        return self.leaf_facts(None)

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Draw questions and choose classes; the table has one row of the class of each leaf."""
        tree = SplitTrees.random(self.questions, 1, self.depth, entropy)
        counter = ClassCounter(salted.data, self.space, self.labels)
        (counts,) = counter.tables(tree.leaves, layer=tree.layer())
        chosen = self.choice.sample(counts.T, entropy)
        leaves = np.zeros((1, *counts.T.shape))
        leaves[0, np.arange(len(chosen)), chosen] = 1
        return {"splits": tree.table(), "leaves": leaves_table(self.labels, leaves)}


# A forest: many trees of random questions, whose leaves are counted with noise.

MOST_TREES = 256
_DEPTH = 5


@dataclass(frozen=True)
class Forest(TreeLearner):
    """Draw questions without looking at rows, and count classes in the leaves of every tree.

    *Guarantee*: the price in full, in equal shares for the trees: every tree has every person. The
    leaves of one tree have different rows and cost once.
    *Sensitivity*: of a tree's leaves m rows a person in L1 and L2, 2 m and m sqrt(2) where people
    are replaced. Questions depend only on the schema and on randomness.
    *Error*: `error` states the noise of a leaf's count.
    *Edges*: rows without a declared class are not counted. A leaf without rows contains noise
    alone, which hardly changes a prediction (`leaf_logs`).
    *Reference*: Jagannathan, Pillaipakkamnatt & Wright 2009, on declared splits.
    """

    trees: int
    depth: int

    @cached_property
    def noise(self) -> Noise:
        """The noise of the counts of one tree's leaves."""
        return self.spending.noise(table_sensitivity(self.request.unit), Fraction(1, self.trees))

    @property
    def event(self) -> Event:
        """What it costs."""
        return Repeated(self.noise.event, self.trees)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The bins, the classes, the growth, the depth and the number of trees."""
        return {**self.grown_by("random", self.depth), "trees": self.trees}

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of a leaf's count, in rows."""
        return self.count_error(self.noise)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The bins, the classes, the number of trees, and the standard deviation of a count."""
        return self.leaf_facts(self.noise, self.trees)

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Draw the trees, and count all of their leaves in one scan. Row weights need no salt."""
        drawn = SplitTrees.random(self.questions, self.trees, self.depth, entropy)
        counter = ClassCounter(salted.data, self.space, self.labels)
        counts = np.array(counter.tables(drawn.leaves, layer=drawn.layer()))
        noisy = self.noise.steps(counts.transpose(0, 2, 1), entropy) / whole_row(salted.data.unit)
        return {"splits": drawn.table(), "leaves": leaves_table(self.labels, noisy)}


def prepare_forest(
    request: LearningRequest,
    *,
    bins: object = None,
    depth: object = None,
    trees: object = None,
) -> Forest:
    """Plan a forest from declared rows, classes and price.

    `trees` is the number of trees, `depth` the number of questions from the root to a leaf, `bins`
    the number of bins of a numeric feature.
    """
    assert request.target is not None
    labels = ClassLabels.of(request.target)
    bin_count = _BINS if bins is None else whole(bins, "bins", least=2, most=MOST_BINS)
    levels = _DEPTH if depth is None else whole(depth, "depth", least=1, most=MOST_DEPTH)
    sensitivity, rows = table_sensitivity(request.unit), request.rows or ASSUMED_ROWS
    offers = []
    for spending in spendings(request.price):
        count_clarity = clarity(spending.noise(sensitivity), request.unit, rows, len(labels))
        tree_count = _default_tree_count(count_clarity)
        if trees is not None:
            tree_count = whole(trees, "trees", least=1, most=MOST_TREES)
        stddev = spending.noise(sensitivity, Fraction(1, tree_count)).stddev
        offers.append((stddev / tree_count, tree_count, spending))
    _, tree_count, spending = min(offers, key=lambda offer: offer[0])
    space = BinnedSpace.of(request.features, bin_count)
    return Forest(request, space, labels, spending, trees=tree_count, depth=levels)


def _default_tree_count(count_clarity: float) -> int:
    """The number of trees by the clarity of counts if one tree gets the whole budget."""
    limits = ((1, 10), (4, 40), (16, 800))
    return next((trees for trees, limit in limits if count_clarity < limit), 64)
