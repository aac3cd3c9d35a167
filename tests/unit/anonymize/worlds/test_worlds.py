"""Questions on released tables: what is read, what is refused, unknown values, workloads."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import pytest

from sfumato.anonymize.measure import compare_answers
from sfumato.anonymize.worlds import AnswerBounds, answer, answer_buckets
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.spelling import NumberSpelling
from sfumato.errors import ParameterError, QueryError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.data.counting.frequencies import Frequencies

    Counted = Callable[[Sequence[str], Sequence[Sequence[object]]], Frequencies]

NAMES = ("age", "sex", "pay")
AGE = Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 9))
SEX = Column("sex", Kind.TEXT, Role.QUASI, Values(("f", "m")))
PAY = Column("pay", Kind.INTEGER, Role.SENSITIVE)
SCHEMA = Schema("t", (AGE, SEX, PAY))
BOUNDED = Schema("t", (AGE, SEX, Column("pay", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 100))))
ROWS = [("0-4", "f", 10), ("0-4", "m", 20), ("5-9", "*", 40)]


def ask(counted: Counted, sql: str, rows: Sequence[Sequence[object]] = ROWS) -> AnswerBounds:
    return answer(sql, counted(NAMES, rows), SCHEMA)


def test_aggregates_of_labels_are_bounded_by_what_they_cover(counted: Counted) -> None:
    assert ask(counted, "SELECT COUNT(*) FROM t") == AnswerBounds(3, 3, 3)
    assert ask(counted, "SELECT SUM(pay) FROM t") == AnswerBounds(70, 70, 70)
    assert ask(counted, "SELECT SUM(age) FROM t") == AnswerBounds(5, 17, 11)
    found = ask(counted, "SELECT MIN(age) FROM t WHERE sex = 'f'")
    assert (found.lower, found.upper) == (0, 4)
    # Of the ages from 0 to 4 only 3 and 4 are above 2.
    found = ask(counted, "SELECT AVG(age) FROM t WHERE age > 2 AND sex = 'f'")
    assert (found.lower, found.upper) == (3, 9)


def test_missing_values_are_not_counted_nor_summed(counted: Counted) -> None:
    rows = [(1, "f", 10), (None, "m", None), (3, "m", 30)]
    assert ask(counted, "SELECT COUNT(pay) FROM t", rows) == AnswerBounds(2, 2, 2)
    assert ask(counted, "SELECT AVG(pay) FROM t", rows) == AnswerBounds(20, 20, 20)
    assert ask(counted, "SELECT COUNT(*) FROM t WHERE age IS NULL", rows) == AnswerBounds(1, 1, 1)
    assert ask(counted, "SELECT COUNT(*) FROM t WHERE NOT age = 1", rows) == AnswerBounds(1, 1, 1)
    assert ask(counted, "SELECT COUNT(*) FROM t WHERE age IS NOT NULL", rows) == AnswerBounds(
        2, 2, 2
    )


def test_suppressed_rows_may_be_anything(counted: Counted) -> None:
    rows = [("1", "f", "10"), ("3", "m", "30"), ("*", "*", "*")]
    table = counted(NAMES, rows)
    found = answer("SELECT COUNT(*) FROM t WHERE age = 3", table, SCHEMA)
    assert (found.lower, found.upper) == (1, 2)
    assert found.estimate == pytest.approx(1.1)
    total = "SELECT SUM(pay) FROM t"
    assert answer(total, table, SCHEMA) == AnswerBounds(None, None, None)
    assert answer(total, table, BOUNDED) == AnswerBounds(40, 140, 90)
    assert answer("SELECT MAX(pay) FROM t WHERE age = 3", table, BOUNDED).upper == 100


def test_no_selection_in_any_world_has_no_mean(counted: Counted) -> None:
    nobody = "FROM t WHERE sex = 'f' AND age > 4 AND pay < 20"
    assert ask(counted, f"SELECT AVG(pay) {nobody}") == AnswerBounds(None, None, None)
    assert ask(counted, f"SELECT SUM(pay) {nobody}") == AnswerBounds(0, 0, 0)


def test_the_greatest_is_expected_among_those_selected(counted: Counted) -> None:
    """40 half of the time, else 20, and there is always one."""
    found = ask(counted, "SELECT MAX(pay) FROM t WHERE sex = 'm'")
    assert found == AnswerBounds(20, 40, 30)


def test_tight_labels_force_rows_in_and_out(counted: Counted) -> None:
    table = counted(NAMES, [("0-4", "f", -10), ("0-4", "f", -20), ("0-4", "f", 30)])

    def tight(sql: str) -> AnswerBounds:
        return answer(sql, table, SCHEMA, labels="tight")

    assert tight("SELECT COUNT(*) FROM t WHERE age IN (0, 4)") == AnswerBounds(2, 3, 2)
    found = tight("SELECT COUNT(*) FROM t WHERE age = 2")
    assert (found.lower, found.upper) == (0, 1)
    assert found.estimate == pytest.approx(0.6)
    assert answer("SELECT SUM(pay) FROM t WHERE age = 0", table, SCHEMA).lower == -30
    assert tight("SELECT SUM(pay) FROM t WHERE age = 2").upper == 30
    assert tight("SELECT SUM(pay) FROM t WHERE age = 2").lower == -20


BMI = Column("bmi", Kind.REAL, Role.QUASI, hierarchy=Widths((Decimal("0.5"), Decimal(2))))
REALS = {
    "undeclared": BMI,
    "bounds": replace(BMI, domain=Bounds(Decimal(0), Decimal(8))),
    "bounds and a step": replace(BMI, domain=Bounds(Decimal(0), Decimal(8), Decimal("0.001"))),
    "decimal commas": replace(BMI, spelling=NumberSpelling(decimal=",")),
}


@pytest.mark.parametrize("column", REALS)
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("COUNT(*) FROM t WHERE bmi >= 1.6", (1, 3, 2.6)),
        ("COUNT(*) FROM t WHERE bmi >= 2", (1, 1, 1)),
        ("COUNT(*) FROM t WHERE bmi < 2", (2, 2, 2)),
        ("COUNT(*) FROM t WHERE bmi > 1.6 AND bmi < 1.7", (0, 2, 0.4)),
        ("COUNT(*) FROM t WHERE bmi BETWEEN 1.7 AND 1.7", (0, 2, 0)),
        ("COUNT(*) FROM t WHERE bmi <> 1.7", (1, 3, 3)),
        ("COUNT(*) FROM t WHERE bmi IN (1.4, 3)", (0, 1, 0)),
        ("AVG(bmi) FROM t WHERE bmi < 2", (1.5, 2, 1.75)),
        ("AVG(bmi) FROM t WHERE bmi < 1.6", (1.5, 1.6, 1.55)),
        ("AVG(bmi) FROM t WHERE bmi = 1.7", (1.7, 1.7, 1.7)),
        ("SUM(bmi) FROM t", (5, 8, 6.5)),
        ("MAX(bmi) FROM t WHERE bmi > 2.5", (2.5, 4, 3.25)),
    ],
)
def test_a_range_of_reals_is_all_between_its_ends(
    counted: Counted, column: str, sql: str, expected: tuple[float, float, float]
) -> None:
    texts = ["[1.5, 2.0)", "[1.5, 2.0)", "[2, 4)"]
    if column == "decimal commas":
        texts = ["[1,5; 2,0)", "[1,5; 2,0)", "[2; 4)"]
    table = counted(["bmi"], [(text,) for text in texts])
    schema = Schema("t", (REALS[column],))
    for labels in ("public", "tight"):
        found = answer(f"SELECT {sql}", table, schema, labels=labels)
        assert (found.lower, found.upper, found.estimate) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("domain", [None, Bounds(0, 10**9), Bounds(-(2**63), 2**63 - 1)])
def test_a_range_too_wide_to_write_out_is_all_between_its_ends(
    counted: Counted, domain: Bounds | None
) -> None:
    rows = [("0-3999999",), ("0-3999999",), ("7",)]
    table = counted(["pay"], rows if domain is None else [*rows, ("*",)])
    schema = Schema("t", (Column("pay", Kind.INTEGER, Role.QUASI, domain),))

    def asked(sql: str) -> tuple[float | None, float | None]:
        found = answer(sql, table, schema, starred=False)
        return found.lower, found.upper

    if domain is None:
        assert asked("SELECT SUM(pay) FROM t WHERE pay > 8.5 AND pay < 10.5") == (0, 20)
        assert asked("SELECT MAX(pay) FROM t") == (7, 3_999_999)
    stars = 0 if domain is None else 1
    assert asked("SELECT COUNT(*) FROM t WHERE pay BETWEEN 10 AND 20") == (0, 2 + stars)
    assert asked("SELECT COUNT(*) FROM t WHERE pay < 4000000") == (3, 3 + stars)
    assert asked("SELECT COUNT(*) FROM t WHERE pay > 1e300") == (0, 0)
    assert asked("SELECT COUNT(*) FROM t WHERE pay = 12.5") == (0, 0)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT ((", "sql_syntax"),
        ("SELECT age FROM t", "question_not_supported"),
        ("SELECT COUNT(*), SUM(pay) FROM t", "question_not_supported"),
        ("SELECT COUNT(*) FROM t GROUP BY sex", "question_not_supported"),
        ("SELECT COUNT(*) FROM t, u", "question_not_supported"),
        ("SELECT COUNT(*) FROM t LIMIT 1", "question_not_supported"),
        ("SELECT SUM(pay + 1) FROM t", "question_not_supported"),
        ("SELECT COUNT(DISTINCT age) FROM t", "question_not_supported"),
        ("DELETE FROM t", "question_not_supported"),
        ("SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t", "question_not_supported"),
        ("", "question_not_supported"),
        ("(" * 3_000, "sql_too_complex"),
        ("SELECT COUNT(*) FROM t WHERE " + "NOT " * 1_000 + "age = 1", "sql_too_complex"),
        ("SELECT COUNT(*) FROM t WHERE " + " OR ".join(["age = 1"] * 1_000), "sql_too_complex"),
        ("SELECT COUNT(*) FROM t WHERE age IN (" + "1, " * 9_000 + "1)", "sql_too_complex"),
        ("SELECT COUNT(*) FROM t WHERE sex = '" + "f" * 70_000 + "'", "sql_too_complex"),
        ("SELECT COUNT(*) FROM t WHERE sex = '\x01'", "sql_syntax"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM t",
            "question_not_supported",
        ),
        ("SELECT MAX(sex) FROM t", "column_unsuitable"),
        ("SELECT COUNT(*) FROM t WHERE age + 1 = 2", "question_not_supported"),
        ("SELECT COUNT(*) FROM t WHERE age = pay", "question_not_supported"),
        ("SELECT COUNT(*) FROM t WHERE age IN (SELECT 1)", "question_not_supported"),
        ("SELECT COUNT(*) FROM t WHERE age = 'x'", "kind_mismatch"),
    ],
)
def test_questions_that_are_refused(counted: Counted, sql: str, code: str) -> None:
    with pytest.raises(QueryError) as error:
        ask(counted, sql)
    assert error.value.code == code


def test_columns_that_are_not_there(counted: Counted) -> None:
    with pytest.raises(SchemaError) as error:
        ask(counted, "SELECT COUNT(*) FROM t WHERE height = 2")
    assert error.value.code == "column_unknown"
    with pytest.raises(QueryError) as released:
        answer("SELECT SUM(pay) FROM t", counted(["age"], [(1,)]), SCHEMA)
    assert released.value.code == "column_unknown"
    with pytest.raises(ParameterError) as labels:
        answer("SELECT COUNT(*) FROM t", counted(["age"], [(1,)]), SCHEMA, labels="loose")  # type: ignore[arg-type]
    assert labels.value.code == "choice_unknown"


def test_buckets_refuse_conditions_across_both_tables(counted: Counted) -> None:
    schema = Schema("t", (AGE, PAY, Column("group", Kind.INTEGER)))
    rows = counted(("age", "group"), [(1, 1), (2, 1), (3, 2)])
    values = counted(("group", "pay"), [(1, 10), (1, 20), (2, 30)])
    with pytest.raises(QueryError) as error:
        answer_buckets("SELECT COUNT(*) FROM t WHERE age = 1 OR pay = 10", rows, values, schema)
    assert error.value.code == "question_not_supported"
    found = answer_buckets("SELECT SUM(pay) FROM t WHERE age <= 1", rows, values, schema)
    assert found == AnswerBounds(10, 20, 15)
    ages = answer_buckets("SELECT SUM(age) FROM t WHERE pay > 10", rows, values, schema)
    assert ages == AnswerBounds(4, 5, 4.5)


def test_workload_is_the_mean_relative_error(counted: Counted) -> None:
    original = counted(NAMES, [(1, "f", 10), (3, "m", 20), (7, "m", 40)])
    released = counted(NAMES, ROWS)
    questions = [
        "SELECT COUNT(*) FROM t WHERE sex = 'm'",
        "SELECT COUNT(*) FROM t WHERE age = 1",
        "SELECT AVG(pay) FROM t WHERE age > 9",
    ]
    true = partial(answer, released=original, schema=SCHEMA)
    found = compare_answers(questions, true, partial(answer, released=released, schema=SCHEMA))
    assert found.errors[2] is None
    assert found.errors[:2] == pytest.approx((0.25, 0.6))
    assert found.mean == pytest.approx(0.425)
    assert compare_answers(questions, true, true).mean == 0
    with pytest.raises(ParameterError):
        compare_answers([], true, true)
