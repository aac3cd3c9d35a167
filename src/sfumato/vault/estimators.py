"""Private models by the conventions of scikit-learn: `fit`, `predict`, `score`, `get_params`.

    from sfumato.vault.estimators import LogisticRegression
    LogisticRegression(epsilon=1, bounds=(0, 100), classes=[0, 1]).fit(X, y).predict(X)

Bounds and classes are declared: they are public, and are never taken from the rows. Each `fit` of
rows in memory puts them under a budget of its own, which it spends; nothing adds up what several
fits of the same rows cost together. So each fold of `cross_val_score` pays `epsilon` for its rows,
and a row that is in four of five folds has paid four times. For one budget over all fits, give
`fit` a private table, from `vault.private(...)` or `sf.protect(...)`:

    LogisticRegression(epsilon=1).fit(private, "smoker", features=["age", "height"])

A step before it in a Pipeline that learns from rows, as StandardScaler does, is not private; the
models scale by the declared bounds themselves. Nothing of the rows is kept in a fitted estimator.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from sfumato.errors import ParameterError
from sfumato.methods.learn.array_tables import (
    DeclaredTable,
    class_column,
    class_numbers,
    number_column,
    numbers,
)

if find_spec("sklearn") is None:
    raise ParameterError(
        "package_missing",
        "Estimators need scikit-learn, which is not installed. Install it with: pip install "
        "'sfumato[learn]'.",
    )

from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClusterMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray
    from sfumato.data.schema.column import Column
    from sfumato.methods.learn.model import ClassModel, Model


class _PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """The base of all estimators. It keeps no rows: only the private model and declarations."""

    kind: ClassVar[str]
    names: ClassVar[tuple[str, ...]] = ()
    """The parameters that are options of the kind."""

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: Any = None,
        rows: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.rows = rows

    def fit(self, X: Any, y: Any = None, *, features: Sequence[str] | str | None = None) -> Self:  # noqa: N803
        """Learn from rows with declared bounds, or from a private table and its column `y`.

        Rows are an array, a data frame or a table in memory. Of a private table its `features`
        are named; its schema has the bounds, and its budget pays.
        """
        if hasattr(X, "learn"):
            return self._fit_private(X, y, features)
        from sfumato.vault.protection import protect  # the real door, opened only here

        declared = DeclaredTable.of(X, self.bounds)
        table, target = declared.read(X), self._target(declared.target, y)
        if target is not None:
            table = table.append_column(target[0].name, _checked_length(target[1], table.num_rows))
        column = None if target is None else target[0]
        private = protect(table, declared.schema(column, self.rows), **self._cost())
        self._learn(private, declared.names, None if column is None else column.name)
        self.declared_: DeclaredTable | None = declared
        if not _is_unnamed(X):
            self.feature_names_in_ = np.array(declared.names, dtype=object)
        return self

    def _fit_private(self, private: Any, y: Any, features: Any) -> Self:
        """Learn from a table that has a budget of its own; the schema says what is declared."""
        if features is None:
            raise ParameterError(
                "column_unsuitable",
                "Name the columns of the private table to learn from: features=['age', 'height'].",
            )
        named = [features] if isinstance(features, str) else list(features)
        self._learn(private, named, y)
        self._read_schema(private, y)
        self.declared_ = None
        return self

    def _learn(self, private: Any, features: Sequence[str], target: str | None) -> None:
        options = {name: getattr(self, name) for name in self.names}
        arguments = {name: value for name, value in options.items() if value is not None}
        arguments |= self._cost()
        learned: Any = private.learn(self.kind, features=list(features), target=target, **arguments)
        self.model_: Model = learned.model
        self.n_features_in_ = len(features)

    def _cost(self) -> dict[str, Any]:
        """The cost of one fit; a delta only if there is one."""
        return {"epsilon": self.epsilon, **({"delta": self.delta} if self.delta else {})}

    def _target(self, name: str, y: Any) -> tuple[Column, pa.Array] | None:  # noqa: ARG002
        """The declared target column and its value in each row; None without a target."""
        return None

    def _read_schema(self, private: Any, target: str | None) -> None:
        """Read the declarations of the target from a private table."""

    def _rows(self, X: Any) -> Any:  # noqa: N803
        """Rows in the form that the model reads."""
        check_is_fitted(self)
        return X if self.declared_ is None else self.declared_.read(X)

    def _read(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The prediction of the model for each row."""
        rows = self._rows(X)
        return self.model_.predict(rows)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags


class _Classifier(ClassifierMixin, _PrivateEstimator):  # type: ignore[misc]
    """An estimator of classes, which are declared."""

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: Any = None,
        classes: Sequence[Any] | None = None,
        rows: int | None = None,
    ) -> None:
        super().__init__(epsilon=epsilon, delta=delta, bounds=bounds, rows=rows)
        self.classes = classes

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The class of each row, one of the declared ones."""
        predicted = self._read(X)
        # From rows in memory the model learns positions in `classes_`.
        return predicted if self.declared_ is None else self.classes_[predicted.astype(np.intp)]

    def _target(self, name: str, y: Any) -> tuple[Column, pa.Array]:
        column, listed = class_column(name, self.classes)
        self.classes_ = np.array(listed)
        return column, class_numbers(_required(y), listed)

    def _read_schema(self, private: Any, target: str | None) -> None:
        assert target is not None
        domain = private.schema.column(target).public_domain
        self.classes_ = np.sort(np.array(getattr(domain, "values", (False, True))))


class _ChanceClassifier(_Classifier):
    """An estimator that also predicts the probability of each class."""

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """The probability of each declared class, in the order of `classes_`, for each row."""
        rows, model = self._rows(X), cast("ClassModel", self.model_)
        # A model has the declared order, scikit-learn the sorted one.
        return model.predict_proba(rows)[:, np.argsort(model.classes_)]


class _Regressor(RegressorMixin, _PrivateEstimator):  # type: ignore[misc]
    """An estimator of a number, of which the bounds are declared."""

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: Any = None,
        target_bounds: tuple[float, float] | None = None,
        rows: int | None = None,
    ) -> None:
        super().__init__(epsilon=epsilon, delta=delta, bounds=bounds, rows=rows)
        self.target_bounds = target_bounds

    def predict(self, X: Any) -> FloatArray:  # noqa: N803
        """The number of each row."""
        return self._read(X)

    def _target(self, name: str, y: Any) -> tuple[Column, pa.Array]:
        return number_column(name, self.target_bounds), numbers(_required(y))


class LinearRegression(_Regressor):
    """A number as a sum of weighted features, by noisy second moments."""

    kind = "linear"


class RidgeRegression(_Regressor):
    """Linear regression whose weights a public penalty keeps small."""

    kind = "ridge"


class LogisticRegression(_ChanceClassifier):
    """The probability of each class from a weighted sum of features."""

    kind = "logistic"


class NaiveBayesClassifier(_ChanceClassifier):
    """Classes from the distribution of each feature alone (naive Bayes)."""

    kind = "naive-bayes"


class DecisionTree(_ChanceClassifier):
    """Classes by a tree of comparisons at declared cuts."""

    kind = "tree"


class RandomForest(_ChanceClassifier):
    """Classes by many trees with random comparisons, whose leaves are counted with noise."""

    kind = "forest"


class LinearPerceptron(_Classifier):
    """Two classes by a line between them."""

    kind = "perceptron"


class KMeans(ClusterMixin, _PrivateEstimator):  # type: ignore[misc]
    """Groups of similar rows, by their noisy centres.

    It has no `labels_`: the group of each row that it learnt from would disclose the row.
    """

    kind = "kmeans"
    names = ("clusters",)

    def __init__(
        self,
        clusters: int = 8,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: Any = None,
        rows: int | None = None,
    ) -> None:
        super().__init__(epsilon=epsilon, delta=delta, bounds=bounds, rows=rows)
        self.clusters = clusters

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The number of the centre that is nearest to each row."""
        return self._read(X)

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[Any]:  # noqa: N803
        """Learn, then return the nearest centre of the same rows. These labels are not private."""
        return self.fit(X, y, **fit_params).predict(X)


class PrincipalComponents(TransformerMixin, _PrivateEstimator):  # type: ignore[misc]
    """The directions in which rows differ most, by a noisy covariance."""

    kind = "pca"
    names = ("components",)

    def __init__(
        self,
        components: int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: Any = None,
        rows: int | None = None,
    ) -> None:
        super().__init__(epsilon=epsilon, delta=delta, bounds=bounds, rows=rows)
        self.components = components

    def transform(self, X: Any) -> FloatArray:  # noqa: N803
        """The coordinates of each row along the components."""
        rows = self._rows(X)
        components = self.model_.read(self.model_.rows_of(rows)).values()
        return np.column_stack([column.to_numpy(zero_copy_only=False) for column in components])


def _required(y: Any) -> Any:
    if y is None:
        raise ParameterError("column_unknown", "fit requires y to be passed: what is to be told.")
    return y


def _checked_length(targets: pa.Array, rows: int) -> pa.Array:
    if len(targets) != rows:
        raise ParameterError(
            "array_invalid",
            f"There are {rows} rows and {len(targets)} targets; each row has one.",
        )
    return targets


def _is_unnamed(rows: object) -> bool:
    return isinstance(rows, np.ndarray | list | tuple)


ESTIMATORS: dict[str, Any] = {
    estimator.kind: estimator
    for estimator in (
        LinearRegression,
        RidgeRegression,
        LogisticRegression,
        NaiveBayesClassifier,
        DecisionTree,
        RandomForest,
        LinearPerceptron,
        KMeans,
        PrincipalComponents,
    )
}
"""The estimators by the kind of their model."""


def estimator_of(model: Model) -> _PrivateEstimator:
    """A fitted estimator from a model that was trained elsewhere, for a Pipeline or for scoring."""
    if model.kind not in ESTIMATORS:
        listed = ", ".join(ESTIMATORS)
        raise ParameterError(
            "choice_unknown",
            f"A model of kind {model.kind!r} tells nothing of rows; estimators are of {listed}.",
            parameter="model",
        )
    estimator: _PrivateEstimator = ESTIMATORS[model.kind]()
    estimator.model_, estimator.declared_ = model, None
    estimator.n_features_in_ = len(model.features)
    classes = getattr(model, "classes_", None)
    if classes is not None:
        estimator.classes_ = np.sort(np.asarray(classes))
    return estimator
