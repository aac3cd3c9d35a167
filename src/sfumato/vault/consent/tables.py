"""The tables of the registry, the same for every database, and the statements on them.

Entries form a chain; each binds the changes that came together by their digest. What stands for
each person and purpose follows from the changes, and is kept beside them to be found quickly.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

metadata = MetaData()

_Whole = BigInteger().with_variant(Integer(), "sqlite")
_Name = Text().with_variant(Text(collation="C"), "postgresql")


def _table(name: str, *parts: Any, of: MetaData = metadata, rowid: bool = True, **more: Any) -> Any:
    table = f"sfumato_consent_{name}"
    return Table(table, of, *parts, sqlite_strict=True, sqlite_with_rowid=rowid, **more)


entries = _table(
    "entries",
    Column("seq", _Whole, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("hash", _Name, nullable=False),
)

changes = _table(
    "changes",
    Column("seq", _Whole, primary_key=True, autoincrement=False),
    Column("number", _Whole, primary_key=True, autoincrement=False),
    Column("population", _Name, nullable=False),
    Column("purpose", _Name, nullable=False),
    Column("person", _Name, nullable=False),
    Column("agreed", Integer, nullable=False),
    Column("time", _Name, nullable=False),
    rowid=False,
)

standing = _table(
    "standing",
    Column("population", _Name, primary_key=True),
    Column("purpose", _Name, primary_key=True),
    Column("person", _Name, primary_key=True),
    Column("agreed", Integer, nullable=False),
    Column("time", _Name, nullable=False),
    Column("seq", _Whole, nullable=False),
    Index("sfumato_consent_newest", "population", "purpose", "seq"),
    rowid=False,
)

arriving = _table(
    "arriving",
    Column("number", _Whole, primary_key=True, autoincrement=False),
    Column("purpose", _Name, nullable=False),
    Column("person", _Name, nullable=False),
    Column("agreed", Integer, nullable=False),
    Column("time", _Name, nullable=False),
    Column("said", Integer, nullable=False),
    of=MetaData(),
    prefixes=["TEMPORARY"],
)
"""What a transaction is told, before it knows what of it is new."""

PAGE = 10_000

LAST_ENTRY = select(entries.c.seq, entries.c.hash).order_by(entries.c.seq.desc()).limit(1)
ONE_ENTRY = select(entries).where(entries.c.seq == bindparam("of_seq"))
ALL_ENTRIES = select(entries).order_by(entries.c.seq)
ADD_ENTRY = insert(entries)
ADD_ARRIVING = insert(arriving)

_known = and_(
    standing.c.population == bindparam("of_population"),
    standing.c.purpose == arriving.c.purpose,
    standing.c.person == arriving.c.person,
)
_newer_no = and_(arriving.c.agreed == 1, arriving.c.said == 1, standing.c.time > arriving.c.time)
_differs = or_(standing.c.agreed.is_(None), standing.c.agreed != arriving.c.agreed)
_found = arriving.outerjoin(standing, _known)

COUNT_OLDER = select(func.count()).select_from(_found).where(standing.c.agreed == 0, _newer_no)
"""How many say yes before a no that stands: a later no is not undone by an older yes."""

ADD_CHANGES = insert(changes).from_select(
    ["seq", "number", "population", "purpose", "person", "agreed", "time"],
    select(
        bindparam("of_seq", type_=_Whole),
        # In the order of the tables below: a million are then put one behind the other.
        func.row_number().over(order_by=(arriving.c.purpose, arriving.c.person)),
        bindparam("of_population", type_=_Name),
        arriving.c.purpose,
        arriving.c.person,
        arriving.c.agreed,
        arriving.c.time,
    )
    .select_from(_found)
    .where(_differs, ~func.coalesce(and_(standing.c.agreed == 0, _newer_no), False))
    .order_by(arriving.c.purpose, arriving.c.person),
)
VOID_ALL = insert(changes).from_select(
    ["seq", "number", "population", "purpose", "person", "agreed", "time"],
    select(
        bindparam("of_seq", type_=_Whole),
        func.row_number().over(
            order_by=(standing.c.population, standing.c.purpose, standing.c.person)
        ),
        standing.c.population,
        standing.c.purpose,
        standing.c.person,
        text("0"),
        bindparam("of_time", type_=_Name),
    ).where(standing.c.agreed == 1),
)
"""Every yes that stands is void."""

COUNT_CHANGES = (
    select(func.count()).select_from(changes).where(changes.c.seq == bindparam("of_seq"))
)
CHANGES_OF = (
    select(changes)
    .where(changes.c.seq == bindparam("of_seq"), changes.c.number > bindparam("after"))
    .order_by(changes.c.number)
    .limit(PAGE)
)
CHANGES_ABOUT = (
    select(changes)
    .where(
        changes.c.population == bindparam("of_population"),
        changes.c.person == bindparam("of_person"),
    )
    .order_by(changes.c.seq, changes.c.number)
)
Index("sfumato_consent_history", changes.c.person)


def stand(dialect: str) -> Any:
    """Let the changes of an entry stand."""
    made: Any = postgresql.insert(standing) if dialect == "postgresql" else sqlite.insert(standing)
    added = made.from_select(
        ["population", "purpose", "person", "agreed", "time", "seq"],
        select(
            changes.c.population,
            changes.c.purpose,
            changes.c.person,
            changes.c.agreed,
            changes.c.time,
            changes.c.seq,
        )
        .where(changes.c.seq == bindparam("of_seq"))
        .order_by(changes.c.number),
    )
    newest = {name: added.excluded[name] for name in ("agreed", "time", "seq")}
    return added.on_conflict_do_update(
        index_elements=["population", "purpose", "person"], set_=newest
    )


_of_purpose = and_(
    standing.c.population == bindparam("of_population"),
    standing.c.purpose == bindparam("of_purpose"),
)
AGREED = select(standing.c.person).where(_of_purpose, standing.c.agreed == 1)
CHANGED = select(standing.c.person, standing.c.agreed).where(
    _of_purpose, standing.c.seq > bindparam("since")
)
ALL_STANDING = (
    select(standing.c.person, standing.c.purpose, standing.c.agreed, standing.c.time)
    .where(standing.c.population == bindparam("of_population"))
    .order_by(standing.c.purpose, standing.c.person)
)
STANDING_OF = (
    select(standing.c.purpose, standing.c.agreed, standing.c.time)
    .where(
        standing.c.population == bindparam("of_population"),
        standing.c.person == bindparam("of_person"),
    )
    .order_by(standing.c.purpose)
)
COUNTS = (
    select(standing.c.purpose, standing.c.agreed, func.count())
    .where(standing.c.population == bindparam("of_population"))
    .group_by(standing.c.purpose, standing.c.agreed)
)

_last = (
    select(
        changes.c.population,
        changes.c.purpose,
        changes.c.person,
        func.max(changes.c.seq).label("seq"),
    )
    .group_by(changes.c.population, changes.c.purpose, changes.c.person)
    .subquery()
)
COUNT_STANDING = select(func.count()).select_from(standing)
COUNT_KNOWN = select(func.count()).select_from(_last)
COUNT_TRUE = select(func.count()).select_from(
    standing.join(
        changes,
        and_(
            changes.c.seq == standing.c.seq,
            changes.c.population == standing.c.population,
            changes.c.purpose == standing.c.purpose,
            changes.c.person == standing.c.person,
            changes.c.agreed == standing.c.agreed,
            changes.c.time == standing.c.time,
        ),
    ).join(
        _last,
        and_(
            _last.c.population == standing.c.population,
            _last.c.purpose == standing.c.purpose,
            _last.c.person == standing.c.person,
            _last.c.seq == standing.c.seq,
        ),
    )
)
"""How many stand as their last change says."""


def protections(dialect: str) -> tuple[str, ...]:
    """Statements, run once, after which the database itself refuses to change what was said."""
    names = (entries.name, changes.name)
    if dialect == "postgresql":
        keep = (
            "CREATE FUNCTION sfumato_consent_keep() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'entries are only ever added'; END $$"
        )
        return (
            keep,
            *(
                f"CREATE TRIGGER {name}_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
                "FOR EACH STATEMENT EXECUTE FUNCTION sfumato_consent_keep()"
                for name in names
            ),
        )
    return tuple(
        f"CREATE TRIGGER {name}_no_{action.lower()} BEFORE {action} ON {name} "
        "BEGIN SELECT RAISE(ABORT, 'entries are only ever added'); END"
        for name in names
        for action in ("UPDATE", "DELETE")
    )
