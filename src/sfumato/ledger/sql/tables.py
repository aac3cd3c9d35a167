"""The tables of the book, the same for every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

metadata = MetaData()

_Whole = BigInteger().with_variant(Integer(), "sqlite")
_Name = Text().with_variant(Text(collation="C"), "postgresql")


def _table(name: str, *parts: Column[Any] | CheckConstraint, rowid: bool = False) -> Table:
    """A table of typed columns; by its key alone where rows are small, to write fewer pages."""
    return Table(f"sfumato_{name}", metadata, *parts, sqlite_strict=True, sqlite_with_rowid=rowid)


def _is_hash(column: str) -> CheckConstraint:
    return CheckConstraint(f"length({column}) = 64", name=f"{column}_is_hash")


turn = _table(
    "turn",
    # One row, locked by whoever writes: the chain has one end.
    Column("id", _Whole, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
)

entries = _table(
    "entries",
    Column("seq", _Whole, CheckConstraint("seq > 0"), primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("hash", _Name, nullable=False),
    _is_hash("hash"),
    rowid=True,
)

accounts = _table(
    "accounts",
    Column("name", _Name, CheckConstraint("name <> ''"), primary_key=True),
    Column("parent", _Name, ForeignKey("sfumato_accounts.name")),
    Column("budget", Text, nullable=False),
    # The SHA-256 of all that the account holds: a damaged balance is never spent from.
    Column("seal", _Name, nullable=False),
    _is_hash("seal"),
)

balances = _table(
    "balances",
    Column("account", _Name, ForeignKey(accounts.c.name), primary_key=True),
    Column("filter", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    # NULL for a broken filter.
    Column("spent", _Whole),
    Column("ceiling", _Whole, nullable=False),
    CheckConstraint("spent >= 0 AND spent <= ceiling", name="spent_within_ceiling"),
)

datasets = _table(
    "datasets",
    Column("name", _Name, CheckConstraint("name <> ''"), primary_key=True),
    Column("account", _Name, ForeignKey(accounts.c.name), nullable=False),
)

requests = _table(
    "requests",
    Column("principal", _Name, primary_key=True),
    Column("request", _Name, primary_key=True),
    Column("body", _Name, nullable=False),
    Column("charge", _Whole, ForeignKey(entries.c.seq), nullable=False),
    Column("answered", _Whole, ForeignKey(entries.c.seq)),
    _is_hash("body"),
    CheckConstraint("answered > charge", name="answer_follows_charge"),
)

answers = _table(
    "answers",
    Column("charge", _Whole, ForeignKey(entries.c.seq), primary_key=True, autoincrement=False),
    Column("answer", LargeBinary, nullable=False),
    rowid=True,
)
