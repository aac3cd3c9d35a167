"""A vault in the current folder, and what must be true of every other name of its sources."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.errors import SfumatoError
from sfumato.vault import book
from sfumato.vault.registration import Registration, add_public, create

if TYPE_CHECKING:
    from collections.abc import Callable

VAULT = Path("clinic")
"""Where the vault lies."""

ROWS = 300
"""How many rows the tables have."""

_SCHEMA = """\
table = "t"
[columns.who]
kind = "integer"
role = "identifier"
nullable = false
[columns.name]
kind = "text"
[columns.cost]
kind = "real"
bounds = [0.0, 100.0]
[columns.born]
kind = "date"
bounds = [1900-01-01, 2030-01-01]
[columns.agreed]
kind = "boolean"
"""


def make() -> None:
    """Make a vault here, and a schema for its tables."""
    Path("t.toml").write_text(_SCHEMA)
    create(VAULT)


def rows(start: int = 0) -> pa.Table:
    """A table of every kind, with missing values; another start gives other people."""
    numbers = range(start, start + ROWS)
    return pa.table(
        {
            "who": pa.array(numbers, pa.int64()),
            "name": [f"n{one % 7}" if one % 5 else None for one in numbers],
            "cost": [None if one % 11 == 0 else one / 8 for one in numbers],
            "born": pa.array([one * 40 for one in numbers], pa.int32()).cast(pa.date32()),
            "agreed": [one % 2 == 0 for one in numbers],
        }
    )


def add(name: str, source: str, **changes: Any) -> None:
    """Add a private source."""
    given = {"schema": Path("t.toml"), "unit": "row", "epsilon": "1"}
    Registration(name=name, source=source, **{**given, **changes}).add_to(VAULT)


def add_publicly(name: str, source: str) -> None:
    """Add a source as public."""
    add_public(VAULT, name=name, source=source, schema=Path("t.toml"), keys={})


def refusal(action: Callable[..., object], *given: Any, **options: Any) -> str:
    """The code with which an action is refused, which must leave the vault as it is."""
    before = state()
    code = code_of(action, *given, **options)
    assert state() == before
    return code


def code_of(action: Callable[..., object], *given: Any, **options: Any) -> str:
    """The code with which an action is refused, in one line."""
    with pytest.raises(SfumatoError) as caught:
        action(*given, **options)
    assert "\n" not in caught.value.message
    return caught.value.code


def state() -> object:
    """All of a vault, byte by byte; of its ledger all entries and accounts."""
    files = {
        path: path.read_bytes()
        for path in (*VAULT.rglob("*"), VAULT.with_name(f"{VAULT.name}.head"))
        if path.is_file() and "ledger.sqlite" not in path.name
    }
    with closing(book.opened(VAULT)) as ledger:
        entries = [entry.body for entry in ledger.entries()]
    return files, entries, book.accounts(VAULT)


def check_alias(alias: str, population: str = "visits") -> None:
    """It is refused as another's, as public, and taken only where its people have a budget."""
    assert refusal(add, "again", alias) == "dataset_attached"
    assert refusal(add, "again", alias, population="others") == "dataset_attached"
    assert refusal(add_publicly, "again", alias) == "source_private"
    add("again", alias, population=population, epsilon=None)
    assert [one["account"] for one in book.accounts(VAULT)] == [population]
