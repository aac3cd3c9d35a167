"""Reading the items of people: whose they are, which are public, and how many count of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.engines.kinds import STORED
from sfumato.data.schema.domain import Values
from sfumato.data.schema.names import quoted
from sfumato.data.schema.row_forms import Items
from sfumato.errors import ParameterError
from sfumato.methods.itemsets.baskets import Baskets

if TYPE_CHECKING:
    from sfumato.arrays import IntArray
    from sfumato.data.counting.axes import Grid
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Entity
    from sfumato.methods.publish.form_kinds import FormRequest, FormRows


@dataclass(frozen=True)
class ItemFacts:
    """What is public of a table of items: its people, how much of each counts, and known items."""

    form: Items
    unit: Entity
    item: Column

    @classmethod
    def of(cls, request: FormRequest) -> ItemFacts:
        """The facts of a request; refused where no column says whose an item is."""
        assert isinstance(request.form, Items)
        if not request.unit.by_person:
            raise ParameterError(
                "unit_unsupported",
                f"The unit of {quoted(request.dataset)} does not say whose an item is. Declare it "
                f'as unit = {{ column = "{request.form.owner}", max_rows = 20 }}.',
            )
        unit = cast("Entity", request.unit)
        return cls(request.form, unit, request.schema.column(request.form.item))

    @property
    def most(self) -> int:
        """How many different items of a person count."""
        return min(self.unit.groups, self.unit.max_rows)

    @property
    def values(self) -> pa.Array | None:
        """The items, where they are public."""
        domain = self.item.public_domain
        if not isinstance(domain, Values):
            return None
        return pa.array(domain.values, STORED[self.item.kind])


@dataclass(frozen=True, eq=False)
class HeldItems:
    """The rows of people as codes, bounded by person."""

    people: IntArray
    items: IntArray
    rows: pa.Table
    """The rows that they are of."""
    count: int
    values: pa.Array
    """The items by their codes: those that are public, else those found, in order of value."""

    @property
    def baskets(self) -> Baskets:
        """Who has which item."""
        return Baskets.of(self.people, self.items, self.count, len(self.values))


def held_items(
    facts: ItemFacts, rows: FormRows, *, distinct: bool = True, ratings: Grid | None = None
) -> HeldItems:
    """Read the items of everybody: at most as many rows, of as many items, as the unit allows.

    With `distinct`, different items are what is kept of a person, however often each comes. Which
    ones are kept is a function of the person's own rows and of a secret salt alone. With the grid
    of `ratings`, these are numbers of its points.
    """
    form, person = facts.form, facts.unit.column
    wanted = [person, form.item, *(() if form.rating is None else (form.rating,))]
    groups = [form.item] if distinct else ()
    found = rows.read(wanted, groups=groups, grids=() if ratings is None else (ratings,))
    # Items are compared in the one type of their kind: a database may hold narrower integers, to
    # which a declared value may not convert.
    texts = found.column(form.item).combine_chunks().cast(STORED[facts.item.kind])
    values = facts.values
    if values is None:
        values = pc.unique(texts)
        values = values.take(pc.sort_indices(values))
    codes = pc.index_in(texts, values)
    known = pc.is_valid(codes)
    found, codes = found.filter(known), codes.filter(known)
    owners = found.column(person).combine_chunks().dictionary_encode()
    return HeldItems(
        people=owners.indices.to_numpy().astype(np.int64),
        items=codes.to_numpy().astype(np.int64),
        rows=found,
        count=len(owners.dictionary),
        values=values,
    )
