"""Attacks by subtraction and by repetition, on students who passed or failed.

Each class is a table of its own, with its own noise: a question that is grouped by class is as
many independent attacks as there are classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ask = Callable[[str], NDArray[Any]]

CLASSES, STUDENTS = 400, 8
QUESTION = "SELECT class, COUNT(*) AS n FROM students WHERE failed AND {} GROUP BY class"


@pytest.fixture
def failed(secrets: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """Who failed: one row of students per class."""
    return secrets(CLASSES * STUDENTS).reshape(CLASSES, STUDENTS).astype(bool)


@pytest.fixture
def students(failed: NDArray[Any]) -> pa.Table:
    place = np.tile(np.arange(STUDENTS), CLASSES)
    return pa.table(
        {
            "class": np.repeat(np.arange(CLASSES), STUDENTS),
            "place": place,
            "name": np.array(["Frank McSherry", *map(str, range(1, STUDENTS))])[place],
            "failed": failed.ravel(),
        }
    )


@pytest.fixture
def exactly(students: pa.Table) -> Ask:
    """Ask a database that answers anything."""

    def ask(condition: str) -> NDArray[Any]:
        counted = f"WITH counted AS ({QUESTION.format(condition)})"
        rows = connection.execute(
            f"{counted} SELECT class, COALESCE(n, 0) AS n FROM range({CLASSES}) AS classes(class) "
            "LEFT JOIN counted USING (class) ORDER BY class"
        )
        return np.asarray(rows.fetchnumpy()["n"])

    connection = duckdb.connect()
    connection.register("students", students)
    return ask


@pytest.fixture
def private(students: pa.Table) -> sf.Private:
    columns = (
        sf.Column("class", sf.Kind.INTEGER, domain=sf.Bounds(0, CLASSES - 1), nullable=False),
        sf.Column("place", sf.Kind.INTEGER, domain=sf.Bounds(0, STUDENTS - 1), nullable=False),
        sf.Column("name", sf.Kind.TEXT, nullable=False),
        sf.Column("failed", sf.Kind.BOOLEAN, nullable=False),
    )
    return sf.protect(sf.read(students, sf.Schema("students", columns)), epsilon=1)


def privately(private: sf.Private, questions: int) -> Ask:
    """Ask so many questions for the whole budget."""

    def ask(condition: str) -> NDArray[Any]:
        answer = private.query(QUESTION.format(condition), epsilon=f"1/{questions}")
        return np.asarray(answer.table["n"])

    return ask


def differencing(ask: Ask) -> NDArray[Any]:
    """Did Frank McSherry fail? Count with him and without him."""
    return ask("place >= 0") - ask("name <> 'Frank McSherry'") >= 0.5


def prefix_sums(ask: Ask) -> NDArray[Any]:
    """Who failed? Count the first 1, 2, 3, ... students, and subtract."""
    sums = [ask(f"place <= {last}") for last in range(STUDENTS)]
    return np.diff(np.stack(sums), axis=0, prepend=0).T >= 0.5


def test_differencing(
    failed: NDArray[Any], exactly: Ask, private: sf.Private, most_right: Callable[..., int]
) -> None:
    frank = failed[:, 0]
    assert (differencing(exactly) == frank).all()
    right = (differencing(privately(private, 2)) == frank).sum()
    assert right <= most_right(1.0, CLASSES)


def test_prefix_sums(
    failed: NDArray[Any], exactly: Ask, private: sf.Private, most_right: Callable[..., int]
) -> None:
    assert (prefix_sums(exactly) == failed).all()
    right = (prefix_sums(privately(private, STUDENTS)) == failed).sum()
    assert right <= most_right(1.0, failed.size)


def test_the_bound_would_catch_too_little_noise(
    failed: NDArray[Any], exactly: Ask, most_right: Callable[..., int]
) -> None:
    """A tenth of the noise that is owed is seen, but for a chance far below 1e-6."""

    def careless(condition: str) -> NDArray[Any]:
        return np.asarray(exactly(condition) + sf.noise.discrete_laplace("1/5", CLASSES))

    assert (differencing(careless) == failed[:, 0]).sum() > most_right(1.0, CLASSES)


def test_F17_averaging_repeated_questions(private: sf.Private) -> None:
    """The same question has one answer; other words for it each pay."""
    ask = privately(private, 10)
    answers = np.stack([ask("place >= 0") for _ in range(50)])
    assert (answers == answers[0]).all()
    assert private.remaining["epsilon"] == pytest.approx(0.9)
    for number in range(1, 10):
        ask(f"place >= {-number}")
    with pytest.raises(BudgetError):
        ask("place >= -10")
