"""SplitQuestions about bins: sides, leaves, and trees written in tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.class_learning import FEATURES, spread, table

from sfumato.methods.learn.bins import BinnedSpace
from sfumato.methods.learn.splits import SplitQuestions, SplitTrees, leaf_logs
from sfumato.testing.entropy import SeededEntropy

SPACE = BinnedSpace.of(FEATURES, 4)
QUESTIONS = SplitQuestions(SPACE)


def test_questions_are_those_of_declared_bins() -> None:
    # Three cuts of a number or a day, three cities, and two cuts of no, unknown and yes.
    assert len(QUESTIONS) == 3 + 3 + 3 + 2 + 3
    one = SplitQuestions(BinnedSpace(SPACE.space, (1, 1, 4, 1, 1)))
    assert len(one) == 1 + 1 + 3 + 1 + 1


def test_sides_of_a_question_are_the_rows_that_answer_so() -> None:
    bins, classes = SPACE.encode(table(spread(200))), np.arange(200) % 3
    tables = []
    for place, size in enumerate(SPACE.sizes):
        counts = np.zeros((3, size), dtype=np.int64)
        np.add.at(counts, (classes, bins[:, place]), 1)
        tables.append(counts)
    no, yes = QUESTIONS.sides(tables)
    for at, (place, cut) in enumerate(zip(QUESTIONS.features, QUESTIONS.cuts, strict=True)):
        cells = bins[:, place]
        right = cells == cut if SPACE.nominal[place] else cells > cut
        assert yes[:, at].tolist() == np.bincount(classes[right], minlength=3).tolist()
        assert no[:, at].tolist() == np.bincount(classes[~right], minlength=3).tolist()


def test_random_trees_ask_every_column_and_every_cut() -> None:
    drawn = SplitTrees.random(QUESTIONS, 64, 5, SeededEntropy(1))
    assert drawn.depth == 5
    seen = set(zip(drawn.features.ravel().tolist(), drawn.cuts.ravel().tolist(), strict=True))
    known = zip(QUESTIONS.features.tolist(), QUESTIONS.cuts.tolist(), strict=True)
    assert seen == set(known)


def test_trees_are_read_from_their_table() -> None:
    drawn = SplitTrees.random(QUESTIONS, 3, 2, SeededEntropy(2))
    again = SplitTrees.from_table(SPACE, drawn.table(), 3)
    bins = SPACE.encode(table(spread(50)))
    assert (again.find_leaves(bins) == drawn.find_leaves(bins)).all()
    assert drawn.find_leaves(bins).max() == 3


@pytest.mark.parametrize(
    ("features", "cuts"),
    [
        (["age"] * 2, [0, 0]),
        (["age"] * 3, [0, 0, 4]),
        (["age"] * 3, [0, 0, -1]),
        (["age"] * 511, [0] * 511),
        ([], []),
    ],
)
def test_what_no_tree_writes_is_refused(features: list[str], cuts: list[int]) -> None:
    told = pa.table({"feature": pa.array(features, pa.string()), "cut": pa.array(cuts, pa.int64())})
    with pytest.raises(ValueError, match=r"cuts|tree|reshape"):
        SplitTrees.from_table(SPACE, told, 1)


def test_leaves_of_noise_alone_say_little() -> None:
    logs = leaf_logs(np.array([[0.0, -500.0], [900.0, 0.0]]), 1_000.0)
    assert np.ptp(logs[0]) == 0
    assert 0 < np.ptp(logs[1]) < 1.1
    assert np.exp(leaf_logs(np.array([3.0, 0.0]), 0.0)) == pytest.approx([0.875, 0.125])
