"""Pictures of answers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.report.svg_reading import assert_readable, marks, words

import sfumato as sf
from sfumato.release.plots import answer_pictures, pictures_of
from sfumato.release.release import Guarantee, Provenance, Release

GUARANTEE = Guarantee("differential privacy", "epsilon 1")


def answer(table: pa.Table, **error: object) -> Release:
    return Release({"answer": table}, GUARANTEE, Provenance("query", {}, ""), error)


def test_one_group_column_gives_bars_with_errors() -> None:
    table = pa.table({"city": ["Oslo", None, "Rome"], "n": [10, 3, -2]})
    (picture,) = pictures_of(answer(table, n={"sd": 1.0, "bound95": [2.0, 3.0, None]}))
    assert picture.table.rows == [
        ("Oslo", "10", "± 2"),
        ("(missing)", "3", "± 3"),
        ("Rome", "-2", "–"),
    ]
    svg = picture.draw(354)
    assert len(marks(svg, "whisker")) == 2
    assert_readable(svg)


def test_F29_a_number_that_no_real_holds_has_its_picture() -> None:
    table = pa.table({"city": ["Oslo", "Rome"], "n": [2**53 + 1, 2**63 - 1]})
    (picture,) = pictures_of(answer(table, n={"sd": 1.0, "bound95": 2.0}))
    assert {row[0] for row in picture.table.rows} == {"Oslo", "Rome"}


def test_two_group_columns_give_groups_or_squares() -> None:
    small = pa.table({"a": ["x", "x", "y", "y"], "b": ["u", "v", "v", "u"], "n": [1.0, 2, 3, 4]})
    (picture,) = answer_pictures(answer(small, n={"sd": 1.0, "bound95": 2.0}))
    assert ("y", "u", "4", "± 2") in picture.table.rows
    names = [str(n) for n in range(10)]
    large = pa.table(
        {"a": [x for x in names for _ in names], "b": names * 10, "n": list(range(100))}
    )
    (picture,) = answer_pictures(answer(large, n={"sd": 1.0, "bound95": 2.0}))
    assert marks(picture.draw(354), "shade5")


def test_ordered_groups_are_along_an_axis_and_missing_ones_are_told() -> None:
    table = pa.table({"month": [*range(12, 0, -1), None], "n": [float(n) for n in range(13)]})
    (picture,) = answer_pictures(answer(table, n={"sd": 1.0, "bound95": 2.0}))
    assert "Rows with a missing month are not shown." in picture.note
    assert {"1", "6", "12", "month", "n"} <= {one.text for one in words(picture.draw(764))}


def test_each_figure_has_its_picture_and_one_that_is_missing_has_none() -> None:
    table = pa.table({"n": [7], "mean": [None], "word": ["x"], "median": [3.5]})
    table = table.set_column(1, "mean", pa.array([None], pa.float64()))
    made = answer_pictures(
        answer(
            table,
            n={"sd": 1.0, "bound95": 2.0},
            mean={"sd": None, "bound95": None},
            word={"sd": None, "bound95": None},
            median={"sd": None, "bound95": None, "ranks95": 12.0},
        )
    )
    assert [one.label for one in made] == ["n", "median"]
    assert made[1].note == "Ranks are within ± 12 rows in 95 % of cases."


@pytest.mark.parametrize(
    "sql", ["SELECT COUNT(*) AS n FROM t", "SELECT a, COUNT(*) FROM t GROUP BY a"]
)
def test_real_answers_and_publications_have_pictures(sql: str) -> None:
    column = sf.Column("a", sf.Kind.INTEGER, domain=sf.Bounds(0, 9))
    table = sf.read(pa.table({"a": [1, 2, 3] * 50}), schema=sf.Schema("t", (column,)))
    private = sf.protect(table, epsilon=3)
    assert len(pictures_of(private.query(sql, epsilon=1))) == 1
    assert len(pictures_of(private.publish("histogram", columns=["a"], epsilon=1))) == 1


def test_a_release_of_rows_has_none() -> None:
    released = Release(
        {"t": pa.table({"a": [1]})}, Guarantee("syntactic", "k"), Provenance("m", {}, "")
    )
    assert pictures_of(released) == []
