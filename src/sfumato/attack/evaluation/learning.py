"""Train models on the synthetic table, and test them on rows of the original, with scikit-learn.

No other module imports this optional library. Nothing here is random: rows come in the order of a
multiplicative permutation, and both models are fitted without randomness. Decision `release-gate`.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.attack.evaluation.coded_counts import CodedCounts, CodedTable, Coding

    Codes = NDArray[np.integer]

_MOST_TRAINED = 40_000
_MOST_TESTED = 20_000
_TESTED_SHARE = 0.3
_MOST_TOLD = 20_000
_ROUNDS = 60
_MOST_CLASSES = 10
_MOST_CATEGORIES = 255
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Learned:
    """How often models guess a column right, on rows of the original that were held out.

    Each model has two figures: trained on other rows of the original, and on the synthetic table.
    """

    target: str
    question: str
    tested: int
    baseline: float
    """The share of right guesses of someone who always says the commonest value."""
    models: Mapping[str, tuple[float, float]]

    @property
    def best(self) -> str:
        """The name of the model that does best when trained on the original."""
        return max(self.models, key=lambda name: self.models[name][0])

    @property
    def real(self) -> float:
        """The best model's share of right guesses, trained on the original."""
        return self.models[self.best][0]

    @property
    def synthetic(self) -> float:
        """The share of right guesses of the same model, trained on the synthetic table."""
        return self.models[self.best][1]

    def json(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return {
            "target": self.target,
            "real": self.real,
            "synthetic": self.synthetic,
            "baseline": self.baseline,
            "question": self.question,
            "rows_tested": self.tested,
            "models": {
                name: {"real": real, "synthetic": synthetic}
                for name, (real, synthetic) in self.models.items()
            },
        }


def installed() -> bool:
    """Return whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def require_installed() -> None:
    """Raise if scikit-learn is missing, before anything is counted."""
    if not installed():
        raise ParameterError(
            "package_missing",
            "Learning a target needs scikit-learn, which is not installed. Install it with: pip "
            f"install 'sfumato[learn]', or leave {option('target')} out.",
        )


def learn(original: CodedTable, synthetic: CodedTable, target: int) -> Learned:
    """Train on either table, test on rows of the original that were held out."""
    coding = original.codings[target]
    real = _rows(original.sample(_MOST_TRAINED + _MOST_TESTED), _MOST_TRAINED + _MOST_TESTED)
    synthetic_rows = _rows(synthetic.sample(_MOST_TRAINED), _MOST_TRAINED)
    real, synthetic_rows = (
        table_rows[table_rows[:, target] != coding.missing] for table_rows in (real, synthetic_rows)
    )
    classes, question = _classes(real[:, target], coding)
    tested = min(int(len(real) * _TESTED_SHARE), _MOST_TESTED)
    answers = classes[real[:, target]]
    if not tested or not len(synthetic_rows) or len(np.unique(answers)) < 2:
        raise ParameterError(
            "column_unsuitable",
            f"Nothing can be learned about column {quoted(coding.name)}: one of the tables has too "
            "few rows in which it is known, or only one value of it. Name another "
            f"{option('target')}.",
        )
    features = [number for number in range(len(original.codings)) if number != target]
    if not features:
        raise ParameterError(
            "column_unsuitable",
            f"Column {quoted(coding.name)} is the only one that is compared, so nothing predicts "
            f"it. Declare other columns, or leave {option('target')} out.",
        )
    codings = [original.codings[feature] for feature in features]
    test, train = real[:tested], real[tested:]
    asked, right = test[:, features], answers[:tested]
    # Both are trained on equally many rows, so that only the quality of rows differs.
    scores = {}
    for name, model in _models(codings).items():
        shares = [
            _right(model, (rows[:, features], classes[rows[:, target]]), (asked, right))
            for rows in (train, synthetic_rows[: len(train)])
        ]
        scores[name] = (shares[0], shares[1])
    commonest = np.bincount(answers[tested:]).argmax()
    baseline = float((answers[:tested] == commonest).mean())
    return Learned(coding.name, question, tested, baseline, scores)


def told_apart(original: CodedTable, synthetic: CodedTable) -> float:
    """Return how well a classifier tells synthetic from original rows: the area under its ROC.

    0.5 is no better than chance. Gradient boosting is trained on half of the rows and tested on the
    rest.
    """
    from sklearn.metrics import roc_auc_score

    sides = [
        _rows(table.sample(_MOST_TOLD // 2), _MOST_TOLD // 2) for table in (original, synthetic)
    ]
    per_side = min(map(len, sides))
    if per_side < 4:
        return 0.5
    rows = np.stack([side[:per_side] for side in sides], axis=1).reshape(2 * per_side, -1)
    labels = np.tile([0, 1], per_side)
    # Rows alternate between both tables, so any even prefix is balanced.
    half = per_side // 2 * 2
    model = _boosting(original.codings)
    with _quietly():
        model.fit(rows[:half], labels[:half])
        guessed = model.predict_proba(rows[half:])[:, 1]
    return float(roc_auc_score(labels[half:], guessed))


def _rows(counted: CodedCounts, most: int) -> Codes:
    """Return at most `most` rows of a table of counts, in a mixed order."""
    total = int(counted.counts.sum())
    # Multiples of the golden ratio visit all rows evenly; a coprime step visits each once.
    step = max(1, int(total * _GOLDEN))
    while gcd(step, max(total, 1)) != 1:
        step += 1
    positions = np.arange(min(total, most), dtype=np.int64) * step % max(total, 1)
    combinations = np.searchsorted(np.cumsum(counted.counts), positions, side="right")
    return np.column_stack([codes[combinations] for codes in counted.codes]).astype(np.int64)


def _classes(codes: Codes, coding: Coding) -> tuple[Codes, str]:
    """Return the class to guess for each code, and the question in words."""
    counts = np.bincount(codes, minlength=coding.size)
    if coding.ordered and (counts > 0).sum() > _MOST_CLASSES:
        # The median code divides the rows in two classes.
        middle = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
        above = (np.arange(coding.size) > middle).astype(np.int64)
        return above, f"whether {coding.name} is above {coding.label(middle)}"
    common = np.argsort(-counts, kind="stable")[: _MOST_CLASSES - 1]
    classes = np.full(coding.size, len(common))
    classes[common] = np.arange(len(common))
    return classes, coding.name


def _models(codings: Sequence[Coding]) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    known = [np.arange(coding.size) for coding in codings]
    logistic = make_pipeline(OneHotEncoder(categories=known), LogisticRegression(max_iter=200))
    return {"logistic regression": logistic, "gradient boosting": _boosting(codings)}


def _boosting(codings: Sequence[Coding]) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    categories = [not coding.ordered and coding.size <= _MOST_CATEGORIES for coding in codings]
    return HistGradientBoostingClassifier(
        max_iter=_ROUNDS, early_stopping=False, categorical_features=categories
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Train on one core and without warnings.

    Threads that wait for each other are much slower on a busy machine. A model that has not
    converged is still a model.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _right(model: Any, train: tuple[Codes, Codes], test: tuple[Codes, Codes]) -> float:
    """Train a model, and return its share of right guesses on other rows."""
    if len(np.unique(train[1])) == 1:
        return float((test[1] == train[1][0]).mean())
    with _quietly():
        return float((model.fit(*train).predict(test[0]) == test[1]).mean())
