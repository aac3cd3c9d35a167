"""The builder makes the plans that SQL makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.methods.query.builder import built_tree, table
from sfumato.methods.query.plan import canonical
from sfumato.methods.query.plan.planner import plan_question

if TYPE_CHECKING:
    from sfumato.methods.query.builder import BuiltQuestion
    from sfumato.methods.query.sql.tables import Catalogue


def same(built: BuiltQuestion, sql: str, catalogue: Catalogue) -> bool:
    found = canonical(plan_question(built, catalogue).plan)
    return found == canonical(plan_question(sql, catalogue).plan)


def test_filter_group_aggregate_order(catalogue: Catalogue) -> None:
    built = (
        table("people")
        .where("age > 30")
        .where("smoker")
        .group_by("city", decade="FLOOR(age / 10)")
        .aggregate(n="COUNT(*)", mean="AVG(spend)")
        .having("n > 10")
        .order_by("n DESC", "mean")
        .limit(5)
    )
    assert same(
        built,
        "SELECT city, FLOOR(age / 10) AS decade, COUNT(*) AS n, AVG(spend) AS mean FROM people "
        "WHERE age > 30 AND smoker GROUP BY city, FLOOR(age / 10) HAVING n > 10 "
        "ORDER BY n DESC, mean LIMIT 5",
        catalogue,
    )


def test_join_and_new_columns(catalogue: Catalogue) -> None:
    visits = table("visits").where("cost > 5")
    built = (
        table("people", "p")
        .join(visits, alias="v", on="p.id = v.patient", how="left")
        .aggregate(total="SUM(v.cost)")
    )
    assert same(
        built,
        "SELECT SUM(v.cost) AS total FROM people p LEFT JOIN "
        "(SELECT * FROM visits WHERE cost > 5) v ON p.id = v.patient",
        catalogue,
    )
    built = table("people").with_columns(double="2 * age").aggregate(x="SUM(double)")
    assert same(
        built, "SELECT SUM(double) AS x FROM (SELECT *, 2 * age AS double FROM people) t", catalogue
    )


@pytest.mark.parametrize(
    "text", ["1, 2", "1 FROM people", "age) OR (1 = 1", "1; DROP TABLE people", "", "age WHERE 1"]
)
def test_an_expression_is_one_expression(text: str) -> None:
    with pytest.raises(QueryError):
        table("people").where(text)


def test_unknown_joins_are_refused() -> None:
    with pytest.raises(QueryError) as refusal:
        table("people").join(table("places"), alias="c", on="TRUE", how="cross")
    assert refusal.value.code == "join_not_allowed"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (table("people"), "column_not_aggregated"),
        (table("people").group_by("city"), "column_not_aggregated"),
        (None, "parameter_type_wrong"),
        (b"SELECT COUNT(*) FROM people", "parameter_type_wrong"),
        (7, "parameter_type_wrong"),
    ],
)
def test_what_is_no_question_is_refused_in_words(given: object, code: str) -> None:
    private = sf.protect(sf.read(pa.table({"x": [1]})), epsilon=1)
    for refused in (built_tree, private.query, private.explain):
        with pytest.raises(QueryError) as refusal:
            refused(given)  # type: ignore[arg-type]  # on purpose
        assert refusal.value.code == code
