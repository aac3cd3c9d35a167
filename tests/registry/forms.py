"""The tables that methods are run on: people, items, points and edges."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.registry.tables import DAY, Form, Row

import sfumato as sf
from sfumato.data.schema.schema import Edges, Items, Points

INTEGER, REAL, TEXT, DATE, BOOLEAN = (
    sf.Kind.INTEGER, sf.Kind.REAL, sf.Kind.TEXT, sf.Kind.DATE, sf.Kind.BOOLEAN,
)  # fmt: skip
TYPES = {INTEGER: pa.int64(), REAL: pa.float64(), TEXT: pa.string(), DATE: pa.date32(),
         BOOLEAN: pa.bool_()}  # fmt: skip


def _key(name: str, kind: sf.Kind = INTEGER) -> sf.Column:
    return sf.Column(name, kind, sf.Role.IDENTIFIER, nullable=False)


def _types(*schemas: sf.Schema) -> dict[str, pa.DataType]:
    return {column.name: TYPES[column.kind] for one in schemas for column in one.columns}


PERIODS = 4
_PEOPLE = sf.Schema(
    "people",
    (
        _key("person"),
        sf.Column("period", INTEGER, domain=sf.Bounds(0, PERIODS - 1), nullable=False),
        sf.Column("x", INTEGER, domain=sf.Bounds(0, 15)),
        sf.Column("y", INTEGER, domain=sf.Bounds(0, 7), nullable=False),
        sf.Column("r", REAL, domain=sf.Bounds(Decimal(0), Decimal(10), Decimal("0.5"))),
        sf.Column("d", DATE, domain=sf.Bounds(DAY, DAY + dt.timedelta(15))),
        sf.Column("b", BOOLEAN, nullable=False),
        sf.Column("c", TEXT, domain=sf.Values(("a", "b", "c"))),
        sf.Column("t", TEXT),
        sf.Column("far", INTEGER, domain=sf.Bounds(0, 10**6)),
        sf.Column("born", DATE, domain=sf.Bounds(dt.date(1950, 1, 1), dt.date(2019, 12, 31))),
    ),
)
_TEXTS = ("alpha",) * 40 + ("beta",) * 22 + ("gamma",) * 8
"""Of each person all rows hold one text, so that counts of texts are far apart."""


def _person(person: int, row: int, **cells: Any) -> Row:
    return {
        "person": person,
        "period": (person + row) % PERIODS,
        "x": (person * 7 + row * 3) % 16 if person % 11 else None,
        "y": (person * 3 + row) % 8,
        "r": (person * 5 + row) % 21 * 0.5,
        "d": DAY + dt.timedelta((person * 5 + row) % 16),
        "b": person % 2 == 0,
        "c": "abc"[(person + row) % 3],
        "t": _TEXTS[person % len(_TEXTS)],
        "far": person * 997 + row * 13,
        "born": dt.date(1950, 1, 1) + dt.timedelta(person * 300 % 25_000),
        **cells,
    }


PEOPLE = Form(
    name="people",
    schemas=(_PEOPLE,),
    rows={"people": [_person(person, row) for person in range(70) for row in range(2)]},
    owner="person",
    usual={"people": [_person(900, 9, t="omega", x=15, y=7, c="c", r=10.0, b=True)]
           + [_person(900, row, t=f"omega {row}", x=row * 2, y=row, c="a", r=0.0)
              for row in range(8)]},
    other={"people": [_person(901, 2, t="psi", x=0, y=0, c="a", r=0.0, b=False)]
           + [_person(901, row, x=None, y=7 - row, c="b", r=10.0, b=False) for row in range(8)]},
    types=_types(_PEOPLE),
    keys=frozenset({"person", "period"}),
)  # fmt: skip

# Items: sets of items, of which each common one is held by its own number of people.
_HOLDERS = (50, 38, 26, 12)


def _item(who: int, item: str, stars: Any = 3) -> Row:
    return {"who": who, "item": item, "stars": stars, "at": DAY + dt.timedelta(who % 16)}


def _shop(values: tuple[str, ...] | None, name: str) -> Form:
    schema = sf.Schema(
        "shop",
        (
            _key("who"),
            sf.Column("item", TEXT, domain=None if values is None else sf.Values(values)),
            sf.Column("stars", INTEGER, domain=sf.Bounds(1, 5)),
            sf.Column("at", DATE, domain=sf.Bounds(DAY, DAY + dt.timedelta(15))),
        ),
        form=Items("who", "item", "stars", "at"),
    )
    rows = [_item(who, f"item {place}", 1 + (who + place) % 5)
            for place, many in enumerate(_HOLDERS) for who in range(many)]  # fmt: skip
    return Form(
        name=name,
        schemas=(schema,),
        rows={"shop": rows},
        owner="who",
        usual={"shop": [_item(900, f"item {place}", 5) for place in range(4)]
               + [_item(900, f"own {place}", 1) for place in range(4)]},
        other={"shop": [_item(901, f"item {place}", 1) for place in (3, 1)]
               + [_item(901, f"rare {place}", 5) for place in range(5)]},
        types=_types(schema),
        keys=frozenset({"who"}),
        max_rows=4,
        max_groups=4,
    )  # fmt: skip


SHOP = _shop(None, "items")
CATALOGUE = _shop(tuple(f"item {place}" for place in range(6)), "listed items")

# Ratings between far bounds: sums of ratings must not wrap in 64 bits.
_WIDE = 2**53
"""1,024 ratings of this size, counted from the middle of their scale, reach 2^63."""
WIDE = Form(
    name="wide ratings",
    schemas=(
        sf.Schema(
            "shop",
            (
                _key("who"),
                sf.Column("item", TEXT, domain=sf.Values(("item 0", "item 1"))),
                sf.Column("stars", INTEGER, domain=sf.Bounds(0, _WIDE)),
            ),
            form=Items("who", "item", "stars"),
        ),
    ),
    rows={"shop": [{"who": who, "item": "item 0", "stars": _WIDE} for who in range(1023)]},
    owner="who",
    usual={"shop": [{"who": 9000, "item": "item 0", "stars": _WIDE}]},
    other={"shop": [{"who": 9001, "item": "item 0", "stars": 0}]},
    types={"who": pa.int64(), "item": pa.string(), "stars": pa.int64()},
    keys=frozenset({"who"}),
)

_TRIPS = sf.Schema(
    "trips",
    (
        _key("taxi"),
        _key("trip"),
        sf.Column("at", INTEGER, domain=sf.Bounds(0, 3600)),
        sf.Column("x", INTEGER, domain=sf.Bounds(0, 1000)),
        sf.Column("y", REAL, domain=sf.Bounds(Decimal(0), Decimal(1000))),
    ),
    form=Points("trip", "at", "x", "y"),
)


def _point(taxi: int, trip: int, place: int) -> Row:
    at = 60 * place
    return {"taxi": taxi, "trip": trip, "at": at, "x": (taxi * 130 + place * 70) % 1000,
            "y": float((taxi * 210 + place * 40) % 1000)}  # fmt: skip


TRIPS = Form(
    name="points",
    schemas=(_TRIPS,),
    rows={"trips": [_point(taxi, 2 * taxi + trip, place)
                    for taxi in range(12) for trip in range(2) for place in range(4)]},
    owner="taxi",
    usual={"trips": [_point(900, 900 + trip, place) for trip in range(3) for place in range(6)]},
    other={"trips": [_point(901, 950 + one % 2, 9 - one // 2) for one in range(18)]},
    types=_types(_TRIPS),
    keys=frozenset({"taxi", "trip"}),
    max_rows=12,
    max_groups=2,
)  # fmt: skip

_FRIENDS = sf.Schema("friends", (_key("a"), _key("b")), form=Edges("a", "b"))
_NODES = 14
_TIES = [(one, (one + step) % _NODES) for one in range(_NODES) for step in (0, 1, 2, _NODES - 1)]


def _ties(node: int, others: list[int]) -> list[Row]:
    return [{"a": node, "b": other} for other in others]


FRIENDS = Form(
    name="edges",
    schemas=(_FRIENDS,),
    rows={"friends": [{"a": one, "b": other} for one, other in _TIES]},
    owner="a",
    usual={"friends": _ties(3, [8])},
    other={"friends": _ties(4, [11])},
    types=_types(_FRIENDS),
    keys=frozenset(),
    units=("row",),
)
HUBS = Form(
    name="edges of people",
    schemas=(_FRIENDS,),
    rows={"friends": [{"a": one, "b": other} for one, other in _TIES]},
    owner="a",
    usual={"friends": _ties(900, list(range(12)))},
    other={},
    types=_types(_FRIENDS),
    keys=frozenset(),
    units=("node",),
    max_rows=5,
)

_CLUB = sf.Schema(
    "people",
    (_key("id"), sf.Column("club", TEXT, domain=sf.Values(("a", "b")))),
    sf.Entity("id", max_rows=1),
)
CLUBS = Form(
    name="edges and people",
    schemas=(_FRIENDS, _CLUB),
    rows={"friends": FRIENDS.rows["friends"],
          "people": [{"id": one, "club": "ab"[one % 2]} for one in range(_NODES)]},
    owner="a",
    usual=FRIENDS.usual,
    other=FRIENDS.other,
    types=_types(_FRIENDS, _CLUB),
    keys=frozenset(),
    units=("row",),
)  # fmt: skip

_HOMES = sf.Schema(
    "homes",
    (_key("home"), sf.Column("size", INTEGER, domain=sf.Bounds(0, 7)),
     sf.Column("owned", BOOLEAN, nullable=False)),
)  # fmt: skip
_MEMBERS = sf.Schema(
    "members",
    (_key("home"), sf.Column("age", INTEGER, domain=sf.Bounds(0, 9)),
     sf.Column("sex", TEXT, domain=sf.Values(("f", "m")))),
    sf.Entity("home", 2, 2),
)  # fmt: skip


def _home(home: int, size: int) -> Row:
    return {"home": home, "size": size, "owned": home % 2 == 0}


def _members(home: int, many: int) -> list[Row]:
    return [{"home": home, "age": (home + one) % 10, "sex": "fm"[one % 2]} for one in range(many)]


HOMES = Form(
    name="parent and child",
    schemas=(_HOMES, _MEMBERS),
    rows={"homes": [_home(home, home % 8) for home in range(30)],
          "members": [row for home in range(30) for row in _members(home, home % 3)]},
    owner="home",
    usual={"homes": [_home(900, 7)], "members": _members(900, 6)},
    other={"homes": [_home(901, 0)], "members": _members(901, 1)},
    types=_types(_HOMES, _MEMBERS),
    keys=frozenset({"home"}),
    units=("person",),
    max_rows=1,
    max_groups=1,
)  # fmt: skip
