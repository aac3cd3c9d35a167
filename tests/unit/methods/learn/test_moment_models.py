"""Lines, components and covariances: right without noise, honest with it, whole at every edge."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.slices import few_fast

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.unit import Entity, Rows
from sfumato.errors import ParameterError
from sfumato.methods.learn.linear import fit_line
from sfumato.methods.learn.model import load_model
from sfumato.methods.learn.noisy_moments import NoisyMoments, plan
from sfumato.methods.learn.request import LearningRequest, model_type
from sfumato.methods.learn.request import prepare as plan_model
from sfumato.methods.method import Dataset, SaltedData
from sfumato.privacy.accounting.composition import basic_guarantee
from sfumato.privacy.accounting.price import Price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.model import Model

A, B = (Column(name, Kind.REAL, domain=Bounds(Decimal(0), Decimal(10))) for name in ("a", "b"))
CITY = Column("city", Kind.TEXT, domain=Values(("x", "y", "z")))
SEX = Column("sex", Kind.TEXT, domain=Values(("F", "M")))
Y = Column("y", Kind.REAL, domain=Bounds(Decimal(-50), Decimal(50)))
KINDS = ("linear", "ridge", "pca", "covariance")
MUCH = Price(epsilon=Fraction(10**6))


def request_of(
    features: tuple[Column, ...], kind: str, price: Price = MUCH, unit: Unit | None = None
) -> LearningRequest:
    target = Y if kind in ("linear", "ridge") else None
    columns = (*features, Y)
    return LearningRequest(
        dataset="t",
        schema=Schema("t", columns),
        features=features,
        target=target,
        unit=unit or Rows(),
        price=price,
    )


def learnt(kind: str, table: pa.Table, features: tuple[Column, ...], **more: Any) -> Model:
    price, unit = more.pop("price", MUCH), more.pop("unit", Rows())
    request = request_of(features, kind, price, unit)
    learner = plan_model(kind, request, more).method
    engine = open_duckdb(table)
    data = Dataset("t", engine, engine.table, request.schema, unit)
    tables = learner.release(SaltedData(data, ""), SeededEntropy(1))
    engine.close()
    for name, one in tables.items():
        assert one.schema == learner.tables[name].schema
    model = model_type(kind)(
        kind=kind,
        kinds={one.name: str(one.kind) for one in features},
        target=None if request.target is None else "y",
        facts=learner.facts,
        tables=tables,
    )
    model.check()
    return model


def rows_of(number: int, seed: int = 1) -> pa.Table:
    draw = np.random.default_rng(seed)
    a, b = draw.uniform(2, 8, (2, number))
    city, sex = draw.integers(0, 3, number), draw.integers(0, 2, number)
    y = 3 * a - 2 * b + 5 * (city == 1) + 4 * sex + draw.normal(0, 2, number)
    names = {"city": np.array(["x", "y", "z"])[city], "sex": np.array(["F", "M"])[sex]}
    return pa.table({"a": a, "b": b, **names, "y": y})


def column(model: Model, table: str, name: str) -> Any:
    return np.asarray(model.tables[table].column(name))


def test_a_line_without_noise_is_that_of_least_squares() -> None:
    rows = rows_of(4_000)
    model = learnt("linear", rows, (A, B, SEX))
    a, b = np.asarray(rows["a"]), np.asarray(rows["b"])
    sex = np.asarray(rows["sex"]) == "M"
    design = np.stack([np.ones(4_000), a, b, sex], axis=1)
    expected, *_ = np.linalg.lstsq(design, np.asarray(rows["y"]), rcond=None)
    found = column(model, "coefficients", "coefficient")
    assert found[1:] == pytest.approx(expected[1:], abs=0.02)
    assert found[0] == pytest.approx(expected[0], abs=0.1)
    assert column(model, "fit", "residual_sd")[0] == pytest.approx(3.1, abs=0.2)
    assert model.score(rows, np.asarray(rows["y"])) > 0.7


def test_the_intercept_and_the_slopes_tell_what_the_model_predicts() -> None:
    """By hand, in units of the columns, one of which never varies and one has three values."""
    fixed = Column("fixed", Kind.INTEGER, domain=Bounds(7, 7))
    rows = rows_of(500).append_column("fixed", pa.array([7] * 500))
    model = learnt("linear", rows, (A, B, SEX, CITY, fixed), price=Price(epsilon=Fraction(5)))
    told = model.tables["coefficients"].to_pydict()
    by_name = dict(zip(told["name"], told["coefficient"], strict=True))
    by_hand = by_name["(intercept)"] + by_name["a"] * np.asarray(rows["a"])
    by_hand += by_name["b"] * np.asarray(rows["b"])
    by_hand += by_name["sex=M"] * (np.asarray(rows["sex"]) == "M")
    for city in ("x", "y", "z"):
        by_hand += by_name[f"city={city}"] * (np.asarray(rows["city"]) == city)
    # A coordinate is one of 2,049, so that a value is rounded by at most 10 / 4,096.
    off = (abs(by_name["a"]) + abs(by_name["b"])) * 10 / 4096
    assert np.abs(by_hand - model.predict(rows)).max() <= off + 1e-9


def test_rows_beyond_the_norm_count_less_and_bend_nothing() -> None:
    rows = rows_of(4_000)
    whole, shrunk = (learnt("linear", rows, (A, B), norm=one) for one in (2, Fraction(1, 5)))
    assert column(shrunk, "fit", "weight")[0] < 0.6 * column(whole, "fit", "weight")[0]
    for name in ("low", "high"):
        slopes = [column(one, "coefficients", name)[1:] for one in (shrunk, whole)]
        assert slopes[0] == pytest.approx(slopes[1], abs=0.5)
    middles = [50 * column(one, "coefficients", "weight")[0] for one in (shrunk, whole)]
    assert middles[0] == pytest.approx(middles[1], abs=0.5)  # far from it slopes add up


def test_a_penalty_draws_to_nothing() -> None:
    rows = rows_of(500)
    free, held = (learnt("ridge", rows, (A, B), penalty=one) for one in (0, 10_000))
    assert np.abs(column(held, "coefficients", "weight")[1:]).max() < 0.01
    assert np.abs(column(free, "coefficients", "weight")[1:]).max() > 0.2


def test_intervals_hold_what_noise_and_chance_may_do() -> None:
    """95 % on paper, where the penalty is next to nothing; by noise as much as by chance."""
    draw, size, rows = np.random.default_rng(3), 3, 3_000
    truth, away = np.array([0.3, -0.2, 0.1]), np.array([-1.5, 0.5, -2.0])
    stddev = dict.fromkeys(
        ("rows", "sums", "squares", "cross", "target", "joint", "target_square"), 6.0
    )
    inside = []
    for _ in range(400):
        x = draw.uniform(-1, 1, (rows, size)) + np.array([0.1, 0.0, -0.1])
        y = 0.05 + x @ truth + draw.normal(0, 0.3, rows)
        upper = np.triu(draw.normal(0, 6, (size, size)))
        noise = upper + np.triu(upper, 1).T
        moments = NoisyMoments(
            rows=rows + draw.normal(0, 6),
            sums=x.sum(axis=0) + draw.normal(0, 6, size),
            products=x.T @ x + noise,
            target=y.sum() + draw.normal(0, 6),
            joint=x.T @ y + draw.normal(0, 6, size),
            target_square=y @ y + draw.normal(0, 6),
            stddev=stddev,
        )
        line = fit_line(moments)
        assert line.penalty < 1
        off = np.abs(line.weights - np.array([0.05, *truth]))
        value, sd = line.at(away)
        far = abs(value - 0.05 - away @ truth) < 1.96 * sd
        inside.append([*(off < 1.96 * line.stddev), far])
    share = np.mean(inside, axis=0)
    assert (share > 0.91).all(), share
    assert (share < 0.99).all(), share


def test_components_without_noise_are_the_directions_of_most_variance() -> None:
    rows = rows_of(4_000)
    model = learnt("pca", rows, (A, B, SEX), components=2)
    found = model.components  # type: ignore[attr-defined]
    assert np.abs(found[0]) == pytest.approx([0, 0, 1], abs=0.05)
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1])
    variances = column(model, "spectrum", "variance")
    assert variances == pytest.approx([1, 0.12], abs=0.02)
    assert model.read(rows).keys() == {"component_1", "component_2"}


def test_covariances_without_noise_are_those_of_the_rows() -> None:
    rows = rows_of(2_000)
    model = learnt("covariance", rows, (A, B, SEX, CITY))
    values = np.stack([np.asarray(rows["a"]), np.asarray(rows["b"])])
    expected = np.cov(values, bias=True)
    assert model.matrix[:2, :2] == pytest.approx(expected, abs=0.01)  # type: ignore[attr-defined]
    assert column(model, "means", "mean")[:2] == pytest.approx(values.mean(axis=1), abs=0.01)
    shares = column(model, "means", "mean")[2:]
    assert shares[0] == pytest.approx(np.mean(np.asarray(rows["sex"]) == "M"), abs=0.001)
    assert shares[1:].sum() == pytest.approx(1, abs=0.001)
    told = {(one["first"], one["second"]): one for one in model.tables["covariances"].to_pylist()}
    assert told["a", "b"]["correlation"] == pytest.approx(
        np.corrcoef(values)[0, 1], abs=0.01
    )  # fmt: skip
    # Two values of one column are never together.
    assert told["city=x", "city=y"]["covariance"] == pytest.approx(-shares[1] * shares[2], abs=1e-4)


def test_bars_of_covariances_hold_the_figures_of_the_rows() -> None:
    rows = rows_of(1_000)
    exact = learnt("covariance", rows, (A, B, CITY))
    request = request_of((A, B, CITY), "covariance", Price(epsilon=Fraction(2)))
    learner: Any = plan_model("covariance", request, {}).method
    engine, inside = open_duckdb(rows), []
    sums = learner.moments.exact(Dataset("t", engine, engine.table, request.schema, Rows()))
    engine.close()
    truth = column(exact, "covariances", "covariance")
    entropy = SeededEntropy(8)

    class Held:
        """A plan that has its sums already."""

        def __getattr__(self, name: str) -> Any:
            return getattr(learner.moments, name)

        def measure(self, _data: Any, entropy: Any) -> Any:
            return learner.moments.noised(sums, entropy)

    held = type(learner)(Held())
    for _ in range(150):
        told = held.release(SaltedData(None, ""), entropy)["covariances"]  # type: ignore[arg-type]
        low, high = np.asarray(told["low"]), np.asarray(told["high"])
        inside.append((low <= truth) & (truth <= high))
    assert 0.93 < np.mean(inside) < 0.99


EDGES = {
    "no rows": rows_of(0),
    "one row": rows_of(1),
    "all missing": pa.table(
        {
            **{name: pa.nulls(20, pa.float64()) for name in "aby"},
            **{name: pa.nulls(20, pa.string()) for name in ("city", "sex")},
        }
    ),
    "never varying": pa.table(
        {"a": [3.0] * 20, "b": [9.0] * 20, "city": ["x"] * 20, "sex": ["F"] * 20, "y": [7.0] * 20}
    ),
    "beyond all bounds": pa.table(
        {
            "a": [float("inf"), float("nan")] * 10,
            "b": [-1e300] * 20,
            "city": ["?"] * 20,
            "sex": ["?"] * 20,
            "y": [1e300] * 20,
        }
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", few_fast([Fraction(1, 10**6), Fraction(1), Fraction(10**6)], 1))
def test_a_model_comes_out_whatever_the_rows(kind: str, epsilon: Fraction) -> None:
    asked = rows_of(5)
    for told, rows in EDGES.items():
        for features in ((A,), (A, B, SEX, CITY)):
            model = learnt(kind, rows, features, price=Price(epsilon=epsilon))
            for table in model.tables.values():
                for one in table.columns:
                    if pa.types.is_floating(one.type):
                        assert np.isfinite(np.asarray(one)).all(), (told, one)
            assert np.isfinite(model.predict(asked)).all(), told


def test_sixty_columns_by_person_at_a_tiny_epsilon() -> None:
    features = tuple(
        Column(f"x{at}", Kind.INTEGER, domain=Bounds(0, 9)) for at in range(60)
    )  # fmt: skip
    request = request_of(features, "pca", Price(epsilon=Fraction(1, 10**6)), Entity("p", 1000))
    one = plan(request)
    sums = np.zeros(sum(len(block.pairs) for block in one.blocks), dtype=object)
    assert len(sums) == 1 + 60 + 60 * 61 // 2
    noisy = one.noised(sums, SeededEntropy(2))
    assert np.isfinite(noisy.products).all()


@pytest.mark.parametrize("price", [Price(epsilon=Fraction(1)), Price(rho=Fraction(1, 2))])
def test_what_is_charged_is_what_was_offered(price: Price) -> None:
    one = plan(request_of((A, B, CITY), "linear", price))
    assert sum(one.shares.values()) == 1
    if price.epsilon is not None:
        assert basic_guarantee(one.event).epsilon == price.epsilon
    else:
        events: list[Any] = [noise.event for noise in one.noises.values()]
        spent = sum(event.l2_sensitivity_squared / (2 * event.variance) for event in events)
        assert spent == price.rho


def test_with_a_delta_the_noise_that_is_less_is_taken() -> None:
    many = tuple(Column(f"x{at}", Kind.INTEGER, domain=Bounds(0, 9)) for at in range(20))
    price = Price(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert plan(request_of(many, "pca", price)).parameters["noise"] == "gaussian"
    assert plan(request_of((A,), "pca", price)).parameters["noise"] == "geometric"


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_saved_and_read_again(kind: str, tmp_path: Path) -> None:
    model, rows = learnt(kind, rows_of(300), (A, SEX, CITY)), rows_of(20, seed=2)
    again = load_model(model.save(tmp_path / "model.json"))
    assert np.array_equal(again.predict(rows), model.predict(rows))
    assert kind in repr(model)


@pytest.mark.parametrize(
    ("kind", "options", "code"),
    [
        ("linear", {"norm": 0}, "parameter_out_of_range"),
        ("ridge", {"penalty": -1}, "parameter_out_of_range"),
        ("pca", {"components": 4}, "parameter_out_of_range"),
        ("covariance", {"penalty": 1}, "option_unknown"),
    ],
)
def test_options_that_cannot_be(kind: str, options: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        plan_model(kind, request_of((A, B), kind), options)
    assert refused.value.code == code


def test_targets_and_features_that_cannot_be() -> None:
    wide = Column("c", Kind.INTEGER, domain=Values(tuple(range(300))))
    with pytest.raises(ParameterError) as refused:
        plan_model("pca", request_of((wide,), "pca"), {})
    assert refused.value.code == "problem_too_large"
    request = request_of((A,), "pca")
    classes = LearningRequest(
        dataset="t",
        schema=request.schema,
        features=(A,),
        target=SEX,
        unit=Rows(),
        price=MUCH,
    )
    with pytest.raises(ParameterError) as refused:
        plan_model("linear", classes, {})
    assert refused.value.code == "column_unsuitable"
