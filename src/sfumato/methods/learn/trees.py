"""A tree of questions about declared bins, grown level by level, and what it tells of classes.

Decision `learn-tables`.
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
"""The share of the budget that counts the leaves; the levels have equal parts of the rest."""

_BINS = 16
_GROWTHS = ("greedy", "stump", "random")


@dataclass(frozen=True)
class LevelChoices:
    """A choice of one question for every node of a level, all of them for one price.

    *Guarantee*: epsilon for all nodes together, of bounded range epsilon: it is the exponential
    mechanism over all combinations of questions, whose score is the sum of the nodes' scores.
    *Sensitivity*: a person's weights add up to at most m rows over all nodes together. The score of
    a question, rows that guessing the commonest class on either side gets right, moves by at most
    the person's weight in its node; so the sum over the nodes moves by at most m rows, and never
    down where a person is added.
    *Error*: in each node the score is below the best by more than log(questions / beta) / rate with
    probability at most beta.
    *Edges*: a node without rows has every question with the same chance.
    *Reference*: McSherry & Talwar 2007; Friedman & Schuster 2010 for the score.
    """

    choice: Exponential

    @property
    def event(self) -> Event:
        """What all nodes together cost."""
        return self.choice.event

    def sample(self, scores: IntArray, entropy: Entropy) -> IntArray:
        """The question of each node, of scores (nodes, questions)."""
        return self.choice.sample(scores, entropy)


@dataclass(frozen=True)
class GreedyTree:
    """Choose the question of every node by an exponential choice, then count the leaves with noise.

    *Guarantee*: the price in full: half of it in equal parts for the levels (`LevelChoices`), half
    for the counts of classes in leaves. Every leaf and node of a level has other rows, so that a
    level costs once.
    *Sensitivity*: m rows a person for scores and counts, in L1 and L2; replaced people 2 m and
    m sqrt(2) for counts, and two choices' worth for scores.
    *Error*: `error` states how far a leaf's count is off.
    *Edges*: rows without a declared class are left out; columns of one bin are never useful, and
    may be asked all the same. Nodes without rows are grown as all others.
    *Reference*: Friedman & Schuster 2010, with the levels of McSherry & Talwar's choice.
    """

    request: LearningRequest
    space: BinnedSpace
    labels: ClassLabels
    spending: Spending
    depth: int

    @cached_property
    def noise(self) -> Noise:
        """The noise of the leaves' counts."""
        return self.spending.noise(table_sensitivity(self.request.unit), _LEAVES)

    @cached_property
    def choices(self) -> LevelChoices:
        """The choice of each level."""
        share, questions = (1 - _LEAVES) / self.depth, SplitQuestions(self.space)
        epsilon = self.spending.choice_epsilon(share)
        return LevelChoices(_score_choice(self.request, epsilon, len(questions)))

    @property
    def event(self) -> Event:
        """What it costs."""
        return Composed((Repeated(self.choices.event, self.depth), self.noise.event))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How it is grown."""
        return {**_told(self.space, self.labels), "growth": "greedy", "depth": self.depth}

    @property
    def error(self) -> Mapping[str, Any]:
        """How far the counts of the leaves are off."""
        part = whole_row(self.request.unit)
        noise = self.noise
        return {"count": {"sd": noise.stddev / part, "bound95": noise.bound(0.05) / part}}

    @property
    def facts(self) -> Mapping[str, Any]:
        """How columns are read, which classes there are, and how far counts are off."""
        sd = self.noise.stddev / whole_row(self.request.unit)
        return trees_facts(self.space, self.labels, 1, sd)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that will be released, without a row."""
        return blank_tables(self.space, self.labels)

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Grow the tree, one pass a level, and count its leaves. Weights need no salt."""
        counter, questions = (
            ClassCounter(salted.data, self.space, self.labels),
            SplitQuestions(self.space),
        )
        chosen = np.zeros(0, dtype=np.int64)
        for level in range(self.depth):
            if not level:
                tables = [table[None] for table in counter.tables(counter.bins)]
            else:
                above = _grown(questions, chosen)
                tables = counter.tables(counter.bins, within=above.leaves[0], layer=above.layer())
            no, yes = questions.sides(tables)
            scores = no.max(axis=1) + yes.max(axis=1)
            chosen = np.concatenate([chosen, self.choices.sample(scores, entropy)])
        tree = _grown(questions, chosen)
        (counts,) = counter.tables(tree.leaves, layer=tree.layer())
        noisy = self.noise.steps(counts.T, entropy) / whole_row(salted.data.unit)
        return {"splits": tree.table(), "leaves": leaves_table(self.labels, noisy[None])}


@dataclass(frozen=True)
class Stump:
    """Choose one question together with the classes that its answers tell, for the whole price.

    *Guarantee*: epsilon, of bounded range epsilon, by one exponential choice.
    *Sensitivity*: the score, how many rows it tells rightly, moves by at most the m rows of a
    person, and never down where one is added.
    *Error*: it tells at most log(candidates / beta) / rate rows fewer rightly than the best stump
    does, with probability at least 1 - beta; `error` states that for 5 %.
    *Edges*: rows without a declared class are left out. It tells classes without chances.
    *Reference*: McSherry & Talwar 2007, Theorem 6.
    """

    request: LearningRequest
    space: BinnedSpace
    labels: ClassLabels
    spending: Spending

    @cached_property
    def choice(self) -> Exponential:
        """The choice of a question, the class of no, and the class of yes."""
        many = len(SplitQuestions(self.space)) * len(self.labels) ** 2
        return _score_choice(self.request, self.spending.choice_epsilon(), many)

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.choice.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How it is grown."""
        return {**_told(self.space, self.labels), "growth": "stump", "depth": 1}

    @property
    def error(self) -> Mapping[str, Any]:
        """How many rows fewer it tells rightly than the best would."""
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
        """The question, and one row of the class that each answer tells. Weights need no salt."""
        counter, questions = (
            ClassCounter(salted.data, self.space, self.labels),
            SplitQuestions(self.space),
        )
        no, yes = questions.sides(counter.tables(counter.bins))
        # (class of no, class of yes, questions)
        scores = no[:, None, :] + yes[None, :, :]
        first = int(self.choice.sample(scores.reshape(1, -1), entropy)[0])
        left, right, asked = np.unravel_index(first, scores.shape)
        told = np.zeros((1, 2, len(self.labels)))
        told[0, 0, left] = told[0, 1, right] = 1
        tree = _grown(questions, np.array([asked]))
        return {"splits": tree.table(), "leaves": leaves_table(self.labels, told)}


def prepare(
    request: LearningRequest,
    *,
    bins: object = None,
    depth: object = None,
    growth: object = None,
) -> GreedyTree | Stump | RandomTree:
    """Choose how a tree is grown, by declared rows, classes and price.

    `growth` is "greedy", "stump" (two leaves, the whole price for one choice) or "random" (free
    questions, the whole price for the classes of leaves); `depth` how many questions lead to a
    leaf.
    """
    assert request.target is not None
    labels = ClassLabels.of(request.target)
    cut = _BINS if bins is None else whole(bins, "bins", least=2, most=MOST_BINS)
    space, sensitivity = BinnedSpace.of(request.features, cut), table_sensitivity(request.unit)
    rows = request.rows or ASSUMED_ROWS
    offers = [(one, one.noise(sensitivity)) for one in spendings(request.price)]
    spending, noise = min(offers, key=lambda offer: offer[1].stddev)
    clear = clarity(noise, request.unit, rows, len(labels))
    grown = _growth(clear, len(labels)) if depth is None else "greedy"
    how = grown if growth is None else choice(growth, "growth", _GROWTHS)
    if how == "stump":
        return Stump(request, space, labels, spending)
    fitting = MOST_DEPTH if how == "random" else _deep(clear)
    deep = fitting if depth is None else whole(depth, "depth", least=1, most=MOST_DEPTH)
    if how == "random":
        return RandomTree(request, space, labels, spending, deep)
    return GreedyTree(request, space, labels, spending, deep)


def _growth(clear: float, classes: int) -> str:
    """What pays, by how clear counts of classes are; a stump tells two classes and no more."""
    if classes <= 2:
        return "stump" if clear < 60 else "greedy"
    return "random" if clear < 20 else "greedy"


def _deep(clear: float) -> int:
    return next((depth for depth, end in enumerate((100, 1_000, 20_000), 2) if clear < end), 5)


def _score_choice(request: LearningRequest, epsilon: Fraction, candidates: int) -> Exponential:
    """A choice by scores that count rows."""
    return Exponential(
        epsilon=epsilon,
        candidates=candidates,
        sensitivity=Fraction(request.unit.max_rows * whole_row(request.unit)),
        monotone=request.unit.relation is Neighbours.ADD_REMOVE,
    )


def _grown(questions: SplitQuestions, chosen: IntArray) -> SplitTrees:
    """The tree of the questions of all levels so far."""
    features, cuts = questions.features[chosen], questions.cuts[chosen]
    return SplitTrees(questions.space, features[None], cuts[None])


def _told(space: BinnedSpace, labels: ClassLabels) -> dict[str, Any]:
    return {"bins": list(space.sizes), "classes": words(labels)}


MODEL = TreesModel


# A tree of random questions, whose leaves each tell one class that was chosen for it.
#
# Decision `learn-tables`.


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


# A forest: many trees of random questions, whose leaves are counted with noise.
#
# Decision `learn-tables`.

MOST_TREES = 256
_DEPTH = 5


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


def prepare_forest(
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
