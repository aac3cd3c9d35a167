"""Consent means the same on every engine, and a view of it follows the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato.data.engines.base import everything, render
from sfumato.data.schema.unit import Entity, Rows
from sfumato.vault.datastore import agreeing_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Unit

PEOPLE = pa.table(
    {
        "who": ["a", "a", "b", "b", "c", "c", None, "d"],
        "agreed": pa.array([True, True, True, False, True, None, True, True]),
        "row": pa.array(range(8), pa.int64()),
    }
)


@pytest.mark.parametrize(
    ("unit", "seen"), [(Entity("who", 3), [0, 1, 7]), (Rows(), [0, 1, 2, 4, 6, 7])]
)
def test_those_who_agreed(
    open_engine: Callable[[pa.Table], Engine], unit: Unit, seen: list[int]
) -> None:
    engine = open_engine(PEOPLE)
    with engine.view(agreeing_rows(engine.table, unit, "agreed")) as agreed:
        found = engine.run(everything(agreed))
    assert sorted(found["row"].to_pylist()) == seen
    assert found.column_names == PEOPLE.column_names


def test_a_withdrawal_is_obeyed_at_once_in_postgres(
    postgres_engine: Callable[[pa.Table], Engine],
) -> None:
    engine = postgres_engine(PEOPLE)
    with engine.view(agreeing_rows(engine.table, Entity("who", 3), "agreed")) as agreed:
        withdrawn = f"UPDATE {render(engine.table, 'postgres')} SET agreed = FALSE WHERE row = 1"
        engine._execute(withdrawn)  # type: ignore[attr-defined]
        found = engine.run(everything(agreed))
    assert found["row"].to_pylist() == [7]
