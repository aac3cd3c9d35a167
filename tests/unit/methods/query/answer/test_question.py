"""Answers to plans made by hand: functions, keys, levels, error bars, and what must not leak."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from tests.fixtures.questions import argument, declared, observed, plan, released

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Kind
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError, QueryError
from sfumato.methods.query.answer import question
from sfumato.methods.query.answer.question import Question, prepare, run_finish
from sfumato.methods.query.plan import Function, Measure
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.composition import basic_guarantee
from sfumato.privacy.accounting.event_records import from_record, to_record
from sfumato.privacy.accounting.losses import Approx, Pure
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.data.engines.base import Engine
    from sfumato.methods.query.plan import Plan
    from sfumato.release.release import Release

AGE = argument("age", 18, 90, nullable=False)
SPEND = argument("spend", 0, 100_00, step=Fraction(1, 100), kind=Kind.REAL)
CITIES = ("A", "B", "empty", None)
ALL = (
    Measure("n", Function.COUNT),
    Measure("known", Function.COUNT, SPEND),
    Measure("people", Function.COUNT_PEOPLE),
    Measure("ages", Function.COUNT_DISTINCT, AGE),
    Measure("total", Function.SUM, SPEND),
    Measure("mean", Function.AVERAGE, AGE),
    Measure("variance", Function.VARIANCE, AGE),
    Measure("stddev", Function.STDDEV, SPEND),
    Measure("median", Function.QUANTILE, AGE, Fraction(1, 2)),
)


def visits(rows: int = 20_000) -> pa.Table:
    draw = np.random.default_rng(0)
    return pa.table(
        {
            "who": draw.integers(0, rows // 4, rows),
            "city": pa.array(np.array(["A", "B"])[draw.integers(2, size=rows)]),
            "age": draw.integers(18, 91, rows),
            "spend": pa.array(draw.integers(0, 100_00, rows), mask=draw.random(rows) < 0.1),
        }
    )


def ask(asked: Plan, **cost: Any) -> Question:
    return prepare(asked, open_table=open_duckdb, **cost)


def answer(asked: Plan, table: pa.Table, seed: int = 1, **cost: Any) -> Release:
    return released(ask(asked, **cost), table, SeededEntropy(seed))


@pytest.mark.parametrize("unit", [Rows(), Entity("who", 50)])
@pytest.mark.parametrize("cost", [{"epsilon": 10}, {"rho": 5}])
def test_every_function_is_near_the_truth(unit: Any, cost: Any) -> None:
    table = visits()
    found = answer(plan([declared("city", CITIES)], ALL, unit=unit), table, **cost).table
    assert found["city"].to_pylist() == list(CITIES)
    frame = table.to_pandas()
    frame = frame[frame["city"] == "A"]
    truth = {
        "n": len(frame),
        "known": frame["spend"].count(),
        "people": frame["who"].nunique() if isinstance(unit, Entity) else len(frame),
        "ages": 73,
        "total": frame["spend"].sum() / 100,
        "mean": frame["age"].mean(),
        "variance": frame["age"].var(),
        "stddev": frame["spend"].std() / 100,
        "median": frame["age"].median(),
    }
    bars = answer(plan([declared("city", CITIES)], ALL, unit=unit), table, **cost).error
    assert bars is not None
    for name, value in truth.items():
        shown = found[name][0].as_py()
        bound = bars[name]["bound95"]
        bound = bound[0] if isinstance(bound, list) else bound
        # Three times the 95 % bound; of a median the rank has the bound, of 10,000 rows.
        assert abs(shown - value) <= (3 * bound if bound is not None else 4), name


@pytest.mark.parametrize("unit", [Rows(), Entity("who", 10), Entity("who", 20, 10)])
@pytest.mark.parametrize("cost", [{"epsilon": 3}, {"rho": 1}])
def test_error_bars_hold_in_95_of_100_groups(unit: Any, cost: Any) -> None:
    """Of 400 groups at most 20 are outside on average; 45 or more come once in a million runs."""
    draw = np.random.default_rng(2)
    rows, groups = 40_000, 400
    numbers = np.arange(rows)
    spend = draw.integers(0, 100_00, rows)
    table = pa.table({"who": numbers // 10, "age": numbers % groups, "spend": spend})
    measures = [
        Measure("n", Function.COUNT),
        Measure("total", Function.SUM, SPEND),
        Measure("mean", Function.AVERAGE, SPEND),
    ]
    asked = plan([declared("age", range(groups), kind=Kind.INTEGER)], measures, unit=unit)
    found = released(ask(asked, **cost), table, SeededEntropy(7))
    assert found.error is not None
    in_groups = spend.reshape(-1, groups) / 100
    truth = {"n": rows // groups, "total": in_groups.sum(axis=0), "mean": in_groups.mean(axis=0)}
    for name, values in truth.items():
        errors = np.abs(found.table[name].to_numpy() - values)
        assert np.count_nonzero(errors > np.array(found.error[name]["bound95"])) < 45, name


def test_empty_and_outside_groups() -> None:
    """Declared groups are all answered, empty ones too, and a value that is not declared never."""
    table = pa.table({"city": ["A", "elsewhere", "elsewhere"]})
    found = answer(plan([declared("city", CITIES)], [ALL[0]]), table, epsilon=1).table
    assert found["city"].to_pylist() == list(CITIES)
    assert found["n"].type == pa.int64()


def test_F10_empty_and_missing_groups_cannot_be_told_apart() -> None:
    """A group without rows and one that no row of any city could reach have the same noise."""
    asked = plan([declared("city", CITIES)], ALL)
    empty = visits().slice(0, 0)
    one, other = (answer(asked, empty, seed=3, epsilon=1).table for _ in range(2))
    assert one.equals(other)
    assert all(column.null_count == 0 for column in one.drop_columns(["city"]).columns)


def test_observed_keys_need_a_delta_and_are_sorted() -> None:
    asked = plan([observed("city")], [ALL[0]], unit=Entity("who", 4))
    with pytest.raises(QueryError) as refusal:
        ask(asked, epsilon=1)
    assert refusal.value.code == "parameter_missing"
    table = visits()
    rare = pa.table({"who": [10**6], "city": ["rare"], "age": [20], "spend": [0]})
    found = answer(
        asked, pa.concat_tables([table, rare.cast(table.schema)]), epsilon=1, delta="1e-6"
    )
    assert found.table["city"].to_pylist() == ["A", "B"]
    assert any("not all declared" in note for note in found.guarantee.parameters["notes"])


def test_F14_the_plan_does_not_depend_on_data() -> None:
    asked = plan([declared("city", CITIES)], ALL, unit=Entity("who", 3, 2))
    one, other = ask(asked, epsilon=1), ask(asked, epsilon=1)
    released(one, visits(), SystemEntropy())
    assert one.event == other.event
    assert json.dumps(one.parameters) == json.dumps(other.parameters)


def test_levels_are_consistent() -> None:
    age = declared("age", list(range(18, 91)), kind=Kind.INTEGER)
    asked = plan(
        [declared("city", CITIES), age], ALL[:1], levels=[(0, 1), (0,), (1,), ()], unit=Rows()
    )
    found = answer(asked, visits(), epsilon=1).table
    cells = found["n"].to_numpy()
    finest, by_city = cells[: 4 * 73].reshape(4, 73), cells[4 * 73 : 4 * 73 + 4]
    by_age, total = cells[4 * 73 + 4 : -1], cells[-1]
    np.testing.assert_allclose(finest.sum(axis=1), by_city, atol=1e-6)
    np.testing.assert_allclose(finest.sum(axis=0), by_age, atol=1e-6)
    np.testing.assert_allclose(finest.sum(), total, atol=1e-6)
    assert found["city"].to_pylist()[-1] is None


def test_finish_sees_noisy_figures_only() -> None:
    finish = parse_one(
        'SELECT "n" / 2 AS half, "city" AS c, "n" AS m FROM sf_noisy '
        'WHERE "n" > 100 ORDER BY c DESC'
    )
    assert isinstance(finish, exp.Select)
    asked = plan([declared("city", CITIES)], [ALL[0]], finish=finish)
    asked = type(asked)(**{**asked.__dict__, "columns": ("half", "c", "m")})
    found = answer(asked, visits(), epsilon=1)
    assert found.table.column_names == ["half", "c", "m"]
    assert found.table["c"].to_pylist() == ["B", "A"]
    assert found.error is not None
    half, whole = found.error["half"], found.error["m"]
    assert half == {"sd": whole["sd"] / 2, "bound95": whole["bound95"] / 2}
    assert found.error["m"]["sd"] > 0
    assert "c" not in found.error


@pytest.mark.parametrize("unit", [Rows(), Entity("who", 7, 3, Neighbours.REPLACE_ONE)])
def test_costs_add_up_to_what_was_offered(unit: Any) -> None:
    asked = plan([declared("city", CITIES)], ALL, unit=unit, levels=[(0,), ()])
    assert basic_guarantee(ask(asked, epsilon="0.7").event) == Pure(epsilon=Fraction(7, 10))
    spent, delta = zcdp.guarantee(ask(asked, rho="0.3").event)
    assert Fraction(3, 10) - Fraction(1, 10**15) <= spent.rho <= Fraction(3, 10)
    assert delta == 0
    event = ask(asked, rho="0.3").event
    assert from_record(to_record(event)) == event


def test_keys_pay_their_delta() -> None:
    asked = plan([observed("city")], ALL, unit=Entity("who", 3))
    delta = Fraction(1, 10**6)
    assert basic_guarantee(ask(asked, epsilon=1, delta=delta).event) == Approx(
        epsilon=Fraction(1), delta=delta
    )
    _, spent = zcdp.guarantee(ask(asked, rho=1, delta=delta).event)
    assert spent == delta


def test_gaussian_noise_where_it_is_better() -> None:
    """Many groups of one person favour the L2 norm; one count favours Laplace noise."""
    many = plan([declared("city", CITIES)], [ALL[2]], unit=Entity("who", 1000, 1000))
    one = plan([], [ALL[0]])
    cost = {"epsilon": 1, "delta": "1e-6"}
    assert ask(many, **cost).allocation.rho is not None
    assert ask(one, **cost).allocation.epsilon == 1
    spent, _ = zcdp.guarantee(ask(many, **cost).event)
    assert zcdp.epsilon(ask(many, **cost).event, delta=Fraction(1, 10**6)) <= 1
    assert spent.rho > 0


def test_errors_balance_in_units_of_the_declared_range() -> None:
    measures = [
        Measure("small", Function.SUM, argument("age", 0, 10)),
        Measure("large", Function.SUM, argument("spend", 0, 10_000)),
    ]
    bars = ask(plan([], measures), epsilon=1).explain().expected
    assert bars[0].sd is not None
    assert bars[1].sd is not None
    assert bars[1].sd / bars[0].sd == pytest.approx(1000, rel=0.01)


def test_weights_move_the_budget() -> None:
    asked = plan([], ALL[:2])
    plain, weighed = ask(asked, epsilon=1), ask(asked, epsilon=1, weights={"n": 9})
    assert next(one.sd for one in plain.explain().expected) == pytest.approx(2.8, rel=0.02)
    epsilons = [made.epsilon for made in weighed.allocation.mechanisms.values()]  # type: ignore[union-attr]
    assert epsilons == [Fraction(9, 10), Fraction(1, 10)]
    with pytest.raises(ParameterError) as refusal:
        ask(asked, epsilon=1, weights={"m": 9})
    assert refusal.value.code == "weights_invalid"


@pytest.mark.parametrize("cost", [{}, {"epsilon": 1, "rho": 1}])
def test_exactly_one_cost(cost: Any) -> None:
    with pytest.raises(ParameterError) as refusal:
        ask(plan([], ALL[:1]), **cost)
    assert refusal.value.code == "options_conflict"


def test_too_many_groups_are_refused() -> None:
    key = declared("age", list(range(1_001)), kind=Kind.INTEGER)
    with pytest.raises(QueryError) as refusal:
        ask(plan([key, key], ALL[:1]), epsilon=1)
    assert refusal.value.code == "problem_too_large"


def test_F1_a_sum_does_not_depend_on_the_order_of_rows() -> None:
    """Values from 1 to 2^53 steps: integers are summed, so every order gives the same bits."""
    draw = np.random.default_rng(1)
    values = np.where(np.arange(2**16) % 2, 2**53, 1)
    x = argument("x", 0, 2**53, step=Fraction(1, 2**53), kind=Kind.REAL)
    asked = plan([], [Measure("s", Function.SUM, x)])
    answers = {
        answer(asked, pa.table({"x": draw.permutation(values)}), epsilon=1).table["s"][0].as_py()
        for _ in range(10)
    }
    assert len(answers) == 1


def test_F2_sums_never_wrap() -> None:
    """Each value is near the largest 64-bit integer, and so many of them are summed exactly."""
    high = 9 * 10**17
    asked = plan([], [Measure("s", Function.SUM, argument("x", -high, high))])
    table = pa.table({"x": pa.array([high] * 5_000, pa.int64())})
    found = answer(asked, table, epsilon=10).table["s"][0].as_py()
    assert found == pytest.approx(high * 5_000, rel=1e-3)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_F11_few_or_equal_rows_never_fail(rows: int) -> None:
    """Empty groups, single rows and heavy ties give figures of the same types."""
    asked = plan([declared("city", CITIES)], ALL, unit=Entity("who", 2))
    table = visits().slice(0, 1)
    table = pa.concat_tables([table] * rows) if rows else table.slice(0, 0)
    found = answer(asked, table, epsilon=1).table
    assert found.schema.types == answer(asked, visits(), epsilon=1).table.schema.types
    numbers = [found[one.name].to_numpy() for one in ALL]
    assert all(np.isfinite(column.astype(float)).all() for column in numbers)


def test_dates_and_truth_values_keep_their_kind() -> None:
    day = argument("day", 0, 20_000, kind=Kind.DATE)
    flag = argument("flag", 0, 1, kind=Kind.BOOLEAN)
    measures = [
        Measure("when", Function.QUANTILE, day, Fraction(1, 2)),
        Measure("mostly", Function.QUANTILE, flag, Fraction(1, 2)),
    ]
    table = pa.table({"day": [10_000] * 2_000, "flag": [1] * 2_000})
    found = answer(plan([], measures), table, epsilon=10).table.to_pylist()[0]
    assert str(found["when"]) == "1997-05-19"
    assert found["mostly"] is True


def test_explanation_tells_what_the_answer_shows() -> None:
    keys = [declared("city", CITIES), declared("age", [20, 30], kind=Kind.INTEGER)]
    asked = plan(keys, ALL, unit=Entity("who", 5), levels=[(0, 1), (0,), ()])
    question = ask(asked, epsilon=1)
    told = question.explain()
    shown = released(question, visits(), SeededEntropy(1)).error
    assert shown is not None
    assert shown["total"]["sd"][0] == pytest.approx(told.expected[4].sd)
    assert shown["total"]["sd"][-1] == pytest.approx(told.expected[-5].sd)
    assert shown["median"]["ranks95"] == pytest.approx(told.expected[8].ranks95)
    text = told.text()
    assert "Lower max_rows" in text
    assert "Laplace noise" in text
    assert json.loads(json.dumps(told.to_json()))["cost"] == {"epsilon": "1"}


@pytest.mark.parametrize("order", ["", 'ORDER BY "b" NULLS FIRST, sf_noisy."city" NULLS FIRST'])
def test_what_only_names_columns_is_finished_as_an_engine_would(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = plan([declared("city", ("A", "B"))], [Measure("n", Function.COUNT)])
    words = f'SELECT "n" AS "n", "city" AS "Where", "b" AS "city" FROM sf_noisy {order}'
    finish = parse_one(words, into=exp.Select)
    asked = replace(asked, finish=finish, columns=("n", "Where", "city"))
    noisy = pa.table(
        {
            "city": ["é", None, "e", "E", "", None],
            "b": [True, False, None, None, False, True],
            "n": [3, 1, None, 2, -5, 7],
            "sf_sd_0": [0.5, 1.5, None, 2.0, 3.0, 4.0],
        }
    )
    plain = run_finish(asked, noisy, _never)
    monkeypatch.setattr(question, "_select_columns", lambda *_: None)
    by_engine = run_finish(asked, noisy, open_duckdb)
    assert [one.to_pydict() for one in plain] == [one.to_pydict() for one in by_engine]
    assert [one.schema for one in plain] == [one.schema for one in by_engine]


def _never(_table: pa.Table) -> Engine:
    raise AssertionError("no engine is needed for this")


def test_many_answers_are_finished_in_one_engine() -> None:
    opened: list[Engine] = []

    def open_table(table: pa.Table) -> Engine:
        opened.append(open_duckdb(table))
        return opened[-1]

    asked = plan([declared("city", ("A", "B"))], [Measure("n", Function.COUNT)])
    asked = replace(asked, finish=asked.finish.limit(9))

    def answer(number: int) -> list[int]:
        noisy = pa.table({"city": ["B", "A"], "n": [number, number + 1], "sf_sd_0": [0.5, 1.5]})
        shown, errors = run_finish(asked, noisy, open_table)
        return [*shown["n"].to_pylist(), *errors["sf_sd_0"].to_pylist()]

    try:
        found = [answer(0)]
        with ThreadPoolExecutor(4) as threads:
            found += threads.map(answer, range(1, 12))
    finally:
        for engine in opened:
            engine.close()
    assert found == [[number, number + 1, 0.5, 1.5] for number in range(12)]
    assert len(opened) == 1
