"""What models of declared classes have in common: chances of each class, and the likeliest."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.methods.learn.bins import BinnedSpace, ClassLabels
from sfumato.methods.learn.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray


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
