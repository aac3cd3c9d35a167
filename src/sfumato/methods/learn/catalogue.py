"""Every kind of model that can be learnt, with a line for people; a light page that loads none."""

from __future__ import annotations

from typing import NamedTuple


class LearningKind(NamedTuple):
    """A kind: what it learns, the module whose `prepare` makes it, and what its target is."""

    told: str
    home: str
    target: str = "none"
    """What it tells of a row: a number, a class, or nothing that is declared."""
    form: str = "rows"
    """The form of the tables that it can be of: rows about people, or also items."""


KINDS = {
    "linear": LearningKind("a number as a sum of weighted features", "linear", "number"),
    "ridge": LearningKind(
        "the same, held near nothing by a public penalty", "linear:prepare_ridge", "number"
    ),
    "logistic": LearningKind("the chance of each class", "logistic", "class"),
    "naive-bayes": LearningKind(
        "classes by what each feature says on its own", "naive_bayes", "class"
    ),
    "tree": LearningKind("classes by questions, one after another", "tree", "class"),
    "forest": LearningKind("classes by many trees of random questions", "forest", "class"),
    "perceptron": LearningKind("two classes by a line between them", "perceptron", "class"),
    "kmeans": LearningKind("groups of rows that are alike, by their centres", "kmeans"),
    "pca": LearningKind("the directions in which rows differ most", "pca"),
    "covariance": LearningKind("how features vary together, with error bars", "covariance"),
    "rules": LearningKind("what goes with what, as rules", "rules", "none", "items"),
}
"""In the order in which people are told of them."""
