"""Hierarchies make values coarser step by step; a taxonomy is a hierarchy over given leaves.

Decision `schemas`.
"""

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
"""The label of the root, which covers every value: each hierarchy ends in it."""

QUOTE = '"'

# Stands for every NaN in a lookup, because NaN is not equal to itself.
_NAN = object()


def spell(value: Scalar) -> str:
    """The label of a value at level 0."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, date) else str(value)


def stands_for_itself(text: str) -> bool:
    """Whether a text can be its own label: it looks like neither the root, a set nor a quote."""
    return text != ROOT and not text.startswith(("{", QUOTE))


def quote_label(text: str) -> str:
    """Quote a text that would be mistaken for another label: a cell "*" is not the root."""
    return QUOTE + text.replace(QUOTE, QUOTE * 2) + QUOTE


def unquoted(label: str) -> str | None:
    """Undo `quote_label`; None for a label that it did not write."""
    inside = label[1:-1].replace(QUOTE * 2, "")
    if len(label) < 2 or label[0] != QUOTE or label[-1] != QUOTE or QUOTE in inside:
        return None
    return label[1:-1].replace(QUOTE * 2, QUOTE)


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """A hierarchy over its leaves: the label of every leaf at every level.

    Level 0 is the value itself, the last level the root. `labels[level][codes[i, level]]` is the
    label of leaf i.

    *Invariants*: leaves are in canonical order (numbers and dates by size, text as the hierarchy
    orders it), so that every label covers a run of consecutive leaves; labels are in order of their
    first leaf. A missing value (None) is a leaf of its own, the last one. It stays missing at every
    level below the root, so that absence is neither mixed with a value nor lost.
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
        """Build a taxonomy from the labels of its levels.

        Parameters
        ----------
        leaves : sequence
            Distinct values in canonical order.
        steps : sequence of sequences of str
            For each level between the values and the root, the label of each leaf.
        missing : bool
            Whether to add the leaf None.
        reserved : collection of str
            Labels that a value of the same text must not share: such a value gets its label in
            quotes, like a value that looks like the root or a set.
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
        # Column-major: callers take the codes of one level at a time.
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
        """The number of leaves that each label covers: `sizes[level][code]`."""
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
        """The position of each value among the leaves; refuse values that are none of them."""
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
    """Convert a float to its shortest decimal: 0.3 lies at 0.3, not just below it."""
    return Decimal(repr(leaf)) if isinstance(leaf, float) else leaf


def _key(exact: Scalar | None) -> object:
    return _NAN if isinstance(exact, Decimal) and exact.is_nan() else exact


Value = TypeVar("Value", int, Decimal, str, date)


def split_missing(leaves: Iterable[Leaf], kind: type[Value]) -> tuple[list[Value], bool]:
    """Split the distinct leaves into values of one type and whether None is among them."""
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
    """How the values of one column become coarser, step by step."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of columns that it is for."""
        ...

    @property
    def declared(self) -> tuple[Scalar, ...] | None:
        """The leaves, where the hierarchy lists them; None for a rule."""
        return None

    @property
    def seen(self) -> bool:
        """Whether its leaves were read from the rows and are not confirmed as public."""
        return False

    @property
    def listed(self) -> tuple[Scalar, ...] | None:
        """The declared leaves in the order of the declaration."""
        return None

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy over these leaves; refuse leaves that the hierarchy does not cover.

        Floats become decimals; a leaf may occur twice.
        """
        ...
