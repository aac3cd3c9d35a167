"""Two small tables about the same people, for tests of what is counted of a parent and a child."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.counting.axes import declared
from sfumato.counting.frequencies import BoundedCounter
from sfumato.engines.sources import open_duckdb
from sfumato.privacy.events import LaplaceNoise
from sfumato.privacy.price import price
from sfumato.privacy.units import Entity, Rows
from sfumato.query.sql.tables import PrivateRows
from sfumato.schema.column import Column, Kind
from sfumato.schema.domain import Bounds
from sfumato.schema.schema import Schema
from sfumato.synth.exact import ExactTables
from sfumato.synth.linked.tables import LinkedTables
from sfumato.vault.linking import LinkedPair, linked_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.counting.axes import Axis
    from sfumato.counting.frequencies import Frequencies
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.units import Unit
    from sfumato.synth.linked.request import LinkedRequest

    Person = tuple[tuple[int, ...], tuple[int, ...]]
    """The values of a person's rows in the parent table, and in the child table: 0 or 1 each."""

MOST = 2
"""The bound on children."""
PARENTS, CHILDREN = Entity("who", 1), Entity("whose", MOST)


def _column(name: str, high: int) -> Column:
    return Column(name, Kind.INTEGER, domain=Bounds(0, high), nullable=False)


FAMILY = (_column("a", 1), _column("n", MOST))
MEMBER = (_column("b", 1), _column("p.a", 1), _column("p.n", MOST))


def counted(
    people: Sequence[Person],
    *,
    strangers: bool = False,
    unit: Unit = CHILDREN,
    by_person: bool = False,
) -> tuple[Frequencies, Frequencies]:
    """All combinations of families and of members; of each person, the first axis, if asked.

    Strangers are rows without a key; `unit` is what members are bounded by.
    """
    parents: list[tuple[int | None, int]]
    children: list[tuple[int | None, int]]
    parents = [(who, one) for who, (rows, _) in enumerate(people) for one in rows]
    children = [(who, one) for who, (_, rows) in enumerate(people) for one in rows]
    if strangers:
        parents, children = [*parents, (None, 1)], [*children, (None, 1), (None, 0)]
    found = []
    with ExitStack() as stack:
        engine = open_duckdb(_table("who", "a", parents))
        stack.callback(engine.close)
        lent = stack.enter_context(engine.lend(_table("whose", "b", children)))
        tables = LinkedTables(
            engine, engine.table, lent, PARENTS, CHILDREN,
            ["a"], ["b"], Kind.INTEGER, "n", {"a": "p.a", "n": "p.n"},
        )  # fmt: skip
        views = stack.enter_context(tables.opened("salt"))
        sides = ((FAMILY, Rows(), "who"), (MEMBER, unit, "whose"))
        for view, (columns, counts_as, key) in zip(views, sides, strict=True):
            more = (_column(key, len(people) - 1),) if by_person else ()
            axes: tuple[Axis, ...] = tuple(map(declared, (*more, *columns)))
            counter = BoundedCounter(engine, view, axes, counts_as, "salt")
            found.append(counter.of([one.column for one in axes]))
    return found[0], found[1]


def _table(key: str, name: str, rows: Sequence[tuple[int | None, int]]) -> pa.Table:
    keys, values = [one for one, _ in rows], [one for _, one in rows]
    return pa.table({key: pa.array(keys, pa.int64()), name: pa.array(values, pa.int64())})


def linked_of(method: str, *, epsilon: object) -> LinkedRequest:
    """The request of both tables, whose models have the axes that `counted` counts."""
    schemas = [
        Schema(name, (Column(key, Kind.INTEGER, nullable=False), column), unit)
        for name, key, column, unit in (
            ("p", "who", FAMILY[0], PARENTS),
            ("n", "whose", MEMBER[0], CHILDREN),
        )
    ]
    rows = [PrivateRows(one, one.unit, "people") for one in schemas]
    return linked_request(
        LinkedPair(rows[0], rows[1], PARENTS, CHILDREN),
        price(epsilon=epsilon),
        rows=None,
        columns=None,
        method=method,
        target=None,
        sets=(("a", "n"), ("b", "p.a")) if method == "workload" else (),
    )


def linked_told(
    request: LinkedRequest, pair: tuple[tuple[Frequencies, Frequencies], ...]
) -> Callable[[tuple[Frequencies, Frequencies], int, Entropy], NDArray[np.float64]]:
    """Runs of all that a request measures, for the auditor.

    Of each it tells how much likelier what was measured is from the first of the pair, and which
    tables these were.
    """
    first, second = pair

    def run(
        side: tuple[Frequencies, Frequencies], count: int, entropy: Entropy
    ) -> NDArray[np.float64]:
        return np.array([_once(side, entropy) for _ in range(count)])

    def _once(side: tuple[Frequencies, Frequencies], entropy: Entropy) -> list[float]:
        likelier, which = 0.0, 0
        for place, (_, declared_part) in enumerate(request.parts):
            sets = [request.parent.sets, request.child.sets][place]
            names = [axis.column for axis in side[place].axes]
            options = {"sets": [tuple(map(names.index, one)) for one in sets]} if sets else {}
            log = replace(declared_part, options=options).measure(side[place], entropy)
            near, far = (ExactTables(log.shape, one[place]) for one in (first, second))
            for table in log.tables:
                assert isinstance(table.event, LaplaceNoise)
                distances = (
                    np.abs(table.counts - one.of(table.places)).sum() for one in (far, near)
                )
                likelier += float(next(distances) - next(distances)) / float(table.event.scale)
                which += 8**place * sum(1 << one for one in table.places)
        return [round(likelier, 6), float(which)]

    return run
