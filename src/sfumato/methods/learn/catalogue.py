"""The registry of models: every kind with its summary and options; it loads no learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.methods.kinds import Kind, option_field

if TYPE_CHECKING:
    from sfumato.exact_numbers import Number


@dataclass(frozen=True, kw_only=True)
class NormOptions:
    """The options of 'linear' and 'covariance'."""

    norm: Number | None = option_field(
        "The Euclidean norm to which rows are clipped, in coordinates."
    )


@dataclass(frozen=True, kw_only=True)
class RidgeOptions(NormOptions):
    """The options of 'ridge'."""

    penalty: Number = option_field(
        "The penalty on squared coefficients of coordinates, in rows.", 1
    )


@dataclass(frozen=True, kw_only=True)
class LogisticOptions:
    """The options of 'logistic'."""

    solver: Literal["auto", "gradient", "newton"] = option_field(
        "How the loss is minimised.", "auto"
    )
    class_weight: Literal["balanced"] | None = option_field(
        "Whether small classes count as much as large ones."
    )
    size: int | None = option_field("About how many rows there are; this number is public.")


@dataclass(frozen=True, kw_only=True)
class BinOptions:
    """The options that learners by counts share."""

    bins: int | None = option_field("Into how many bins a number is cut.")


@dataclass(frozen=True, kw_only=True)
class NaiveBayesOptions(BinOptions):
    """The options of 'naive-bayes'."""

    most: int | None = option_field("How many features are counted.")


@dataclass(frozen=True, kw_only=True)
class TreeOptions(BinOptions):
    """The options of 'tree'."""

    depth: int | None = option_field("Questions that lead to a leaf.")
    growth: Literal["greedy", "stump", "random"] | None = option_field("How the tree is grown.")


@dataclass(frozen=True, kw_only=True)
class ForestOptions(BinOptions):
    """The options of 'forest'."""

    depth: int | None = option_field("Questions that lead to a leaf.")
    trees: int | None = option_field("How many trees there are.")


@dataclass(frozen=True, kw_only=True)
class PerceptronOptions:
    """The options of 'perceptron'."""

    rounds: int = option_field("Rounds in which the line is corrected.", 4)


@dataclass(frozen=True, kw_only=True)
class KMeansOptions:
    """The options of 'kmeans'."""

    clusters: int = option_field("How many centres there are.", 3)
    rounds: int = option_field("How often the centres are moved.", 4)


@dataclass(frozen=True, kw_only=True)
class PcaOptions(NormOptions):
    """The options of 'pca'."""

    components: int | None = option_field("How many directions are released. Default: 2.")


@dataclass(frozen=True, kw_only=True)
class RulesOptions:
    """The options of 'rules'."""

    k: int = option_field("How many frequent itemsets the rules are read from.", 100)
    size: int = option_field("The largest itemset.", 3)
    confidence: int = option_field("The lowest confidence of a rule, in percent.", 20)


KINDS: dict[str, Kind] = {
    "linear": Kind("linear regression of a number", "learn.linear", NormOptions, target="number"),
    "ridge": Kind(
        "linear regression with a public penalty on large coefficients",
        "learn.linear:prepare_ridge",
        RidgeOptions,
        target="number",
    ),
    "logistic": Kind(
        "the probability of each class, linear in the features",
        "learn.logistic",
        LogisticOptions,
        target="class",
    ),
    "naive-bayes": Kind(
        "classes from features that are counted independently",
        "learn.naive_bayes",
        NaiveBayesOptions,
        target="class",
    ),
    "tree": Kind(
        "classes by a tree of yes-or-no questions", "learn.trees", TreeOptions, target="class"
    ),
    "forest": Kind(
        "classes by the average of many trees of random questions",
        "learn.trees:prepare_forest",
        ForestOptions,
        target="class",
    ),
    "perceptron": Kind(
        "two classes separated by a line",
        "learn.perceptron",
        PerceptronOptions,
        target="class",
    ),
    "kmeans": Kind("groups of similar rows and their centres", "learn.kmeans", KMeansOptions),
    "pca": Kind("the directions in which rows vary most", "learn.pca", PcaOptions),
    "covariance": Kind(
        "covariances and correlations of features, with confidence intervals",
        "learn.covariance",
        NormOptions,
    ),
    "rules": Kind(
        "association rules: items that occur together", "learn.rules", RulesOptions, form="items"
    ),
}
"""The kinds in the order in which help lists them."""
