"""Columns that a synthesis is asked for, and sets of them that matter."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.names import quoted, untaken
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import ParameterError, QueryError, SchemaError, option
from sfumato.methods.options import several
from sfumato.methods.synth.encode.encoding import Encoding
from sfumato.methods.synth.linked_model import Link
from sfumato.methods.synth.linked_request import KEY_KINDS, LinkedRequest, LinkedSide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Entity
    from sfumato.methods.query.sql.tables import PrivateRows
    from sfumato.methods.synth.request import ColumnSets
    from sfumato.privacy.accounting.price import Price
    from sfumato.vault.session import Facts


def column_names(columns: Sequence[str] | str | None, schema: Schema) -> tuple[str, ...]:
    """The columns that are asked for, each once; all of the schema's where nobody says."""
    if columns is None:
        return tuple(column.name for column in schema.columns)
    names = several(columns, "columns")
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "columns_invalid", "Name at least one column to synthesize, and each only once."
        )
    return names


def targeted(names: Sequence[str], target: str) -> ColumnSets:
    """Each column together with the one that others are to be told by."""
    check_drawn((target,), names)
    return tuple((target, name) for name in names if name != target) or ((target,),)


def read_sets(workload: Sequence[Sequence[str]] | str | Path | None) -> ColumnSets:
    """Sets of columns: given, or a file of one a line."""
    if workload is None:
        return ()
    if isinstance(workload, str | Path):
        path = arguments.path(workload, "workload")
        text = read_text(path, title="Workload", most_mebibytes=1)
        workload = [row for row in csv.reader(text.splitlines()) if row]
    sets = tuple(several(columns, "workload") for columns in arguments.require(
        workload, "workload", (list, tuple), "a list of lists of columns, or a file"
    ))  # fmt: skip
    if not sets:
        raise ParameterError(
            "parameter_missing",
            "The workload names no set of columns. Write one a line, such as age,sex; or leave out "
            f"{option('workload')}.",
            parameter="workload",
        )
    for columns in sets:
        if not columns or len(set(columns)) < len(columns):
            raise ParameterError(
                "columns_invalid",
                f"A set of the workload must name columns, and each only once, not "
                f"{arguments.shown(','.join(columns))}.",
            )
    return sets


def check_drawn(asked: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns that are not among those that are measured."""
    for name in asked:
        if name not in names:
            raise ParameterError(
                "column_unknown",
                f"Column {quoted(name)} is not among those that are measured: "
                f"{', '.join(map(quoted, names))}. Name one of them.",
            )


# A data set and its children: what may be synthesized together, from public facts alone.
#
# Decision `linked-tables`.


@dataclass(frozen=True)
class LinkedPair:
    """A parent and a child table as they are declared, and the key of each."""

    parent: PrivateRows
    child: PrivateRows
    parent_unit: Entity
    child_unit: Entity

    @property
    def schemas(self) -> tuple[Schema, Schema]:
        """What is declared of the parent, and of the child."""
        return self.parent.schema, self.child.schema


def linked_pair(facts: Facts, child: object, key: object) -> LinkedPair:
    """The two tables that are asked for; refused unless a person has the same key in both."""
    parent = facts.declared
    if child is None or key is None:
        told = (
            f"{option('key', metavar='COLUMN')} says which row of {quoted(parent.schema.table)} a "
            "child belongs to"
        )
        raise ParameterError(
            "options_conflict",
            f"A child table needs {option('child', metavar='NAME')} and "
            f"{option('key', metavar='COLUMN')}: {told}. Give both, or neither.",
        )
    name, asked = arguments.text(child, "child"), arguments.text(key, "key")
    if name == facts.dataset:
        raise ParameterError(
            "linked_table_invalid",
            f"Data set {quoted(name)} cannot be its own child. Name another data set of the vault "
            f"with {option('child')}.",
        )
    other = replace(facts, dataset=name).declared
    own, _, theirs = asked.partition("=")
    if not (parent.unit.by_person and other.unit.by_person):
        raise QueryError(
            "join_not_allowed",
            f"Cannot link {quoted(facts.dataset)} and {quoted(name)}: where each row is a person "
            "of its own, two private tables share nobody. Add both with "
            f"{option('unit', metavar='COLUMN')}.",
        )
    if parent.population != other.population or parent.unit.relation != other.unit.relation:
        raise QueryError(
            "join_not_allowed",
            f"Cannot link {quoted(facts.dataset)} and {quoted(name)}: they are about different "
            f"people. Add both with one {option('population')}.",
        )
    pair = LinkedPair(parent, other, parent.unit, other.unit)  # type: ignore[arg-type]
    _check_key(pair, (own, theirs or own))
    return pair


def _check_key(pair: LinkedPair, keys: tuple[str, str]) -> None:
    """Refuse a key that is not the person, declared alike, in both tables."""
    parent, child = (schema.column(key) for schema, key in zip(pair.schemas, keys, strict=True))
    units = (pair.parent_unit, pair.child_unit)
    for schema, unit, key in zip(pair.schemas, units, keys, strict=True):
        if unit.column != key:
            raise ParameterError(
                "linked_table_invalid",
                f"The people of {quoted(schema.table)} are told apart by {quoted(unit.column)}, "
                f"not by {quoted(key)}. A key must be the unit's column of both tables.",
            )
    if parent.kind not in KEY_KINDS:
        raise SchemaError(
            "linked_table_invalid",
            f"Column {quoted(parent.name)} is {parent.kind}, of which no fresh keys are made up. "
            "Declare a key as integer or text.",
        )
    told = [(one.kind, one.public_domain, one.length) for one in (parent, child)]
    if told[0] != told[1]:
        raise SchemaError(
            "linked_table_invalid",
            f"The key {quoted(parent.name)} of {quoted(pair.schemas[0].table)} is declared "
            f"otherwise than {quoted(child.name)} of {quoted(pair.schemas[1].table)}. Give both "
            "the same kind, bounds, values and length in their schemas.",
        )


def linked_request(
    pair: LinkedPair,
    price: Price,
    *,
    rows: int | None,
    columns: Sequence[str] | None,
    quantiles: Sequence[str] = (),
    weekdays: Sequence[str] = (),
    method: str,
    target: str | None,
    weighed: str | None = None,
    sets: ColumnSets,
) -> LinkedRequest:
    """The request of two tables. A child's model names columns of its parent `parent.column`.

    A target is measured with each other column of its model; a column that is `weighed` matters
    more than others there.
    """
    parent, child = pair.schemas
    for name in (*(columns or ()), *quantiles, *weekdays):
        if name not in [one.name for one in child.columns]:
            parent.column(name)  # or refused
    number = untaken(child.table, [one.name for one in parent.columns])
    bounds = Bounds(0, pair.child_unit.max_rows)
    counted = Column(number, Kind.INTEGER, domain=bounds, nullable=False)
    first = _plan(parent, pair.parent_unit, columns, (quantiles, weekdays), [counted])
    known = [one for one in first.output_columns if one not in first.invented]
    taken = [one.name for one in child.columns]
    seen = {one.name: untaken(f"{parent.table}.{one.name}", taken) for one in known}
    joined = [replace(one, name=seen[one.name]) for one in known]
    cut = [*quantiles, *(seen[name] for name in first.by_quantiles)]
    second = _plan(child, pair.child_unit, columns, (cut, weekdays), joined)
    plans = first.names, second.names
    named = _parted(target, sets, *plans)
    heavy: list[str | None] = [None, None]
    if weighed is not None:
        place = 0 if weighed in plans[0] else 1
        check_drawn((weighed,), plans[place])
        heavy[place] = weighed
    return LinkedRequest(
        parent=_side(parent, first, pair.parent_unit.bounded(1), named[0], heavy[0]),
        child=_side(child, second, pair.child_unit, named[1], heavy[1]),
        link=Link(pair.parent_unit.column, pair.child_unit.column, number, seen),
        price=price,
        method=method,
        rows=rows,
    )


def _plan(
    schema: Schema,
    unit: Entity,
    columns: Sequence[str] | None,
    asked: tuple[Sequence[str], Sequence[str]],
    more: Sequence[Column],
) -> Encoding:
    """What becomes of a table's columns, beside those that only its model has.

    Of what is asked for quantiles are of any of them, days of the week of the table's own.
    """
    names = [one.name for one in schema.columns]
    kept = names if columns is None else {unit.column, *columns}
    left_out = tuple(name for name in names if name not in kept)
    here = {*names, *(one.name for one in more)}
    cut = tuple(name for name in asked[0] if name in here)
    week = tuple(name for name in asked[1] if name in names)
    joined = replace(schema, columns=(*schema.columns, *more))
    return Encoding(joined, left_out, by_quantiles=cut, weekdays=week)


def _side(
    schema: Schema, encoding: Encoding, unit: Entity, sets: ColumnSets, target: str | None
) -> LinkedSide:
    names = [one.name for one in schema.columns]
    own = tuple(one.name for one in encoding.output_columns if one.name in names)
    return LinkedSide(
        dataset=schema.table, encoding=encoding, unit=unit, own=own, sets=sets, target=target
    )


def _parted(
    target: str | None, sets: ColumnSets, parent: list[str], child: list[str]
) -> tuple[ColumnSets, ColumnSets]:
    """The sets of columns of the parent's model, and those of the child's: what is in both, there.

    A target is measured with each other column of its model.
    """
    names = parent if target in parent else child
    if target is not None:
        sets = (*targeted(names, target), *sets)
    first = tuple(one for one in sets if set(one) <= set(parent))
    second = tuple(one for one in sets if one not in first)
    for one in second:
        check_drawn(one, child)
    return first, second
