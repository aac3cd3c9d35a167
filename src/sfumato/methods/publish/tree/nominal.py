"""The blocks of a nominal column: the tree of a hierarchy over its values, filled up with zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.methods.publish.domain import MAX_CELLS, points
from sfumato.privacy.estimation.blocks import Nesting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.axes import Axis


@dataclass(frozen=True, eq=False)
class NominalNesting(Nesting):
    """A complete tree, every node with as many children as the largest of its level has."""

    leaves: IntArray | None = None
    """Which leaf of the complete tree each code is."""

    def energies(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> FloatArray:
        """The squared length of each range of codes in each level: (queries, levels)."""
        last = np.maximum(high + 1, low)
        squares = [
            ((counts[last] - counts[low]) ** 2).sum(axis=1) / width
            for counts, width in zip(self._prefixes(), self.widths, strict=True)
        ]
        return np.asarray(np.diff(np.stack(squares, axis=1), axis=1, prepend=0.0))

    def usual_energies(self) -> FloatArray:
        """The mean energies over all ranges of codes, each counted once."""
        ranges = self.points * (self.points + 1) / 2
        # Over all pairs of prefixes, |a - b|^2 sums to their number times all |a|^2, less |sum|^2.
        squares = [
            ((self.points + 1) * (counts**2).sum() - (counts.sum(axis=0) ** 2).sum()) / width
            for counts, width in zip(self._prefixes(), self.widths, strict=True)
        ]
        return np.asarray(np.diff(np.array(squares) / ranges, prepend=0.0))

    def _prefixes(self) -> list[FloatArray]:
        """For each level, how many of the first codes lie in each block: (codes + 1, blocks)."""
        prefixes = []
        for width in self.widths:
            inside = np.zeros((self.points + 1, self.size // width))
            inside[np.arange(self.points) + 1, self._leaf_codes // width] = 1.0
            prefixes.append(np.cumsum(inside, axis=0))
        return prefixes

    def line(self) -> list[IntArray]:
        """The parent of each block that holds a code, level by level from the whole down."""
        parents_by_level, blocks = [], self._leaf_codes
        for width, wider in zip(self.widths[:0:-1], self.widths[-2::-1], strict=True):
            above, parents = np.unique(blocks * width // wider, return_inverse=True)
            parents_by_level.append(parents)
            blocks = above
        return parents_by_level[::-1]

    @property
    def _leaf_codes(self) -> IntArray:
        assert self.leaves is not None
        return self.leaves

    def merged(self, array: IntArray, axis: int) -> IntArray:
        """Put each code at its leaf, zeros elsewhere."""
        shape = list(array.shape)
        shape[axis] = self.size
        filled = np.zeros(shape, dtype=array.dtype)
        filled[(slice(None),) * axis + (self._leaf_codes,)] = array
        return filled

    def without_padding(self, array: FloatArray, axis: int) -> FloatArray:
        """The codes again, in their own order."""
        return array.take(self._leaf_codes, axis=axis)


def nominal_nestings(axes: Sequence[Axis], hierarchy: object) -> dict[str, NominalNesting]:
    """The nestings of the columns for which a hierarchy is given."""
    if hierarchy is None:
        return {}
    known = {axis.column: axis for axis in axes}
    if not isinstance(hierarchy, Mapping) or not hierarchy.keys() <= known.keys():
        raise ParameterError(
            "hierarchy_invalid",
            "hierarchy must be {column: {value: [group, ...]}} for columns that are published: "
            f"{', '.join(map(quoted, known))}.",
        )
    return {column: _nesting(known[column], groups) for column, groups in hierarchy.items()}


def _nesting(axis: Axis, groups: object) -> NominalNesting:
    values = axis.decode(np.arange(points(axis))).to_pylist()
    covers_all = isinstance(groups, Mapping) and all(value in groups for value in values)
    paths = [list(groups[value]) for value in values] if covers_all else []  # type: ignore[index]
    if not paths or len({len(path) for path in paths}) > 1:
        raise ParameterError(
            "hierarchy_invalid",
            f"The hierarchy of column {quoted(axis.column)} must list for every declared value its "
            "groups, equally many, from the smallest to the largest.",
        )
    chains = [(*path[::-1], code) for code, path in enumerate(paths)]
    child_numbers = np.array(_child_numbers(chains), dtype=np.int64)
    fanouts = tuple(int(largest) + 1 for largest in child_numbers.max(axis=0))
    if prod(fanouts) > MAX_CELLS:
        raise ParameterError(
            "domain_too_large",
            f"The hierarchy of column {quoted(axis.column)}, filled up to a complete tree, has "
            f"{prod(fanouts):,} leaves; at most {MAX_CELLS:,} are possible. Take fewer levels.",
        )
    leaves = np.ravel_multi_index(tuple(child_numbers.T), fanouts)
    return NominalNesting(len(values), fanouts, None, np.asarray(leaves, dtype=np.int64))


def _child_numbers(chains: Sequence[tuple[object, ...]]) -> list[list[int]]:
    """For each path from the root down, the number of each node among its parent's children."""
    children: dict[tuple[object, ...], dict[object, int]] = {}
    paths = []
    for chain in chains:
        numbers = []
        for depth, label in enumerate(chain):
            known = children.setdefault(chain[:depth], {})
            numbers.append(known.setdefault(label, len(known)))
        paths.append(numbers)
    return paths
