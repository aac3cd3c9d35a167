"""Hierarchies make values coarser step by step; a taxonomy is a hierarchy over given leaves.

A hierarchy is a rule (calendar steps, masked characters, intervals of growing width, removal) or a
tree that lists every leaf with its ancestors, in a schema or in a CSV file. Decision `schemas`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from sfumato import arguments
from sfumato.data.schema.column import Kind, from_text
from sfumato.data.schema.domain import EXACT, check_value, exact
from sfumato.data.schema.names import count, quoted
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.spelling import Spelling

    Leaf: TypeAlias = Scalar | float | None


ROOT = "*"
"""The label of the root, which covers every value: each hierarchy ends in it."""

QUOTE = '"'

# Stands for every NaN in a lookup, because NaN is not equal to itself.
_NAN = object()


def spell(value: Scalar) -> str:
    """Return the label of a value at level 0."""
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
        """Return the position of each value among the leaves, -1 where it is none of them."""
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
            "kind_mismatch",
            f"{count(len(distinct) - len(values), 'value')} of the data cannot be generalized: "
            f"the hierarchy is for values of type {kind.__name__}.",
            hint="Correct the column's kind or its hierarchy.",
        )
    return values, missing


class Hierarchy(Protocol):
    """The steps by which values of one column become coarser."""

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


class Step(StrEnum):
    """A calendar period that is coarser than a day, from fine to coarse."""

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    DECADE = "decade"

    def label(self, day: date) -> str:
        """Return the label of the period of a day: 2024-05, 2024-Q2, 2024 or 202x."""
        year = f"{day.year:04}"
        if self is Step.MONTH:
            return f"{year}-{day.month:02}"
        if self is Step.QUARTER:
            return f"{year}-Q{(day.month + 2) // 3}"
        return year if self is Step.YEAR else f"{year[:3]}x"


@dataclass(frozen=True)
class Calendar(Hierarchy):
    """Dates become months, quarters, years and decades.

    Parameters
    ----------
    steps : tuple of Step or str
        The periods to use, from fine to coarse; all four unless given.

    Raises
    ------
    SchemaError
        If there is no step, or steps are not in order.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Calendar(("month", "year")).steps
    (<Step.MONTH: 'month'>, <Step.YEAR: 'year'>)
    """

    steps: tuple[Step, ...] = tuple(Step)

    def __post_init__(self) -> None:
        for step in arguments.require(
            self.steps, "steps", (tuple, list), "a list of calendar steps"
        ):
            arguments.one_of(step, "A calendar step", tuple(Step))
        object.__setattr__(self, "steps", tuple(map(Step, self.steps)))
        if not self.steps or self.steps != tuple(step for step in Step if step in self.steps):
            raise SchemaError(
                "hierarchy_invalid",
                f"Calendar steps [{', '.join(self.steps)}] are not allowed: name at least one of "
                f"{', '.join(Step)}, each once, in this order.",
            )

    @property
    def kinds(self) -> frozenset[Kind]:
        """Calendars are for dates."""
        return frozenset({Kind.DATE})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy of these days, one level for each step."""
        days, missing = split_missing(leaves, date)
        days.sort()
        # No step is finer than a month, so one day stands for all of its month.
        months = [day.replace(day=1) for day in days]
        labels = []
        for step in self.steps:
            names = {month: step.label(month) for month in set(months)}
            labels.append([names[month] for month in months])
        return Taxonomy.build(days, labels, missing=missing)


class Side(StrEnum):
    """The end of a text at which masking begins."""

    RIGHT = "right"
    LEFT = "left"


@dataclass(frozen=True)
class Mask(Hierarchy):
    """Texts lose one more character at each level, from the right or from the left.

    Values of different length are aligned at the other end, as if filled up to the longest: a
    shorter value keeps its characters until the mask reaches them. With 53715 and 53715-1234, the
    label at level 5 is 53715***** for both.

    Parameters
    ----------
    side : Side or str
        Where masking begins, "right" or "left".

    Example
    -------
    >>> import sfumato as sf
    >>> [labels[0] for labels in sf.Mask().grow(["53715", "53710"]).labels[1:3]]
    ['5371*', '537**']
    """

    side: Side = Side.RIGHT

    def __post_init__(self) -> None:
        arguments.one_of(self.side, "side", tuple(Side))
        object.__setattr__(self, "side", Side(self.side))

    @property
    def kinds(self) -> frozenset[Kind]:
        """Masks are for texts."""
        return frozenset({Kind.TEXT})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy of these texts; its height is the length of the longest."""
        values, missing = split_missing(leaves, str)
        starred = sum(ROOT in value for value in values)
        if starred:
            raise SchemaError(
                "cell_malformed",
                f"{count(starred, 'value')} of the data cannot be masked: a mask writes {ROOT!r} "
                f"for what it hides, and they hold {ROOT!r} themselves. Replace it in the data, or "
                "declare a hierarchy file.",
            )
        right = self.side is Side.RIGHT
        # Sorted from the side that stays visible, values that share a label lie together.
        texts = sorted(values, key=None if right else lambda text: text[::-1])
        longest = max(map(len, texts), default=0)
        steps = []
        for hidden in range(1, longest):
            shown, stars = longest - hidden, ROOT * hidden
            masked = [text[:shown] + stars if right else stars + text[-shown:] for text in texts]
            # An empty text masks to a single star. It is quoted, because it is not the root.
            steps.append([quote_label(label) if label == ROOT else label for label in masked])
        return Taxonomy.build(texts, steps, missing=missing)


@dataclass(frozen=True)
class Widths(Hierarchy):
    """Numbers become intervals of growing width, which begin at multiples of the width.

    Labels of integers are such as 20-24 with both ends included (-5 to -1 below zero), labels of
    reals such as [0.5, 1.0) with the upper end excluded. NaN and the infinities keep their own
    label below the root.

    Parameters
    ----------
    widths : tuple of int or of Decimal
        Growing widths, all integers or all decimals. Each divides the next, so that intervals nest.

    Raises
    ------
    SchemaError
        If a width is too small or does not divide the next.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Widths((5, 10)).grow([21, 28]).labels[1:3]
    (('20-24', '25-29'), ('20-29',))
    """

    widths: tuple[int, ...] | tuple[Decimal, ...]

    def __post_init__(self) -> None:
        listed = arguments.require(
            self.widths, "widths", (tuple, list), "a list such as [5, 10, 20]"
        )
        object.__setattr__(self, "widths", tuple(map(exact, listed)))
        if not self.widths:
            raise SchemaError(
                "hierarchy_invalid", "Widths must name at least one width, such as [5]."
            )
        kinds = {type(width) for width in self.widths}
        if kinds not in ({int}, {Decimal}):
            raise SchemaError(
                "hierarchy_invalid", "Widths must be all whole numbers or all decimal numbers."
            )
        for width in self.widths:
            check_value(width, "Width")
            if width <= (1 if kinds == {int} else 0):
                raise SchemaError(
                    "hierarchy_invalid",
                    f"Width {width} is not allowed: a width is above 1 for integers, above 0 for "
                    "reals.",
                )
        for narrow, wide in pairwise(map(Decimal, self.widths)):
            if wide <= narrow or EXACT.remainder(wide, narrow):
                raise SchemaError(
                    "hierarchy_invalid",
                    f"Width {narrow} does not divide {wide}; each width must divide the next, "
                    "as in [5, 10, 20].",
                )

    @property
    def kinds(self) -> frozenset[Kind]:
        """Integer widths are for integer columns, decimal widths for real columns."""
        return frozenset({Kind.INTEGER if isinstance(self.widths[0], int) else Kind.REAL})

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy of these numbers, one level for each width."""
        least = self.widths[0]
        # Intervals are computed once, at the smallest width; each wider one joins whole intervals.
        if isinstance(least, int):
            integers, missing = split_missing(leaves, int)
            integers.sort()
            return self._over(integers, [value // least for value in integers], missing)
        reals, missing = split_missing(leaves, Decimal)
        # NaN has no place in an order; it comes after all others.
        unordered = [value for value in reals if value.is_nan()]
        reals = sorted(value for value in reals if not value.is_nan()) + unordered
        indexes = [_floor(value, least) if value.is_finite() else None for value in reals]
        return self._over(reals, indexes, missing)

    def _over(
        self, values: Sequence[Scalar], indexes: Sequence[int | None], missing: bool
    ) -> Taxonomy:
        steps: list[list[str]] = []
        for width in self.widths:
            ratio = int(EXACT.divide(Decimal(width), Decimal(self.widths[0])))
            wider_indexes = [None if index is None else index // ratio for index in indexes]
            names = {
                index: _interval(index, width) for index in set(wider_indexes) if index is not None
            }
            steps.append(
                [
                    spell(value) if index is None else names[index]
                    for value, index in zip(values, wider_indexes, strict=True)
                ]
            )
        return Taxonomy.build(values, steps, missing=missing)


@dataclass(frozen=True)
class Removal(Hierarchy):
    """Values are kept or removed: there is no level between a value and the root.

    Example
    -------
    >>> import sfumato as sf
    >>> sf.Removal().grow(["red", "green"]).height
    1
    """

    @property
    def kinds(self) -> frozenset[Kind]:
        """Removal is for columns of every kind."""
        return frozenset(Kind)

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy of these leaves: one level of values, then the root."""
        originals = list(leaves)
        kinds: list[Any] = [type(leaf) for leaf in originals if leaf is not None]
        values, missing = split_missing(
            originals, Decimal if float in kinds else next(iter(kinds), str)
        )
        # NaN has no place in an order; it comes after all others.
        values.sort(key=lambda value: (value != value, 0 if value != value else value))
        return Taxonomy.build(values, [], missing=missing)


def _floor(value: Decimal, width: Decimal) -> int:
    quotient, remainder = EXACT.divmod(value, width)
    # Decimal division truncates towards zero; an interval below zero begins one lower.
    return int(quotient) - (remainder < 0)


def _interval(index: int, width: int | Decimal) -> str:
    if isinstance(width, Decimal):
        low, high = EXACT.multiply(Decimal(index), width), EXACT.multiply(Decimal(index + 1), width)
        return f"[{spell(low)}, {spell(high)})"
    low_end, high_end = index * width, (index + 1) * width - 1
    return f"{low_end}-{high_end}" if low_end >= 0 else f"{low_end} to {high_end}"


_KINDS = {
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    Decimal: Kind.REAL,
    str: Kind.TEXT,
    date: Kind.DATE,
}


@dataclass(frozen=True)
class Tree(Hierarchy):
    """Listed values with their ancestors, from the parent up to the root.

    The taxonomy has all leaves of the tree, whichever of them occur in the data. A value may keep
    its label on the way up (Other, Other, *). A label has one parent, and no label lies both below
    and above another.

    Parameters
    ----------
    leaves : tuple
        The values, all of one kind and different.
    ancestors : tuple of tuples of str
        For each leaf its labels from the parent to the top, equally many for all leaves.
    source : Path, optional
        The file that the tree was read from.
    seen : bool
        Whether the leaves come from the rows and are not confirmed as public: decision `schemas`.

    Raises
    ------
    SchemaError
        If the labels are no tree.

    Example
    -------
    >>> import sfumato as sf
    >>> tree = sf.Tree.of({"Europe": ["FR", "DE"], "Asia": ["JP"]})
    >>> tree.ancestors[0]
    ('Europe', '*')
    """

    leaves: tuple[Scalar, ...]
    ancestors: tuple[tuple[str, ...], ...]
    source: Path | None = None
    seen: bool = False
    _written: tuple[Scalar, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.leaves:
            raise SchemaError("hierarchy_invalid", "A hierarchy must name at least one value.")
        if len({type(leaf) for leaf in self.leaves}) > 1:
            raise SchemaError("hierarchy_invalid", "All values of a hierarchy must be of one kind.")
        for value in {*self.leaves, *chain.from_iterable(set(self.ancestors))}:
            check_value(value, "Value")
        self._check_depth()
        self._check_leaves()
        self._check_tops()
        self._check_parents()
        self._check_cycles()
        self._arrange()

    @classmethod
    def of(cls, groups: Mapping[str, Any] | Sequence[Scalar]) -> Tree:
        """Build a tree from nested mappings of group names that end in lists of values.

        Parameters
        ----------
        groups : mapping or sequence
            Groups by name; the innermost ones are lists of values. All values have the same depth.

        Returns
        -------
        Tree

        Raises
        ------
        SchemaError
            If values have different depths, or occur twice.

        Example
        -------
        >>> import sfumato as sf
        >>> jobs = sf.Tree.of({"health": ["nurse", "doctor"], "school": ["teacher"]})
        >>> jobs.grow([]).height
        2
        """
        rows = list(_walk(groups, (ROOT,)))
        return cls(
            tuple(exact(leaf) for leaf, _ in rows), tuple(ancestors for _, ancestors in rows)
        )

    @classmethod
    def read(cls, path: str | Path, kind: Kind | str = Kind.TEXT) -> Tree:
        """Read a tree from a CSV file: one row for each value, from the value up to the root.

        Parameters
        ----------
        path : str or Path
            The file, with ';' or ',' between the columns.
        kind : Kind or str
            The kind of the values.

        Returns
        -------
        Tree

        Raises
        ------
        SchemaError
            If the rows are not a tree.
        """
        arguments.one_of(kind, "kind", tuple(Kind))
        return read_tree(arguments.path(path, "path"), Kind(kind))

    def _check_depth(self) -> None:
        depth = len(self.ancestors[0])
        for leaf, ancestors in zip(self.leaves, self.ancestors, strict=True):
            if len(ancestors) != depth:
                raise SchemaError(
                    "hierarchy_invalid",
                    f"Value {_show(leaf)} has {len(ancestors)} levels above it, but "
                    f"{_show(self.leaves[0])} has {depth}; all values must have the same. Repeat a "
                    "label to fill a level.",
                )
            if "" in ancestors:
                raise SchemaError(
                    "hierarchy_invalid",
                    f"Value {_show(leaf)} has an empty label at level {ancestors.index('') + 1}.",
                )
        if depth == 0:
            raise SchemaError(
                "hierarchy_invalid",
                f"Value {_show(self.leaves[0])} has no level above it; add {ROOT}.",
            )

    def _check_leaves(self) -> None:
        seen: dict[Scalar, tuple[str, ...]] = {}
        for leaf, ancestors in zip(self.leaves, self.ancestors, strict=True):
            if seen.setdefault(leaf, ancestors) is ancestors:
                continue
            if seen[leaf] == ancestors:
                raise SchemaError(
                    "hierarchy_invalid", f"Value {_show(leaf)} (level 0) is declared twice."
                )
            pairs = zip(seen[leaf], ancestors, strict=True)
            level, (first_label, second_label) = next(
                (i, p) for i, p in enumerate(pairs, 1) if p[0] != p[1]
            )
            raise _two_parents(
                _show(leaf), 0, f"{_show(first_label)} and {_show(second_label)} at level {level}"
            )

    def _check_tops(self) -> None:
        tops = list(dict.fromkeys(ancestors[-1] for ancestors in self.ancestors))
        if len(tops) > 1:
            raise SchemaError(
                "hierarchy_invalid",
                f"The top must be one label for all values, but level {len(self.ancestors[0])} has "
                f"{_show(tops[0])} and {_show(tops[1])}. End every value in {ROOT}.",
            )
        below = [ancestors[:-1] for ancestors in self.ancestors]
        if any(ROOT in labels for labels in below) and not all(ROOT in labels for labels in below):
            raise SchemaError(
                "hierarchy_invalid",
                f"The label {ROOT} stands below the top and does not cover all values there, so "
                "it could not be told from the top.",
                hint="Give it another name.",
            )

    def _check_parents(self) -> None:
        for level in range(1, len(self.ancestors[0])):
            parents: dict[str, str] = {}
            for ancestors in self.ancestors:
                label, parent = ancestors[level - 1], ancestors[level]
                if parents.setdefault(label, parent) != parent:
                    both_parents = (
                        f"{_show(parents[label])} and {_show(parent)} at level {level + 1}"
                    )
                    raise _two_parents(_show(label), level, both_parents)

    def _check_cycles(self) -> None:
        # A cycle consists of labels that have something below them, so most leaves are skipped.
        label_paths = set(self.ancestors)
        above = {label for label_path in label_paths for label in label_path}
        label_paths.update(
            label_path for label_path in self._label_paths() if label_path[0] in above
        )
        graph: TopologicalSorter[str] = TopologicalSorter()
        for label, parent in {step for label_path in label_paths for step in pairwise(label_path)}:
            if label != parent:
                graph.add(parent, label)
        try:
            graph.prepare()
        except CycleError as error:
            label, parent = error.args[1][:2]
            level = min(
                label_path.index(label) for label_path in self._label_paths() if label in label_path
            )
            raise SchemaError(
                "hierarchy_invalid",
                f"Label {_show(label)} at level {level} lies both below and above {_show(parent)}; "
                "rename one of them.",
            ) from None

    def _arrange(self) -> None:
        """Order the leaves so that every label covers a run of them; rename the top to the root."""
        ranks = [np.arange(len(self.leaves))]
        for column in list(zip(*self.ancestors, strict=True))[:-1]:
            first = {label: rank for rank, label in enumerate(dict.fromkeys(column))}
            ranks.append(np.array([first[label] for label in column]))
        order = np.lexsort(ranks).tolist()
        object.__setattr__(self, "_written", self.leaves)
        rooted = {ancestors: (*ancestors[:-1], ROOT) for ancestors in set(self.ancestors)}
        object.__setattr__(self, "leaves", tuple(self.leaves[i] for i in order))
        object.__setattr__(self, "ancestors", tuple(rooted[self.ancestors[i]] for i in order))

    def _label_paths(self) -> Iterator[tuple[str, ...]]:
        for leaf, ancestors in zip(self.leaves, self.ancestors, strict=True):
            yield spell(leaf), *ancestors

    @property
    def kinds(self) -> frozenset[Kind]:
        """A tree is for columns of its values' kind."""
        return frozenset({_KINDS[type(self.leaves[0])]})

    @property
    def declared(self) -> tuple[Scalar, ...]:
        """All leaves."""
        return self.leaves

    @property
    def listed(self) -> tuple[Scalar, ...]:
        """All leaves in the order of the declaration, before `_arrange` sorted them by label."""
        return self._written

    def grow(self, leaves: Iterable[Leaf]) -> Taxonomy:
        """Build the taxonomy of all leaves of the tree; refuse given leaves that it lacks."""
        asked = list(leaves)
        steps = list(zip(*self.ancestors, strict=True))[:-1]
        taxonomy = Taxonomy.build(
            self.leaves, steps, missing=None in asked, reserved=self._shared_labels
        )
        taxonomy.locate(asked)
        return taxonomy

    @cached_property
    def _shared_labels(self) -> frozenset[str]:
        """Labels of groups that cover more than the value of the same name."""
        covered: dict[str, set[str]] = {}
        for name, *above in self._label_paths():
            for label in above[:-1]:
                covered.setdefault(label, set()).add(name)
        return frozenset(label for label, names in covered.items() if names != {label})


def _walk(groups: object, above: tuple[str, ...]) -> Iterator[tuple[object, tuple[str, ...]]]:
    """Yield every value with the names of its groups, innermost first."""
    if isinstance(groups, Mapping):
        for name, inner in groups.items():
            yield from _walk(inner, (arguments.text(name, "The name of a group"), *above))
        return
    listed = arguments.require(
        groups, "A group", (list, tuple), "a list of values or groups by name"
    )
    yield from ((leaf, above) for leaf in listed)


def _two_parents(label: str, level: int, parents: str) -> SchemaError:
    return SchemaError(
        "hierarchy_invalid", f"{label} at level {level} has two parents: {parents}. Keep one."
    )


def _show(value: Scalar) -> str:
    return quoted(spell(value))


# The largest hierarchy file.
MOST_MEBIBYTES = 64


def read_tree(path: Path, kind: Kind, spelling: Spelling | None = None) -> Tree:
    """Read a tree from a file; its values are spelled plainly or as in their column."""
    text = read_text(path, title="Hierarchy file", most_mebibytes=MOST_MEBIBYTES)
    if "\n" not in text:
        text = text.replace("\r", "\n")  # line ends of old Macintosh programs
    leaves, ancestors = [], []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True)
    try:
        for row in reader:
            if row:
                spelled = None if spelling is None else spelling.read(row[0], kind)
                leaves.append(from_text(row[0], kind) if spelled is None else spelled)
                ancestors.append(tuple(row[1:]))
        return Tree(tuple(leaves), tuple(ancestors), path.resolve())
    except csv.Error as error:
        message = f"Hierarchy file '{path}', line {reader.line_num}: {error}."
        raise SchemaError("hierarchy_invalid", message) from None
    except SchemaError as error:
        reading = f", line {reader.line_num}" if error.code == "kind_mismatch" else ""
        message = f"Hierarchy file '{path}'{reading}: {error.sentence}"
        raise SchemaError(error.code, message) from None


def _separator(text: str) -> str:
    """Return the separator, comma or semicolon, that gives the first row more cells."""
    head = text.lstrip("\r\n").split("\n", 1)[0]

    def cells(sign: str) -> int:
        try:
            return len(next(csv.reader([head], delimiter=sign), []))
        except csv.Error:
            return 0  # the whole file is refused with the line, when it is read

    return max(";,", key=cells)
