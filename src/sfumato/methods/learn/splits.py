"""Trees of questions about bins: how they are put in SQL, asked in memory, and scored.

A tree of depth D has 2^D - 1 questions, level by level, and 2^D leaves. A question is a column and
a cut: of a column in order, whether its bin lies behind the cut; of one without, whether its bin is
the cut. Yes leads to the right. Which questions there are follows from the schema alone.

Decision `learn-tables`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.methods.learn.model import ClassModel, words
from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.learn.bins import BinnedSpace, ClassLabels, Key
    from sfumato.methods.learn.row_sums import Layer
    from sfumato.privacy.noise.entropy import Entropy


MOST_DEPTH = 8
"""The deepest trees: each level halves what is left of the rows."""


@dataclass(frozen=True)
class SplitQuestions:
    """Every question that may be asked of some columns, by public facts."""

    space: BinnedSpace

    @cached_property
    def features(self) -> IntArray:
        """The column of each question."""
        return np.repeat(np.arange(len(self._cuts)), self._cuts)

    @cached_property
    def cuts(self) -> IntArray:
        """The cut of each question."""
        return np.concatenate([np.arange(many) for many in self._cuts])

    @property
    def _cuts(self) -> list[int]:
        # A column of one bin has a question too, which nobody answers with yes.
        return [max(size - 1, 1) for size in self.space.sizes]

    def __len__(self) -> int:
        return len(self.features)

    def sides(self, tables: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
        """Of tables (..., classes, bins), one a column: rows that say no and yes to each question.

        Both are (..., classes, questions).
        """
        yes = []
        for table, nominal, many in zip(tables, self.space.nominal, self._cuts, strict=True):
            total = table.sum(axis=-1, keepdims=True)
            right = table if nominal else total - table.cumsum(axis=-1)
            yes.append(right[..., :many])
        right = np.concatenate(yes, axis=-1)
        # Every column has every row, so that one tells the totals.
        return tables[0].sum(axis=-1, keepdims=True) - right, right


@dataclass(frozen=True)
class SplitTrees:
    """Several trees of one depth: the columns and cuts of their questions, (trees, 2^depth - 1)."""

    space: BinnedSpace
    features: IntArray
    cuts: IntArray

    @classmethod
    def drawn(
        cls, questions: SplitQuestions, trees: int, depth: int, entropy: Entropy
    ) -> SplitTrees:
        """Trees of questions at random: a column first, so that each has the same chance."""
        sizes = np.array(questions.space.sizes)
        shape = (trees, 2**depth - 1)
        many = trees * shape[1]
        features = uniform_integers(len(sizes), many, entropy).reshape(shape)
        # Of a drawn column every cut has the same chance: one of the multiples of all numbers of
        # cuts, up to one part in 2^40.
        wide = uniform_integers(1 << 40, many, entropy).reshape(shape)
        cuts = wide * np.maximum(sizes[features] - 1, 1) >> 40
        return cls(questions.space, features, cuts)

    @property
    def depth(self) -> int:
        """How many questions lead to a leaf."""
        return int(self.features.shape[1]).bit_length()

    @property
    def leaves(self) -> list[Key]:
        """The leaf of every tree, as the layer names it."""
        return [(f"sf_t{tree}", 2**self.depth) for tree in range(len(self.features))]

    def layer(self) -> Layer:
        """The SQL of the leaf of each tree, of the columns' bins. Every question is there once."""
        trees = range(len(self.features))
        return {f"sf_t{tree}": self._leaf(tree, 0, 0) for tree in trees}

    def _leaf(self, tree: int, level: int, node: int) -> exp.Expr:
        """Which leaf is reached from a node of a level on."""
        if level == self.depth:
            return exp.Literal.number(node)
        yes = self._leaf(tree, level + 1, 2 * node + 1)
        no = self._leaf(tree, level + 1, 2 * node)
        # Made by hand: builders copy what they are given, at every level.
        asked = self._asked(tree, 2**level - 1 + node)
        return exp.Case(ifs=[exp.If(this=asked, true=yes)], default=no)

    def _asked(self, tree: int, place: int) -> exp.Expr:
        column = int(self.features[tree, place])
        cell, cut = exp.column(f"sf_b{column}"), exp.Literal.number(int(self.cuts[tree, place]))
        kind = exp.EQ if self.space.nominal[column] else exp.GT
        return kind(this=cell, expression=cut)

    def reached(self, bins: IntArray) -> IntArray:
        """The leaf of each row in each tree, (rows, trees), by the rows' bins."""
        nominal, rows = np.array(self.space.nominal), np.arange(len(bins))
        found = np.zeros((len(bins), len(self.features)), dtype=np.int64)
        for tree, (features, cuts) in enumerate(zip(self.features, self.cuts, strict=True)):
            node = np.zeros(len(bins), dtype=np.int64)
            for level in range(self.depth):
                place = node + 2**level - 1
                column, cut = features[place], cuts[place]
                cell = bins[rows, column]
                node = 2 * node + np.where(nominal[column], cell == cut, cell > cut)
            found[:, tree] = node
        return found

    def table(self) -> pa.Table:
        """One row for every question."""
        trees, nodes = np.indices(self.features.shape)
        pairs = list(zip(self.features.ravel().tolist(), self.cuts.ravel().tolist(), strict=True))
        return pa.table(
            {
                "tree": pa.array(trees.ravel()),
                "node": pa.array(nodes.ravel()),
                "feature": pa.array([self.space.names[one] for one, _ in pairs], pa.string()),
                "cut": pa.array([cut for _, cut in pairs], pa.int64()),
                "question": pa.array([self.space.question(*one) for one in pairs], pa.string()),
            }
        )

    @classmethod
    def of_table(cls, space: BinnedSpace, table: pa.Table, trees: int) -> SplitTrees:
        """The trees that `table` wrote; refused where it wrote none such."""
        place = {name: number for number, name in enumerate(space.names)}
        features = np.array([place[one] for one in table.column("feature").to_pylist()], np.int64)
        cuts = table.column("cut").to_numpy().astype(np.int64)
        if (cuts < 0).any() or (cuts >= np.array(space.sizes)[features]).any():
            raise ValueError("cuts of no bin")
        found = cls(space, features.reshape(trees, -1), cuts.reshape(trees, -1))
        if not 1 <= found.depth <= MOST_DEPTH or found.features.shape[1] != 2**found.depth - 1:
            raise ValueError("no tree has so many questions")
        return found


class TreesModel(ClassModel):
    """Chances of classes in the leaves of one tree or of several, whose logarithms are averaged."""

    def check(self) -> None:
        """Refuse questions and leaves that no trees have."""
        if not np.isfinite(self._logs).all():
            raise ValueError("counts without an end")

    @cached_property
    def trees(self) -> SplitTrees:
        """The questions."""
        return SplitTrees.of_table(self.space, self.tables["splits"], int(self.facts["trees"]))

    @cached_property
    def _logs(self) -> FloatArray:
        """The logarithms of chances, (trees, leaves, classes)."""
        counts = self.tables["leaves"].column("count").to_numpy()
        shape = (len(self.trees.features), 2**self.trees.depth, len(self.labels))
        return leaf_logs(counts.reshape(shape), float(self.facts["sd"]))

    def scores(self, bins: IntArray) -> FloatArray:
        """The mean of the logarithms of chances in the leaves that a row reaches."""
        reached = self.trees.reached(bins)
        scores = np.zeros((len(bins), len(self.labels)))
        for tree, logs in enumerate(self._logs):
            scores += logs[reached[:, tree]]
        return scores / len(self._logs)


def leaf_logs(counts: FloatArray, sd: float) -> FloatArray:
    """The logarithms of classes' chances, of noisy counts (..., classes).

    Every class has half a row and half the noise more than was counted: a leaf of noise alone says
    little.
    """
    some = np.maximum(counts, 0) + 0.5 + sd / 2
    return np.asarray(np.log(some / some.sum(axis=-1, keepdims=True)))


def leaves_table(labels: ClassLabels, counts: NDArray[Any]) -> pa.Table:
    """One row for every tree, leaf and class, of counts (trees, leaves, classes)."""
    trees, leaves, classes = np.indices(counts.shape)
    return pa.table(
        {
            "tree": pa.array(trees.ravel()),
            "leaf": pa.array(leaves.ravel()),
            "class": pa.array(words(labels), pa.string()).take(pa.array(classes.ravel())),
            "count": pa.array(counts.ravel().astype(np.float64)),
        }
    )


def trees_facts(space: BinnedSpace, labels: ClassLabels, trees: int, sd: float) -> dict[str, Any]:
    """How columns are read, which classes there are, and how far counts of leaves are off."""
    return {**space.facts(), "classes": labels.facts(), "trees": trees, "sd": sd}


def blank_tables(space: BinnedSpace, labels: ClassLabels) -> dict[str, pa.Table]:
    """The tables of trees, without a row."""
    nothing = np.zeros((1, 0), dtype=np.int64)
    return {
        "splits": SplitTrees(space, nothing, nothing).table(),
        "leaves": leaves_table(labels, np.zeros((1, 0, len(labels)))),
    }
