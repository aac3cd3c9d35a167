"""What was seen stands in a schema file as lines to uncomment, in any choice."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Widths
from sfumato.data.schema.schema import Schema
from sfumato.data.schema.schema_file import dump, load
from sfumato.data.schema.unit import Entity

if TYPE_CHECKING:
    from collections.abc import Collection

SEEN = Schema(
    "visits",
    (
        Column("patient", Kind.TEXT, Role.IDENTIFIER, nullable=False),
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(10, 100), Widths((5, 10)), nullable=False),
        Column("a city", Kind.TEXT, Role.QUASI, Values(("x # y", "z"))),
        Column("cost", Kind.REAL, domain=Bounds(Decimal(0), Decimal("0.50"))),
    ),
    Entity("patient", 20),
)
DECLARED = Schema(
    "visits",
    (
        SEEN.columns[0],
        *(replace(one, domain=None, nullable=True) for one in SEEN.columns[1:]),
    ),
)


def commented() -> list[str]:
    return dump(DECLARED, folder=Path(), seen=SEEN).split("\n")


def places(lines: list[str]) -> list[int]:
    """Where lines stand that a person may uncomment."""
    return [place for place, line in enumerate(lines) if re.match(r"# [a-z_]+ = ", line)]


def uncommented(which: Collection[int]) -> str:
    lines = commented()
    return "\n".join(line[2:] if place in which else line for place, line in enumerate(lines))


def test_what_was_seen_is_declared_by_nothing_but_uncommenting(tmp_path: Path) -> None:
    path = tmp_path / "visits.toml"
    path.write_text("\n".join(commented()))
    assert load(path) == DECLARED
    path.write_text(uncommented(places(commented())))
    assert load(path) == SEEN
    assert (
        "# bounds = [10, 100]   # from the rows, rounded; uncomment only if public" in commented()
    )


@given(st.data())
def test_uncommenting_any_lines_gives_a_schema(chosen: st.DataObject) -> None:
    lines = places(commented())
    which = chosen.draw(st.sets(st.sampled_from(lines)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "visits.toml"
        path.write_text(uncommented(which))
        declared = load(path)
    seen = (
        sum((one.domain is not None) + (not one.nullable) for one in declared.columns)
        + declared.unit.by_person
    )
    assert seen == len(which) + 1  # the person's column has no gaps from the start
