"""Every kind of ledger, each in a place of its own that can be opened again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pytest

from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.base import Ledger
from sfumato.privacy.ledger.commit import OutsideHead
from sfumato.privacy.ledger.memory import MemoryStore
from sfumato.privacy.ledger.sql.postgres import postgres_store
from sfumato.privacy.ledger.sql.sqlite import sqlite_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sfumato.privacy.ledger.chain import Store


class Place(Protocol):
    """Where a ledger is kept."""

    kind: str

    def open(self, **hooks: Any) -> Ledger: ...


@dataclass
class Kept:
    """A book that is opened by `store`, with its head in a file, or in memory without one."""

    kind: str
    store: Callable[..., Store]
    head: Path | None
    address: str = ""
    opened: list[Ledger] = field(default_factory=list)

    def open(self, **hooks: Any) -> Ledger:
        if self.head is not None and not self.opened:
            Ledger.create(self.store(create=True), head=OutsideHead(self.head)).close()
        head = None if self.head is None else OutsideHead(self.head)
        self.opened.append(Ledger(self.store(), head=head, **hooks))
        return self.opened[-1]


_POSTGRES = [pytest.mark.postgres, pytest.mark.xdist_group("postgres")]


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=_POSTGRES)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    kept = make_place(request, request.param, tmp_path)
    yield kept
    for ledger in kept.opened:
        ledger.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=_POSTGRES)])
def durable_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    kept = make_place(request, request.param, tmp_path)
    yield kept
    for ledger in kept.opened:
        ledger.close()


def make_place(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Kept:
    if kind == "memory":
        memory = MemoryStore()
        return Kept(kind, lambda: memory, None)
    (tmp_path / "head").mkdir()
    head = tmp_path / "head" / "head"
    if kind == "sqlite":
        path = tmp_path / "ledger.sqlite"
        return Kept(kind, lambda **how: sqlite_store(path, **how), head, str(path))
    url = fresh_schema(request.getfixturevalue("postgres_url"))
    return Kept(kind, lambda **how: postgres_store(url, **how), head, url)


def fresh_schema(url: str) -> str:
    """An address under which all tables go to a schema of their own."""
    import psycopg

    schema = f"ledger_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{url}&options=-csearch_path%3D{schema}"


@pytest.fixture
def one() -> Budget:
    """A pure budget of epsilon 1."""
    return Budget.for_epsilon_delta(epsilon=1)
