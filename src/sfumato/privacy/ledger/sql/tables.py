"""The tables of the ledger, the same for every database, and the statements on them.

Statements are built once, because building them costs more than running them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TextClause,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    tuple_,
    update,
)

metadata = MetaData()

_Int64 = BigInteger().with_variant(Integer(), "sqlite")
_Name = Text().with_variant(Text(collation="C"), "postgresql")


def _table(name: str, *columns: Column[Any] | CheckConstraint, rowid: bool = False) -> Table:
    """A table of typed columns; without a rowid where rows are small, to write fewer pages."""
    return Table(f"sfumato_{name}", metadata, *columns, sqlite_strict=True, sqlite_with_rowid=rowid)


def _is_hash(column: str) -> CheckConstraint:
    return CheckConstraint(f"length({column}) = 64", name=f"{column}_is_hash")


turn = _table(
    "turn",
    # One row, locked by the writer: the chain must not fork.
    Column("id", _Int64, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
)

entries = _table(
    "entries",
    Column("seq", _Int64, CheckConstraint("seq > 0"), primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("hash", _Name, nullable=False),
    _is_hash("hash"),
    rowid=True,
)


# Records and rollbacks are the only entries that begin with their kind; an index finds them without
# a scan of the chain. The condition is literal text: a database uses a partial index only if the
# query contains the same text.
def is_record(body: str) -> TextClause:
    """The condition that the index has in both databases."""
    return text(f"substr({body}, 1, 8) = '{{\"kind\"\\:'")


RECORD_INDEX = Index(
    "sfumato_record_entries",
    entries.c.seq,
    # `postgres` sets its own condition: naming it here would load that dialect for every query.
    sqlite_where=is_record("body"),
)

accounts = _table(
    "accounts",
    Column("name", _Name, CheckConstraint("name <> ''"), primary_key=True),
    Column("parent", _Name, ForeignKey("sfumato_accounts.name")),
    Column("budget", Text, nullable=False),
    # The SHA-256 of all values of the account: a damaged balance is never spent from.
    Column("seal", _Name, nullable=False),
    _is_hash("seal"),
)

balances = _table(
    "balances",
    Column("account", _Name, ForeignKey(accounts.c.name), primary_key=True),
    Column("filter", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    # NULL for a broken filter.
    Column("spent", _Int64),
    Column("ceiling", _Int64, nullable=False),
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
    Column("charge", _Int64, ForeignKey(entries.c.seq), nullable=False),
    Column("answered", _Int64, ForeignKey(entries.c.seq)),
    _is_hash("body"),
    CheckConstraint("answered > charge", name="answer_follows_charge"),
)

answers = _table(
    "answers",
    Column("charge", _Int64, ForeignKey(entries.c.seq), primary_key=True, autoincrement=False),
    Column("answer", LargeBinary, nullable=False),
    rowid=True,
)


# The bytes of each principal's answers: a sum over `answers`, stored because computing it at every
# question would scan the whole table.
stored = _table(
    "stored",
    Column("principal", _Name, primary_key=True),
    Column("bytes", _Int64, CheckConstraint("bytes >= 0"), nullable=False),
)


PAGE = 1000
"""Rows per page of a long read: no cursor stays open when a reader stops half-way."""

_one_request = and_(
    requests.c.principal == bindparam("of_principal"), requests.c.request == bindparam("of_request")
)

LOCK_TURN = select(turn.c.id).with_for_update()
ADD_TURN = insert(turn)

LAST_ENTRY = select(entries.c.seq, entries.c.hash).order_by(entries.c.seq.desc()).limit(1)
ONE_ENTRY = select(entries).where(entries.c.seq == bindparam("of_seq"))
NEXT_ENTRIES = (
    select(entries).where(entries.c.seq > bindparam("after")).order_by(entries.c.seq).limit(PAGE)
)
ENTRY_STARTING = (
    select(entries.c.seq)
    .where(func.substr(entries.c.body, 1, func.length(bindparam("prefix"))) == bindparam("prefix"))
    .limit(1)
)
_before = entries.alias("sfumato_before")
NEXT_RECORDS = (
    select(entries, _before.c.hash.label("before"))
    .outerjoin(_before, _before.c.seq == entries.c.seq - 1)
    .where(entries.c.seq > bindparam("after"), is_record("sfumato_entries.body"))
    .order_by(entries.c.seq)
    .limit(PAGE)
)
ADD_ENTRIES = insert(entries)

ONE_ACCOUNT = select(accounts).where(accounts.c.name == bindparam("of_account"))
ALL_ACCOUNTS = select(accounts).order_by(accounts.c.name)
ADD_ACCOUNTS = insert(accounts)
CHANGE_ACCOUNTS = (
    update(accounts)
    .where(accounts.c.name == bindparam("of_account"))
    .values(budget=bindparam("budget"), seal=bindparam("seal"))
)

BALANCE = (
    select(balances.c.filter, balances.c.spent)
    .where(balances.c.account == bindparam("of_account"))
    .order_by(balances.c.filter, balances.c.part)
)
DROP_BALANCES = delete(balances).where(balances.c.account == bindparam("of_account"))
ADD_BALANCES = insert(balances)

ONE_DATASET = select(datasets.c.account).where(datasets.c.name == bindparam("of_dataset"))
ADD_DATASETS = insert(datasets)

SOME_REQUESTS = select(requests).where(
    tuple_(requests.c.principal, requests.c.request).in_(bindparam("keys", expanding=True))
)
NEXT_REQUESTS = (
    select(requests, answers.c.answer)
    .outerjoin(answers, answers.c.charge == requests.c.charge)
    .where(
        tuple_(requests.c.principal, requests.c.request)
        > tuple_(bindparam("after_principal"), bindparam("after_request"))
    )
    .order_by(requests.c.principal, requests.c.request)
    .limit(PAGE)
)
DROP_REQUESTS = delete(requests).where(_one_request)
ADD_REQUESTS = insert(requests)

ONE_ANSWER = select(answers.c.answer).where(answers.c.charge == bindparam("of_charge"))
ADD_ANSWERS = insert(answers)

ALL_STORED = select(stored.c.principal, stored.c.bytes)
ADD_STORED = insert(stored)
RAISE_STORED = (
    update(stored)
    .where(stored.c.principal == bindparam("of_principal"))
    .values(bytes=stored.c.bytes + bindparam("more"))
)
SUM_ANSWERS = (
    select(requests.c.principal, func.sum(func.length(answers.c.answer)), func.count())
    .join(answers, answers.c.charge == requests.c.charge)
    .group_by(requests.c.principal)
)
