"""Estimators keep the conventions of scikit-learn, and take nothing from rows but by learning."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier, is_clusterer, is_regressor
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import (
    check_dict_unchanged,
    check_estimator_cloneable,
    check_estimator_repr,
    check_estimators_unfitted,
    check_get_params_invariance,
    check_mixin_order,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
    check_valid_tag_types,
)

import sfumato as sf
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError
from sfumato.methods.learn.catalogue import KINDS
from sfumato.vault.estimators import ESTIMATORS, KMeans, PrincipalComponents, estimator_of

DRAWS = np.random.default_rng(5)
ROWS = DRAWS.uniform(0, 10, size=(400, 2))
CLASSES = np.where(ROWS[:, 0] + ROWS[:, 1] > 10, "high", "low")
AMOUNTS = 3 * ROWS[:, 0] - ROWS[:, 1]
BOUNDS: dict[str, Any] = {"bounds": (0, 10)}
BY_CLASS = sorted(kind for kind in ESTIMATORS if KINDS[kind].target == "class")
BY_NUMBER = sorted(kind for kind in ESTIMATORS if KINDS[kind].target == "number")


def made(kind: str, **more: Any) -> Any:
    """An estimator with all that it needs declared."""
    told: dict[str, Any] = {"epsilon": 8, **BOUNDS, **more}
    if kind in BY_CLASS:
        told.setdefault("classes", ["high", "low"])
    if kind in BY_NUMBER:
        told.setdefault("target_bounds", (-10, 30))
    return ESTIMATORS[kind](**told)


def target(kind: str) -> Any:
    return CLASSES if kind in BY_CLASS else AMOUNTS if kind in BY_NUMBER else None


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    "check",
    [
        check_estimator_cloneable,
        check_estimator_repr,
        check_get_params_invariance,
        check_mixin_order,
        check_no_attributes_set_in_init,
        check_parameters_default_constructible,
        check_set_params,
        check_valid_tag_types,
        check_estimators_unfitted,
    ],
)
def test_what_scikit_learn_itself_checks(kind: str, check: Any) -> None:
    check(ESTIMATORS[kind].__name__, made(kind))


@pytest.mark.parametrize("kind", ["kmeans", "pca"])
def test_predicting_changes_no_estimator(kind: str) -> None:
    check_dict_unchanged(ESTIMATORS[kind].__name__, made(kind))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_fitted_estimator_tells_rows_and_holds_none(kind: str) -> None:
    fitted = made(kind).fit(ROWS, target(kind))
    again = pickle.loads(pickle.dumps(fitted))
    if kind == "pca":
        assert fitted.transform(ROWS[:5]).tolist() == again.transform(ROWS[:5]).tolist()
    else:
        assert fitted.predict(ROWS[:5]).tolist() == again.predict(ROWS[:5]).tolist()
    held = pickle.dumps(fitted)
    assert not any(ROWS[row].tobytes() in held for row in range(len(ROWS)))
    assert not hasattr(fitted, "labels_")
    assert (is_classifier(fitted), is_regressor(fitted), is_clusterer(fitted)) == (
        kind in BY_CLASS,
        kind in BY_NUMBER,
        kind == "kmeans",
    )


@pytest.mark.parametrize("kind", BY_CLASS)
def test_classes_come_as_they_were_declared(kind: str) -> None:
    fitted = made(kind).fit(ROWS, CLASSES)
    assert set(fitted.predict(ROWS)) <= {"high", "low"}
    assert fitted.score(ROWS, CLASSES) > 0.8
    if hasattr(fitted, "predict_proba"):
        chances = fitted.predict_proba(ROWS)
        assert chances.shape == (400, 2)
        assert chances.sum(axis=1) == pytest.approx(1)
        assert (fitted.classes_[chances.argmax(axis=1)] == fitted.predict(ROWS)).mean() > 0.99


def test_classes_and_chances_are_sorted_however_they_were_declared() -> None:
    """The scorers of scikit-learn take the second column for the greater class."""
    upside_down = made("naive-bayes", classes=["low", "high"]).fit(ROWS, CLASSES)
    domain = Values(("low", "high"))
    within = Bounds(Decimal(0), Decimal(10))
    bounds = [Column(one, Kind.REAL, domain=within) for one in ("first", "second")]
    schema = Schema("people", (*bounds, Column("level", Kind.TEXT, domain=domain)))
    table = pa.table({"first": ROWS[:, 0], "second": ROWS[:, 1], "level": CLASSES})
    of_a_table = ESTIMATORS["naive-bayes"](epsilon=8)
    of_a_table.fit(sf.protect(table, schema, epsilon=8), "level", features=["first", "second"])
    for one in (upside_down, of_a_table, estimator_of(of_a_table.model_)):
        assert one.classes_.tolist() == ["high", "low"]
        assert get_scorer("roc_auc")(one, ROWS, CLASSES) > 0.8
        told = one.classes_[one.predict_proba(ROWS).argmax(axis=1)]
        assert (told == one.predict(ROWS)).mean() > 0.99


@pytest.mark.parametrize("bounds", [(5, 5), ([0, 0], [10, 10]), Bounds(7, 7)])
def test_bounds_between_which_nothing_lies_are_refused(bounds: Any) -> None:
    with pytest.raises(ParameterError) as refused:
        made("naive-bayes", bounds=bounds).fit(ROWS, CLASSES)
    assert refused.value.code == "bounds_invalid"


@pytest.mark.parametrize("kind", BY_NUMBER)
def test_numbers_come_near(kind: str) -> None:
    assert made(kind).fit(ROWS, AMOUNTS).score(ROWS, AMOUNTS) > 0.5


def test_groups_and_directions() -> None:
    rows = np.concatenate([DRAWS.normal(2, 0.3, (300, 2)), DRAWS.normal(8, 0.3, (300, 2))])
    groups = KMeans(2, epsilon=8, **BOUNDS).fit_predict(rows)
    assert len(set(groups[:300])) == len(set(groups[300:])) == 1
    along = PrincipalComponents(1, epsilon=8, **BOUNDS).fit_transform(rows)
    assert along.shape == (600, 1)
    assert abs(np.corrcoef(along[:, 0], rows.sum(axis=1))[0, 1]) > 0.9


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_nothing_is_taken_from_rows_that_is_not_declared(kind: str) -> None:
    with pytest.raises(ParameterError) as refused:
        made(kind, bounds=None).fit(ROWS, target(kind))
    assert refused.value.code == "bounds_missing"
    missing = {"classes": None} if kind in BY_CLASS else {"target_bounds": None}
    if KINDS[kind].target != "none":
        with pytest.raises(ParameterError) as refused:
            made(kind, **missing).fit(ROWS, target(kind))
        assert refused.value.code in {"bounds_missing", "parameter_missing"}


def test_a_class_that_nobody_declared_is_no_error() -> None:
    """An error that names a class, or that there is one, would tell of a row."""
    odd = np.where(np.arange(400) == 7, "secret", CLASSES)
    fitted = made("naive-bayes").fit(ROWS, odd)
    assert set(fitted.predict(ROWS)) <= {"high", "low"}


def test_targets_must_be_as_many_as_rows() -> None:
    for told, code in ((CLASSES[:-1], "array_invalid"), (None, "column_unknown")):
        with pytest.raises(ParameterError) as refused:
            made("naive-bayes").fit(ROWS, told)
        assert refused.value.code == code


def test_in_a_pipeline_and_by_folds() -> None:
    halved = FunctionTransformer(lambda rows: rows / 2)
    steps = make_pipeline(halved, made("naive-bayes", bounds=(0, 5)))
    assert steps.fit(ROWS, CLASSES).score(ROWS, CLASSES) > 0.8
    scores = cross_val_score(made("naive-bayes"), ROWS, CLASSES, cv=3)
    assert scores.mean() > 0.8


def test_a_clone_is_unfitted_and_asks_the_same() -> None:
    fitted = made("naive-bayes").fit(ROWS, CLASSES)
    other = clone(fitted)
    assert other.get_params() == fitted.get_params()
    assert not hasattr(other, "model_")
    assert other.set_params(epsilon=2).epsilon == 2


def test_a_data_frame_is_read_by_names() -> None:
    frame = pd.DataFrame(ROWS, columns=["first", "second"])
    fitted = made("naive-bayes").fit(frame, CLASSES)
    assert fitted.feature_names_in_.tolist() == ["first", "second"]
    turned = fitted.predict(frame[["second", "first"]])
    assert turned.tolist() == fitted.predict(frame).tolist()


def private() -> sf.Private:
    table = pa.table({"first": ROWS[:, 0], "second": ROWS[:, 1], "level": CLASSES})
    bounds = Bounds(0, 10).reals()
    columns = [Column(name, Kind.REAL, domain=bounds) for name in ("first", "second")]
    level = Column("level", Kind.TEXT, domain=Values(("high", "low")))
    return sf.protect(table, Schema("levels", (*columns, level)), epsilon=10)


def test_a_private_table_pays_from_its_own_budget() -> None:
    table = private()
    fitted = ESTIMATORS["naive-bayes"](epsilon=8)
    fitted.fit(table, "level", features=["first", "second"])
    assert table.remaining["epsilon"] == 2
    assert fitted.classes_.tolist() == ["high", "low"]
    assert fitted.score(ROWS, CLASSES) > 0.8
    with pytest.raises(ParameterError) as refused:
        fitted.fit(table, "level")
    assert refused.value.code == "column_unsuitable"


def test_a_model_learnt_elsewhere_is_scored_in_a_pipeline() -> None:
    model = private().learn("naive-bayes", features="first,second", target="level", epsilon=8).model
    as_it_is = FunctionTransformer(lambda rows: rows)
    steps = make_pipeline(as_it_is, estimator_of(model))
    assert steps.score(ROWS, CLASSES) > 0.8
    assert steps.predict(ROWS).tolist() == model.predict(ROWS).tolist()
    for part in ("predict_proba", "classes_"):
        assert len(getattr(steps, part)(ROWS) if part != "classes_" else steps.classes_)
