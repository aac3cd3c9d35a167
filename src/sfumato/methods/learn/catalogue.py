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

    learn: Literal["auto", "means", "shape"] = option_field("What is measured.", "auto")
    size: int | None = option_field("About how many rows there are; this number is public.")


@dataclass(frozen=True, kw_only=True)
class BinOptions:
    """The options that learners by counts share."""

    bins: int | None = option_field("Bins of a number.")


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

    rounds: int = option_field("Rounds of mending the line.", 4)


@dataclass(frozen=True, kw_only=True)
class KMeansOptions:
    """The options of 'kmeans'."""

    clusters: int = option_field("How many centres there are.", 3)
    rounds: int = option_field("How often the centres are moved.", 4)


@dataclass(frozen=True, kw_only=True)
class PcaOptions(NormOptions):
    """The options of 'pca'."""

    components: int | None = option_field("How many directions are released. Usual: 2.")


@dataclass(frozen=True, kw_only=True)
class RulesOptions:
    """The options of 'rules'."""

    k: int = option_field("Rules are found in so many frequent sets.", 100)
    size: int = option_field("Items of a set at most.", 3)
    confidence: int = option_field("The least confidence of a rule, in percent.", 20)


KINDS: dict[str, Kind] = {
    "linear": Kind(
        "a number as a sum of weighted features", "learn.linear", NormOptions, target="number"
    ),
    "ridge": Kind(
        "the same, held near nothing by a public penalty",
        "learn.linear:prepare_ridge",
        RidgeOptions,
        target="number",
    ),
    "logistic": Kind("the chance of each class", "learn.logistic", LogisticOptions, target="class"),
    "naive-bayes": Kind(
        "classes by what each feature says on its own",
        "learn.naive_bayes",
        NaiveBayesOptions,
        target="class",
    ),
    "tree": Kind(
        "classes by questions, one after another", "learn.trees", TreeOptions, target="class"
    ),
    "forest": Kind(
        "classes by many trees of random questions",
        "learn.trees:prepare_forest",
        ForestOptions,
        target="class",
    ),
    "perceptron": Kind(
        "two classes by a line between them",
        "learn.perceptron",
        PerceptronOptions,
        target="class",
    ),
    "kmeans": Kind(
        "groups of rows that are alike, by their centres", "learn.kmeans", KMeansOptions
    ),
    "pca": Kind("the directions in which rows differ most", "learn.pca", PcaOptions),
    "covariance": Kind(
        "how features vary together, with error bars", "learn.covariance", NormOptions
    ),
    "rules": Kind("what goes with what, as rules", "learn.rules", RulesOptions, form="items"),
}
"""In the order in which help lists them."""
