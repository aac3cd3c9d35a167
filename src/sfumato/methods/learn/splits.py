"""Decision trees over bins: in SQL, in memory, and as released tables.

A tree of depth D has 2^D - 1 questions, level by level, and 2^D leaves. A question is a column and
a cut: whether the bin of an ordered column lies above the cut, or the bin of a nominal column
is the cut. Yes leads to the right. The set of possible questions follows from the schema alone.

Decision `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.methods.learn.model import ClassModel, class_names
from sfumato.privacy.noise.selection import uniform_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.learn.bins import BinnedSpace, ClassLabels, Key
    from sfumato.methods.learn.row_sums import Layer
    from sfumato.privacy.noise.entropy import Entropy


MOST_DEPTH = 8
"""The deepest trees: each level splits the rows in two on average."""


@dataclass(frozen=True)
class SplitQuestions:
    """All possible questions about the columns, from public facts."""

    space: BinnedSpace

    @cached_property
    def features(self) -> IntArray:
        """The column of each question."""
        return np.repeat(np.arange(len(self._cuts)), self._cuts)

    @cached_property
    def cuts(self) -> IntArray:
        """The cut of each question."""
        return np.concatenate([np.arange(count) for count in self._cuts])

    @property
    def _cuts(self) -> list[int]:
        # A column of one bin has one question, which no row answers with yes.
        return [max(size - 1, 1) for size in self.space.sizes]

    def __len__(self) -> int:
        return len(self.features)

    def sides(self, tables: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
        """Count the rows on the no side and on the yes side of each question.

        `tables` has one table (..., classes, bins) for each column; both results are
        (..., classes, questions).
        """
        yes_counts = []
        for table, nominal, cut_count in zip(tables, self.space.nominal, self._cuts, strict=True):
            total = table.sum(axis=-1, keepdims=True)
            right = table if nominal else total - table.cumsum(axis=-1)
            yes_counts.append(right[..., :cut_count])
        right = np.concatenate(yes_counts, axis=-1)
        # Every column's table counts every row, so that the first one gives the totals.
        return tables[0].sum(axis=-1, keepdims=True) - right, right


@dataclass(frozen=True)
class SplitTrees:
    """Trees of one depth: the columns and cuts of their questions, (trees, 2^depth - 1)."""

    space: BinnedSpace
    features: IntArray
    cuts: IntArray

    @classmethod
    def random(
        cls, questions: SplitQuestions, trees: int, depth: int, entropy: Entropy
    ) -> SplitTrees:
        """Draw random trees: a uniform column for each question, and then a uniform cut of it."""
        sizes = np.array(questions.space.sizes)
        shape = (trees, 2**depth - 1)
        count = trees * shape[1]
        features = uniform_integers(len(sizes), count, entropy).reshape(shape)
        # floor(u n / 2^40) with u uniform below 2^40 is uniform over n cuts up to one part in 2^40;
        # no guarantee depends on it, because questions are drawn without data.
        large = uniform_integers(1 << 40, count, entropy).reshape(shape)
        cuts = large * np.maximum(sizes[features] - 1, 1) >> 40
        return cls(questions.space, features, cuts)

    @property
    def depth(self) -> int:
        """The number of questions from the root to a leaf."""
        return int(self.features.shape[1]).bit_length()

    @property
    def leaves(self) -> list[Key]:
        """The key of every tree's leaf number, as `layer` names it."""
        return [(f"sf_t{tree}", 2**self.depth) for tree in range(len(self.features))]

    def layer(self) -> Layer:
        """The SQL of each tree's leaf from the columns' bins; every question appears once."""
        trees = range(len(self.features))
        return {f"sf_t{tree}": self._leaf(tree, 0, 0) for tree in trees}

    def _leaf(self, tree: int, level: int, node: int) -> exp.Expr:
        """The SQL of the leaf below a node of a level."""
        if level == self.depth:
            return exp.Literal.number(node)
        yes = self._leaf(tree, level + 1, 2 * node + 1)
        no = self._leaf(tree, level + 1, 2 * node)
        # Without sqlglot's builders, which copy the whole subtree at every level.
        condition = self._condition(tree, 2**level - 1 + node)
        return exp.Case(ifs=[exp.If(this=condition, true=yes)], default=no)

    def _condition(self, tree: int, node: int) -> exp.Expr:
        column = int(self.features[tree, node])
        cell, cut = exp.column(f"sf_b{column}"), exp.Literal.number(int(self.cuts[tree, node]))
        kind = exp.EQ if self.space.nominal[column] else exp.GT
        return kind(this=cell, expression=cut)

    def find_leaves(self, bins: IntArray) -> IntArray:
        """The leaf of each row in each tree, (rows, trees), from the rows' bins."""
        nominal, rows = np.array(self.space.nominal), np.arange(len(bins))
        leaves = np.zeros((len(bins), len(self.features)), dtype=np.int64)
        for tree, (features, cuts) in enumerate(zip(self.features, self.cuts, strict=True)):
            node = np.zeros(len(bins), dtype=np.int64)
            for level in range(self.depth):
                question = node + 2**level - 1
                column, cut = features[question], cuts[question]
                cell = bins[rows, column]
                # Children of node i of a level are 2 i (no) and 2 i + 1 (yes) of the next.
                node = 2 * node + np.where(nominal[column], cell == cut, cell > cut)
            leaves[:, tree] = node
        return leaves

    def table(self) -> pa.Table:
        """The released table of questions, one row each."""
        trees, nodes = np.indices(self.features.shape)
        pairs = list(zip(self.features.ravel().tolist(), self.cuts.ravel().tolist(), strict=True))
        return pa.table(
            {
                "tree": pa.array(trees.ravel()),
                "node": pa.array(nodes.ravel()),
                "feature": pa.array(
                    [self.space.names[feature] for feature, _ in pairs], pa.string()
                ),
                "cut": pa.array([cut for _, cut in pairs], pa.int64()),
                "question": pa.array(
                    [self.space.question(*feature) for feature in pairs], pa.string()
                ),
            }
        )

    @classmethod
    def from_table(cls, space: BinnedSpace, table: pa.Table, trees: int) -> SplitTrees:
        """Read what `table` wrote; ValueError if the table is not of such trees."""
        positions = {name: number for number, name in enumerate(space.names)}
        features = np.array(
            [positions[name] for name in table.column("feature").to_pylist()], np.int64
        )
        cuts = table.column("cut").to_numpy().astype(np.int64)
        if (cuts < 0).any() or (cuts >= np.array(space.sizes)[features]).any():
            raise ValueError("cuts outside of the bins")
        trees_of_table = cls(space, features.reshape(trees, -1), cuts.reshape(trees, -1))
        if (
            not 1 <= trees_of_table.depth <= MOST_DEPTH
            or trees_of_table.features.shape[1] != 2**trees_of_table.depth - 1
        ):
            raise ValueError("a number of questions that no tree has")
        return trees_of_table


class TreesModel(ClassModel):
    """Trees whose leaves have probabilities of classes; trees average the logarithms."""

    def check(self) -> None:
        """Refuse tables that are not of trees."""
        if not np.isfinite(self._logs).all():
            raise ValueError("infinite counts")

    @cached_property
    def trees(self) -> SplitTrees:
        """The questions of all trees."""
        return SplitTrees.from_table(self.space, self.tables["splits"], int(self.facts["trees"]))

    @cached_property
    def _logs(self) -> FloatArray:
        """log P(class | leaf), (trees, leaves, classes)."""
        counts = self.tables["leaves"].column("count").to_numpy()
        shape = (len(self.trees.features), 2**self.trees.depth, len(self.labels))
        return leaf_logs(counts.reshape(shape), float(self.facts["sd"]))

    def scores(self, bins: IntArray) -> FloatArray:
        """The mean of log P(class | leaf) over the leaves that a row reaches."""
        leaves = self.trees.find_leaves(bins)
        scores = np.zeros((len(bins), len(self.labels)))
        for tree, logs in enumerate(self._logs):
            scores += logs[leaves[:, tree]]
        return scores / len(self._logs)


def leaf_logs(counts: FloatArray, sd: float) -> FloatArray:
    """log P(class | leaf) from noisy counts (..., classes).

    Half a row and half a standard deviation of the noise are added to every class, so that a leaf
    of noise alone is almost undecided.
    """
    smoothed = np.maximum(counts, 0) + 0.5 + sd / 2
    return np.asarray(np.log(smoothed / smoothed.sum(axis=-1, keepdims=True)))


def leaves_table(labels: ClassLabels, counts: NDArray[Any]) -> pa.Table:
    """The released table of counts (trees, leaves, classes), one row for each."""
    trees, leaves, classes = np.indices(counts.shape)
    return pa.table(
        {
            "tree": pa.array(trees.ravel()),
            "leaf": pa.array(leaves.ravel()),
            "class": pa.array(class_names(labels), pa.string()).take(pa.array(classes.ravel())),
            "count": pa.array(counts.ravel().astype(np.float64)),
        }
    )


def trees_facts(space: BinnedSpace, labels: ClassLabels, trees: int, sd: float) -> dict[str, Any]:
    """The bins, the classes, the number of trees, and the standard deviation of counts."""
    return {**space.facts(), "classes": labels.facts(), "trees": trees, "sd": sd}


def blank_tables(space: BinnedSpace, labels: ClassLabels) -> dict[str, pa.Table]:
    """The released tables of trees, without a row."""
    no_questions = np.zeros((1, 0), dtype=np.int64)
    return {
        "splits": SplitTrees(space, no_questions, no_questions).table(),
        "leaves": leaves_table(labels, np.zeros((1, 0, len(labels)))),
    }
