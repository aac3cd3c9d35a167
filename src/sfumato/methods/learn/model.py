"""A model that was learnt: released tables of numbers, and the public facts to read rows by.

Nothing of the data is in it. Its file is JSON; whoever means harm can write another, so that
everything is checked when it is read, and predicting never runs what a file says.
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
_SHOWN = 10
_TYPES = {"whole": pa.int64(), "real": pa.float64(), "text": pa.string(), "truth": pa.bool_()}
_NAMES = {one: name for name, one in _TYPES.items()}


@dataclass(frozen=True, repr=False, kw_only=True)
class Model(Shown, ABC):
    """What a kind of model has in common; a kind says how its tables read rows."""

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
    """What it tells of a row: a "number", a "class", or "none" of these."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns that it reads, in order."""
        return tuple(self.kinds)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that it reads, as a schema declares them."""
        return tuple(Column(name, Kind(kind)) for name, kind in self.kinds.items())

    @abstractmethod
    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """What it says of rows that have its features, as columns; its prediction comes first."""

    def check(self) -> None:
        """Refuse facts and tables that cannot be this kind's, in a file that somebody wrote."""

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803  # as scikit-learn calls it
        """What it says of each row of a table, or of an array with its features in order."""
        found = self.read(self.rows_of(X))
        first: NDArray[Any] = next(iter(found.values())).to_numpy(zero_copy_only=False)
        return first

    def score(self, X: Any, y: ArrayLike) -> float:  # noqa: N803
        """The share of classes it tells rightly, or of the variance of numbers (R squared)."""
        told, truth = self.predict(X), np.asarray(y)
        if self.answers == "class":
            return float(np.mean(told.astype(str) == truth.astype(str)))
        if self.answers != "number":
            raise ParameterError(
                "option_not_applicable",
                f"A model of kind {quoted(self.kind)} predicts nothing that could be scored.",
            )
        off = truth.astype(np.float64)
        spread = float(np.sum((off - off.mean()) ** 2))
        return 1 - float(np.sum((off - told) ** 2)) / spread if spread else 0.0

    def rows_of(self, X: Any) -> pa.Table:  # noqa: N803
        """A table with the features, of whatever holds them."""
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
        """The model as JSON-able data."""
        return {
            "sfumato": "model",
            "version": _VERSION,
            "kind": self.kind,
            "features": dict(self.kinds),
            "target": self.target,
            "facts": dict(self.facts),
            "tables": {name: _spelled(table) for name, table in self.tables.items()},
            "guarantee": self.guarantee,
            "error": dict(self.error),
            "receipt": self.receipt,
        }

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write it as JSON; nothing of the data is in it."""
        target = arguments.path(path, "path")
        with whole(target, overwrite=overwrite) as place:
            place.write_text(dumps(self.to_json(), ensure_ascii=False), encoding="utf-8")
        return target

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        model = cls(
            kind=told["kind"],
            kinds={name: str(Kind(kind)) for name, kind in told["features"].items()},
            target=told["target"] if told["target"] is None else str(told["target"]),
            facts=dict(told["facts"]),
            tables={name: _table(one) for name, one in told["tables"].items()},
            guarantee=str(told["guarantee"]),
            error=dict(told["error"]),
            receipt=told["receipt"] if told["receipt"] is None else str(told["receipt"]),
        )
        model.check()
        return model

    def _card(self) -> Card:
        of = "" if self.target is None else f" of {self.target}"
        facts = {"Features": self._listed, "Guarantee": self.guarantee, **self.error}
        table = next(iter(self.tables.values()), None)
        if table is None:
            return Card(f"{self.kind} model{of} by {self._listed}", facts)
        rows = [tuple(map(str, one.values())) for one in table.slice(0, _SHOWN).to_pylist()]
        shown = CardTable(table.column_names, rows, max(0, table.num_rows - _SHOWN))
        return Card(f"{self.kind} model{of} by {self._listed}", facts, shown)


def load_model(path: str | Path) -> Model:
    """Read a model's file; one that is none, or was changed so that it cannot be, is refused."""
    source = arguments.path(path, "path")
    text = _text(source)
    try:
        told = json.loads(text)
        assert told["sfumato"] == "model"
        assert told["version"] == _VERSION
        assert told["kind"] in KINDS
        return model_type(told["kind"]).of(told)
    except (SfumatoError, AssertionError, ArithmeticError, AttributeError, LookupError,
            RecursionError, TypeError, ValueError):  # fmt: skip
        raise SourceError(
            "file_malformed",
            f"'{source}' is no model that this version can read. Give a file that sfumato learn "
            "wrote.",
        ) from None


def _text(path: Path) -> str:
    with regular_file(path).open() as file:  # a pipe would be waited for
        return file.read(_LARGEST_FILE).decode("utf-8", errors="replace")


def _spelled(table: pa.Table) -> dict[str, Any]:
    return {
        one.name: {"kind": _NAMES[one.type], "values": table.column(one.name).to_pylist()}
        for one in table.schema
    }


def _table(told: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    columns = {name: pa.array(one["values"], _TYPES[one["kind"]]) for name, one in told.items()}
    return pa.table(columns)


def _is_nested(value: list[Any] | tuple[Any, ...]) -> bool:
    return bool(value) and isinstance(value[0], list | tuple | np.ndarray)


# What models of declared classes have in common: chances of each class, and the likeliest.


class ClassModel(Model):
    """A model that tells how likely each declared class is, of columns as numbers of bins."""

    answers: ClassVar[str] = "class"

    @cached_property
    def space(self) -> BinnedSpace:
        """How it reads its columns."""
        return BinnedSpace.from_facts(self.facts)

    @cached_property
    def labels(self) -> ClassLabels:
        """The classes that it tells apart."""
        return ClassLabels.from_facts(self.facts["classes"])

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of their chances; named as scikit-learn does."""
        found: NDArray[Any] = self.labels.values.to_numpy(zero_copy_only=False)
        return found

    @abstractmethod
    def scores(self, bins: NDArray[Any]) -> FloatArray:
        """The logarithm of how likely each class is, (rows, classes), up to a constant a row."""

    def encoded(self, rows: pa.Table) -> NDArray[Any]:
        """Rows as the numbers that scores are made of: those of bins, unless a kind has others."""
        return self.space.encode(rows)

    def chances(self, rows: pa.Table) -> FloatArray:
        """How likely each class is, (rows, classes)."""
        scores = self.scores(self.encoded(rows))
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The likeliest class of each row, and its chance."""
        chances = self.chances(rows)
        first = chances.argmax(axis=1)
        return {
            "prediction": self.labels.values.take(pa.array(first)),
            "chance": pa.array(chances[np.arange(len(first)), first]),
        }

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803  # as scikit-learn does
        """How likely each class is, in the order of `classes_`, for each row."""
        return self.chances(self.rows_of(X))


def words(labels: ClassLabels) -> list[str]:
    """The classes as they are written in tables."""
    return [str(one) for one in labels.values.to_pylist()]


# What a model says of every row of a table, beside what the table has.


def predict_table(model: Path, source: str) -> pa.Table:
    """A table with what a model says of each row as further columns.

    A model holds nothing of the data it was learnt of, and the rows here are whoever's who asks: so
    this costs nothing.
    """
    learnt = load_model(model)
    with closing(read(source, Schema("rows", learnt.columns)).engine) as engine:
        rows = engine.run(everything(engine.table))
    for name, told in learnt.read(learnt.rows_of(rows)).items():
        if name in rows.column_names:
            raise ParameterError(
                "name_taken",
                f"The table has a column {quoted(name)} already, which is what the model calls its "
                "own. Rename it.",
            )
        rows = rows.append_column(name, told)
    return rows


def write_predictions(model: Path, source: str, out: Path, *, overwrite: bool) -> pa.Table:
    """Write such a table, and give it; a place that cannot be written is refused first."""
    format_of(out)
    check_target(out, overwrite=overwrite, kept=[model, Path(source)])
    told = predict_table(model, source)
    write_file(told.to_reader, out, overwrite=overwrite)
    return told
