"""A learnt model: released tables of noisy numbers, and the public facts to read rows by.

A model contains nothing of the data beyond its released tables. Its file is JSON. A file may come
from an attacker, so that loading checks everything and predicting never executes its content.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.data.engines.base import everything
from sfumato.data.engines.sources import arrow_table
from sfumato.data.files.file_identity import regular_file
from sfumato.data.files.writers import format_of, write_file
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError, SfumatoError, SourceError
from sfumato.filesystem import check_target, whole
from sfumato.methods.learn.bins import BinnedSpace, ClassLabels
from sfumato.methods.learn.catalogue import KINDS
from sfumato.methods.learn.request import model_type
from sfumato.release.open_table import read
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray


_VERSION = 1
_LARGEST_FILE = 1 << 28
"""In bytes."""
_ROWS_SHOWN = 10
_TYPES = {"whole": pa.int64(), "real": pa.float64(), "text": pa.string(), "truth": pa.bool_()}
_NAMES = {kind: name for name, kind in _TYPES.items()}


@dataclass(frozen=True, repr=False, kw_only=True)
class Model(Shown, ABC):
    """A learnt model, as `learn` returns it; each kind of model is a subclass.

    Example
    -------
    >>> model = private.learn("logistic", features=["age"], target="smoker", epsilon=1)
    >>> model.predict(people)
    """

    kind: str
    kinds: Mapping[str, str]
    """The kind of each feature, by its name, in their order."""
    target: str | None = None
    facts: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
    guarantee: str = ""
    error: Mapping[str, Any] = field(default_factory=dict)
    receipt: str | None = None

    answers: ClassVar[str] = "none"
    """What it predicts for a row: a "number", a "class", or "none" of these."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(self.kinds)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The features as columns of a schema."""
        return tuple(Column(name, Kind(kind)) for name, kind in self.kinds.items())

    @abstractmethod
    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The predicted columns for rows that have the features; the prediction comes first."""

    def check(self) -> None:
        """Raise if facts and tables cannot belong to this kind: a file may be forged."""

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803  # as scikit-learn calls it
        """Predict each row.

        Parameters
        ----------
        X:
            A table with the features as columns, or an array with the features in order.

        Returns
        -------
        numpy.ndarray
            The predicted class or number of each row, or the main column of another kind.

        Raises
        ------
        ParameterError
            If a feature is missing, or the array has another shape.
        """
        columns = self.read(self.rows_of(X))
        first: NDArray[Any] = next(iter(columns.values())).to_numpy(zero_copy_only=False)
        return first

    def score(self, X: Any, y: ArrayLike) -> float:  # noqa: N803
        """Score predictions, as scikit-learn does.

        Parameters
        ----------
        X:
            Rows, as in `predict`.
        y:
            The true class or number of each row.

        Returns
        -------
        float
            The share of correct classes, or R squared of numbers.

        Raises
        ------
        ParameterError
            If the kind of model predicts neither classes nor numbers.
        """
        predicted, truth = self.predict(X), np.asarray(y)
        if self.answers == "class":
            return float(np.mean(predicted.astype(str) == truth.astype(str)))
        if self.answers != "number":
            raise ParameterError(
                "option_not_applicable",
                f"A model of kind {quoted(self.kind)} predicts nothing that could be scored.",
            )
        actual = truth.astype(np.float64)
        spread = float(np.sum((actual - actual.mean()) ** 2))
        return 1 - float(np.sum((actual - predicted) ** 2)) / spread if spread else 0.0

    def rows_of(self, X: Any) -> pa.Table:  # noqa: N803
        """Rows as a table of the features, from a table of any library or an array."""
        if isinstance(X, np.ndarray) or (isinstance(X, list | tuple) and _is_nested(X)):
            return self._of_array(np.asarray(X))
        table = X if isinstance(X, pa.Table) else arrow_table(X)
        for name in self.features:
            if name not in table.column_names:
                raise ParameterError(
                    "column_unknown",
                    f"The model needs a column {quoted(name)}, which the table does not have; "
                    + suggestion(name, table.column_names),
                )
        return table.select(self.features)

    def _of_array(self, values: NDArray[Any]) -> pa.Table:
        if values.ndim != 2 or values.shape[1] != len(self.features):
            raise ParameterError(
                "array_invalid",
                f"The model takes arrays of {len(self.features)} columns, {self._listed}, not of "
                f"the shape {values.shape}.",
            )
        return pa.table([pa.array(column) for column in values.T], names=list(self.features))

    @property
    def _listed(self) -> str:
        return ", ".join(self.features)

    def to_json(self) -> dict[str, Any]:
        """The model as JSON data."""
        return {
            "sfumato": "model",
            "version": _VERSION,
            "kind": self.kind,
            "features": dict(self.kinds),
            "target": self.target,
            "facts": dict(self.facts),
            "tables": {name: _table_to_json(table) for name, table in self.tables.items()},
            "guarantee": self.guarantee,
            "error": dict(self.error),
            "receipt": self.receipt,
        }

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the model as JSON.

        Parameters
        ----------
        path:
            Where to write.
        overwrite:
            Whether to replace an existing file.

        Returns
        -------
        Path
            The written file.

        Raises
        ------
        SfumatoError
            If the file exists already, or cannot be written.
        """
        target = arguments.path(path, "path")
        with whole(target, overwrite=overwrite) as temporary:
            temporary.write_text(dumps(self.to_json(), ensure_ascii=False), encoding="utf-8")
        return target

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Self:
        """Rebuild a model from what `to_json` returned."""
        model = cls(
            kind=saved["kind"],
            kinds={name: str(Kind(kind)) for name, kind in saved["features"].items()},
            target=saved["target"] if saved["target"] is None else str(saved["target"]),
            facts=dict(saved["facts"]),
            tables={name: _table_from_json(columns) for name, columns in saved["tables"].items()},
            guarantee=str(saved["guarantee"]),
            error=dict(saved["error"]),
            receipt=saved["receipt"] if saved["receipt"] is None else str(saved["receipt"]),
        )
        model.check()
        return model

    def _card(self) -> Card:
        target = "" if self.target is None else f" of {self.target}"
        facts = {"Features": self._listed, "Guarantee": self.guarantee, **self.error}
        table = next(iter(self.tables.values()), None)
        if table is None:
            return Card(f"{self.kind} model{target} by {self._listed}", facts)
        rows = [tuple(map(str, row.values())) for row in table.slice(0, _ROWS_SHOWN).to_pylist()]
        shown = CardTable(table.column_names, rows, max(0, table.num_rows - _ROWS_SHOWN))
        return Card(f"{self.kind} model{target} by {self._listed}", facts, shown)


def load_model(path: str | Path) -> Model:
    """Read a model from its file.

    Raises
    ------
    SourceError
        If the file is not a model, or was changed so that it cannot be one.
    """
    source = arguments.path(path, "path")
    text = _read_text(source)
    try:
        saved = json.loads(text)
        assert saved["sfumato"] == "model"
        assert saved["version"] == _VERSION
        # Only registered kinds: the file must not choose a module to import.
        assert saved["kind"] in KINDS
        return model_type(saved["kind"]).of(saved)
    except (SfumatoError, AssertionError, ArithmeticError, AttributeError, LookupError,
            RecursionError, TypeError, ValueError):  # fmt: skip
        raise SourceError(
            "file_malformed",
            f"'{source}' is not a model that this version can read. Give a file that sfumato learn "
            "wrote.",
        ) from None


def _read_text(path: Path) -> str:
    with regular_file(path).open() as file:  # reading a pipe could block
        return file.read(_LARGEST_FILE).decode("utf-8", errors="replace")


def _table_to_json(table: pa.Table) -> dict[str, Any]:
    return {
        field.name: {"kind": _NAMES[field.type], "values": table.column(field.name).to_pylist()}
        for field in table.schema
    }


def _table_from_json(saved: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    columns = {
        name: pa.array(column["values"], _TYPES[column["kind"]]) for name, column in saved.items()
    }
    return pa.table(columns)


def _is_nested(value: list[Any] | tuple[Any, ...]) -> bool:
    return bool(value) and isinstance(value[0], list | tuple | np.ndarray)


# Models of declared classes predict a probability of each class, and the likeliest class.


class ClassModel(Model):
    """A model that predicts the probability of each declared class, from binned columns."""

    answers: ClassVar[str] = "class"

    @cached_property
    def space(self) -> BinnedSpace:
        """The bins of its columns."""
        return BinnedSpace.from_facts(self.facts)

    @cached_property
    def labels(self) -> ClassLabels:
        """The classes that it predicts."""
        return ClassLabels.from_facts(self.facts["classes"])

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of `predict_proba`; the name is scikit-learn's."""
        classes: NDArray[Any] = self.labels.values.to_numpy(zero_copy_only=False)
        return classes

    @abstractmethod
    def scores(self, bins: NDArray[Any]) -> FloatArray:
        """Log-probabilities, (rows, classes), up to a constant for each row."""

    def encoded(self, rows: pa.Table) -> NDArray[Any]:
        """The input of `scores`: bins of rows, unless a kind uses other numbers."""
        return self.space.encode(rows)

    def chances(self, rows: pa.Table) -> FloatArray:
        """The probability of each class, (rows, classes)."""
        scores = self.scores(self.encoded(rows))
        # The maximum is subtracted so that exp cannot overflow.
        unnormalized = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(unnormalized / unnormalized.sum(axis=1, keepdims=True))

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The likeliest class of each row, and its probability."""
        chances = self.chances(rows)
        likeliest = chances.argmax(axis=1)
        return {
            "prediction": self.labels.values.take(pa.array(likeliest)),
            "chance": pa.array(chances[np.arange(len(likeliest)), likeliest]),
        }

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803  # as scikit-learn does
        """The probability of each class, in the order of `classes_`: (rows, classes)."""
        return self.chances(self.rows_of(X))


def class_names(labels: ClassLabels) -> list[str]:
    """The classes as texts, as tables contain them."""
    return [str(value) for value in labels.values.to_pylist()]


# Predictions as further columns of a table.


def predict_table(model: Path, source: str) -> pa.Table:
    """Append a model's predictions to a table as further columns.

    This costs no budget: the model was paid for when it was learnt, and the rows here belong to the
    caller.
    """
    learnt = load_model(model)
    with closing(read(source, Schema("rows", learnt.columns)).engine) as engine:
        rows = engine.run(everything(engine.table))
    for name, values in learnt.read(learnt.rows_of(rows)).items():
        if name in rows.column_names:
            raise ParameterError(
                "name_taken",
                f"The table already has a column {quoted(name)}, the name of a predicted column. "
                "Rename it.",
            )
        rows = rows.append_column(name, values)
    return rows


def write_predictions(model: Path, source: str, out: Path, *, overwrite: bool) -> pa.Table:
    """Write the table with predictions and return it; the path is checked before any work."""
    format_of(out)
    check_target(out, overwrite=overwrite, kept=[model, Path(source)])
    predicted = predict_table(model, source)
    write_file(predicted.to_reader, out, overwrite=overwrite)
    return predicted
