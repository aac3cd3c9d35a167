"""What every hierarchy can do: grow a taxonomy over a set of leaves. Decision `schemas`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np

from sfumato.data.schema.names import count
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.schema.column import Kind
    from sfumato.data.schema.domain import Scalar

    Leaf: TypeAlias = Scalar | float | None

ROOT = "*"
"""The label that says nothing: every hierarchy ends in it."""

QUOTE = '"'

_NAN = object()
"""Stands for every NaN in a lookup, because NaN is not equal to itself."""


def spell(value: Scalar) -> str:
    """Write a value as the label it wears at level 0."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, date) else str(value)


def stands_for_itself(text: str) -> bool:
    """Whether a text can be its own label: no one would read it as the root, a set or quoted."""
    return text != ROOT and not text.startswith(("{", QUOTE))


def quote_label(text: str) -> str:
    """A text in quotes, as labels have it where it could be mistaken: "*" is no root."""
    return QUOTE + text.replace(QUOTE, QUOTE * 2) + QUOTE


def unquoted(label: str) -> str | None:
    """The text that stands in quotes; None where a label is not quoted from end to end."""
    inside = label[1:-1].replace(QUOTE * 2, "")
    if len(label) < 2 or label[0] != QUOTE or label[-1] != QUOTE or QUOTE in inside:
        return None
    return label[1:-1].replace(QUOTE * 2, QUOTE)


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """A hierarchy grown over its leaves: for every level, which leaf wears which label.

    Level 0 is the value itself, the last level the root. `codes[i, level]` indexes
    `labels[level]`; leaves are in canonical order (numbers and dates by size, text by the
    hierarchy), so that every label covers a run of consecutive leaves, and labels are in order of
    their first leaf. A missing value (None) is a leaf of its own, the last one: it stays missing at
    every level below the root, where it joins all others, so that absence is neither mixed with a
    value nor lost.
    """

    leaves: tuple[Scalar | None, ...]
    labels: tuple[tuple[str | None, ...], ...]
    codes: NDArray[np.int32]

    @classmethod
    def build(
        cls,
        leaves: Sequence[Scalar],
        steps: Sequence[Sequence[str]],
        *,
        missing: bool,
        reserved: Collection[str] = (),
    ) -> Taxonomy:
        """Build from distinct leaves in canonical order and, per level between, a label for each.

        With `missing`, the leaf None is added. A value whose text would be read as something else,
        as the root, a set or a label that is `reserved`, is its own label in quotes.
        """
        own = [spell(leaf) for leaf in leaves]
        if reserved or (leaves and isinstance(leaves[0], str)):
            own = [
                text if stands_for_itself(text) and text not in reserved else quote_label(text)
                for text in own
            ]
        columns: list[Sequence[str | None]] = [own, *steps]
        if missing:
            columns = [[*column, None] for column in columns]
        size = len(leaves) + missing
        codes = np.zeros((size, len(columns) + 1), dtype=np.int32, order="F")
        labels: list[tuple[str | None, ...]] = []
        for level, column in enumerate(columns):
            label_codes = {label: code for code, label in enumerate(dict.fromkeys(column))}
            codes[:, level] = [label_codes[label] for label in column]
            labels.append(tuple(label_codes))
        return cls((*leaves, None) if missing else tuple(leaves), (*labels, (ROOT,)), codes)

    @property
    def height(self) -> int:
        """The level of the root."""
        return len(self.labels) - 1

    @cached_property
    def sizes(self) -> tuple[IntArray, ...]:
        """How many leaves each label covers: `sizes[level][code]`."""
        return tuple(
            np.bincount(self.codes[:, level], minlength=len(labels)).astype(np.int64)
            for level, labels in enumerate(self.labels)
        )

    @cached_property
    def _positions(self) -> dict[object, int]:
        return {_key(leaf): position for position, leaf in enumerate(self.leaves)}

    def positions(self, values: Iterable[Leaf]) -> NDArray[np.int32]:
        """The position of each value among the leaves, -1 where it is none of them."""
        leaf_numbers = [self._positions.get(_key(_exact(value)), -1) for value in values]
        return np.array(leaf_numbers, dtype=np.int32)

    def locate(self, values: Iterable[Leaf]) -> NDArray[np.int32]:
        """Find the position of each value among the leaves, or refuse all that are not there."""
        leaves = list(values)
        positions = self.positions(leaves)
        absent = list(dict.fromkeys(leaves[i] for i in np.flatnonzero(positions < 0)))
        if absent:
            names = ", ".join(repr(value) for value in absent[:5])
            raise SchemaError(
                "value_outside_domain",
                f"{count(len(absent), 'value')} of the data cannot be found in the hierarchy, "
                f"which has {count(len(self.leaves), 'leaf', 'leaves')}.",
                hint="Add them to the hierarchy or correct the data.",
                detail=f"Missing: {names}{', ...' if len(absent) > 5 else ''}",
            )
        return positions


def _exact(leaf: Leaf) -> Scalar | None:
    """Read a float as the shortest decimal that denotes it: 0.3 is at 0.3, not just below."""
    return Decimal(repr(leaf)) if isinstance(leaf, float) else leaf


def _key(exact: Scalar | None) -> object:
    return _NAN if isinstance(exact, Decimal) and exact.is_nan() else exact


Value = TypeVar("Value", int, Decimal, str, date)


def split_missing(leaves: Iterable[Leaf], kind: type[Value]) -> tuple[list[Value], bool]:
    """Part the distinct values of a kind from None; say whether None was among them."""
    distinct = {_key(leaf): leaf for leaf in map(_exact, leaves)}
    missing = distinct.pop(None, _NAN) is None
    values = [leaf for leaf in distinct.values() if type(leaf) is kind]
    if len(values) < len(distinct):
        raise SchemaError(
            "value_kind",
            f"{count(len(distinct) - len(values), 'value')} of the data cannot be generalized: "
            f"the hierarchy is for values of type {kind.__name__}.",
            hint="Correct the column's kind or its hierarchy.",
        )
    return values, missing


class Hierarchy(Protocol):
    """A rule that says how values of one column become coarser, step by step."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of column it can make coarser."""
        ...

    @property
    def declared(self) -> tuple[Scalar, ...] | None:
        """The only leaves it can have, where it names them."""
        return None

    @property
    def seen(self) -> bool:
        """Whether its leaves were read off the rows, and nobody has said that they are public."""
        return False

    @property
    def listed(self) -> tuple[Scalar, ...] | None:
        """Those leaves in the order in which they were written down."""
        return None

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Grow the taxonomy over these leaves, or say how many of them have no place in it.

        Floats become decimals; a leaf may be named twice.
        """
        ...
