"""Scripts of questions: exact answers give the coin away, the door's no more than it says."""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.compute as pc
import pytest

from sfumato.attack import averaging
from sfumato.attack import runner as steward
from sfumato.attack.games import bound
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import pyarrow as pa

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]
    Ask = Callable[[str, Fraction], pa.Table]

SCHEMA = Schema(
    "clinic",
    (
        Column("age", Kind.INTEGER, Role.QUASI),
        Column("sex", Kind.TEXT, Role.QUASI),
        Column("ill", Kind.TEXT, Role.SENSITIVE),
    ),
)
SCRIPTS = ("differencing", "averaging", "tracker")
GAMES = 1000
_throw_away = steward.throw_away


@pytest.fixture
def clinic(draws: np.random.Generator) -> dict[str, list[Any]]:
    size = 400
    return {
        "age": [*draws.integers(18, 90, size - 1).tolist(), None],
        "sex": draws.choice(["f", "m"], size).tolist(),
        "ill": draws.choice(["flu", "gout", "none"], size).tolist(),
    }


@contextmanager
def exact(rows: pa.Table, schema: Schema, epsilon: Fraction) -> Iterator[Ask]:
    """A door without noise, which refuses questions about fewer than 2 rows of a game."""
    del epsilon
    with duckdb.connect() as connection:
        connection.register(schema.table, rows)

        def ask(sql: str, price: Fraction) -> pa.Table:
            del price
            answer = connection.sql(sql).to_arrow_table()
            return answer.filter(pc.greater_equal(answer.column(1), 2))

        yield ask


@contextmanager
def overcharged(rows: pa.Table, schema: Schema, epsilon: Fraction) -> Iterator[Ask]:
    """A door that charges for a script what one question costs."""
    with _throw_away(rows, schema, 10 * epsilon) as ask:
        yield lambda sql, price: ask(sql, 10 * price)


@pytest.mark.parametrize("name", ["differencing", "tracker"])
def test_exact_answers_about_many_give_every_coin_away(
    name: str, found: Attacked, clinic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even of a door that refuses small sets, as trackers were made for."""
    monkeypatch.setattr(steward, "throw_away", exact)
    told = found(name, clinic, SCHEMA, epsilon=1, guesses=GAMES)
    assert told.success.value > 0.98  # halves of fewer than two rows are refused
    assert told.passes_bound


@pytest.mark.parametrize("name", SCRIPTS)
def test_nobody_passes_the_bound_at_the_door(name: str, found: Attacked, clinic: Any) -> None:
    """At epsilon 1 the scripts are 10 standard deviations below it."""
    told = found(name, clinic, SCHEMA, epsilon=1, guesses=GAMES)
    assert told.bound == pytest.approx(0.731059, abs=1e-6)
    assert not told.passes_bound
    assert told.baseline.value == 0.5
    assert told.json()["bound"] == told.bound
    assert set(told.examples[0]) == {"age", "sex"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_hardly_anything_is_paid_and_hardly_anything_is_learnt(
    name: str, found: Attacked, clinic: Any
) -> None:
    """At epsilon 1/1000 at most 50.03 % are right; false alarms: 1 in 10^5."""
    told = found(name, clinic, SCHEMA, epsilon="1/1000", guesses=GAMES)
    assert abs(told.success.value - told.baseline.value) < 4.5 * (0.25 / GAMES) ** 0.5


def test_one_question_for_the_whole_price_reaches_the_bound(
    found: Attacked, clinic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Geometric noise gives away as much as epsilon allows; false alarms: 1 in 10^6."""
    monkeypatch.setattr(averaging, "TIMES", 1)
    told = found("averaging", clinic, SCHEMA, epsilon=1, guesses=4 * GAMES)
    deviation = (0.731 * 0.269 / (4 * GAMES)) ** 0.5
    assert abs(told.success.value - float(told.bound or 0)) < 5 * deviation


def test_a_door_that_charges_once_for_a_script_is_caught(
    found: Attacked, clinic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steward, "throw_away", overcharged)
    assert found("averaging", clinic, SCHEMA, epsilon="0.9", guesses=GAMES).passes_bound


def test_every_secret_is_reconstructed_from_exact_counts_and_none_at_the_door(
    found: Attacked, clinic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = found("reconstruct", clinic, SCHEMA, epsilon=1)
    assert not told.passes_bound
    # Noise may leave an attacker below a guess; more than a guess would be a leak.
    assert told.success.value <= told.baseline.high + 0.1
    monkeypatch.setattr(steward, "throw_away", exact)
    assert found("reconstruct", clinic, SCHEMA, epsilon=1).success.value > 0.97


def test_scripts_need_a_price(found: Attacked, clinic: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon=1"):
        found("tracker", clinic, SCHEMA)
    with pytest.raises(ParameterError, match="sensitive="):
        found("reconstruct", clinic, Schema("clinic", SCHEMA.columns[:2]), epsilon=1)


def test_a_table_in_which_nobody_differs_has_no_victim(found: Attacked) -> None:
    alike = {"age": [30, 30], "sex": ["f", "f"], "ill": ["flu", "flu"]}
    with pytest.raises(ParameterError, match="no two rows"):
        found("differencing", alike, SCHEMA, epsilon=1)


def test_the_bound() -> None:
    assert bound(Fraction(0)) == 0.5
    assert bound(Fraction(0), 0.1) == pytest.approx(0.55)
