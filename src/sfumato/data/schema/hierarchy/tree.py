"""Trees: every leaf with its ancestors up to the root, declared in a schema or in a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.data.schema.column import Kind, from_text
from sfumato.data.schema.domain import check_value, exact
from sfumato.data.schema.hierarchy.base import ROOT, Hierarchy, Taxonomy, spell
from sfumato.data.schema.names import quoted
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.hierarchy.base import Leaf
    from sfumato.data.schema.spelling import Spelling

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
        Where the labels are no tree.

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
        """Build a tree from nested mappings of group names that end in lists of values."""
        rows = list(_walk(groups, (ROOT,)))
        return cls(
            tuple(exact(leaf) for leaf, _ in rows), tuple(ancestors for _, ancestors in rows)
        )

    @classmethod
    def read(cls, path: str | Path, kind: Kind | str = Kind.TEXT) -> Tree:
        """Read a tree from a CSV file: one row for each value, from the value up to the root."""
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
        reading = f", line {reader.line_num}" if error.code == "value_kind" else ""
        message = f"Hierarchy file '{path}'{reading}: {error.sentence}"
        raise SchemaError(error.code, message) from None


def _separator(text: str) -> str:
    """The separator, comma or semicolon, that gives the first row more cells."""
    head = text.lstrip("\r\n").split("\n", 1)[0]

    def cells(sign: str) -> int:
        try:
            return len(next(csv.reader([head], delimiter=sign), []))
        except csv.Error:
            return 0  # the whole file is refused with the line, when it is read

    return max(";,", key=cells)
