"""Published counts of trajectories: trips between cells, visitors of cells, and lengths.

A person's items (trips, visited cells, paths) count in full up to a cap and with less weight beyond
it (`measurement`). Weights are computed over all items of a person together, not path by path,
before anything is counted. Decision `trajectories`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.schema.unit import Sensitivity, count_sensitivity, people_sensitivity
from sfumato.methods.options import whole
from sfumato.methods.trajectory import measurement
from sfumato.methods.trajectory.cells import Squares
from sfumato.methods.trajectory.measurement import length_edges
from sfumato.methods.trajectory.paths import read_paths
from sfumato.methods.trajectory.synthesize import declared_box, points_of
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.publish.request import FormRequest, FormRows
    from sfumato.methods.trajectory.paths import Paths
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy


_MOST_ACROSS = {"trips": 16, "visits": 256}


@dataclass(frozen=True, kw_only=True)
class PathCounts:
    """Noisy counts of one kind of items of paths, by publicly known groups.

    *Guarantee*: the price in full, for people as the unit declares them.
    *Sensitivity*: a person's items weigh at most `cap` together and one in each group: L1 cap, L2
    the root of it for cells, of which each counts once; for trips and lengths, of which all may
    fall into one group, cap. Twice as much in L1 where one person replaces another.
    *Error*: that of the noise, known before; more items of a person than the cap weigh less each,
    which lowers counts and is not in it.
    *Edges*: points beyond the box count as at its edge; a path of one point leads from its cell to
    the same; paths of more points than a person may have rows are cut to that.
    *Reference*: geometric or discrete Gaussian noise; the weights are decision `trajectories`'s.
    """

    request: FormRequest
    kind: str
    cap: int
    cells: int = 0

    reads = ()

    @cached_property
    def grid(self) -> Squares:
        """The cells of the map."""
        return Squares.of(declared_box(self.request.schema, self.form), self.cells, self.cells)

    @property
    def form(self) -> Any:
        """The columns of points."""
        return self.request.form

    @cached_property
    def edges(self) -> IntArray:
        """The least length of each group of lengths."""
        return length_edges(self.request.unit.max_rows)

    @cached_property
    def noise(self) -> Noise:
        """The noise in units of 1 / FULL_WEIGHT items: the smaller of those the price pays for."""
        unit = self.request.unit.bounded(self.cap)
        # A cell counts once a person; trips and lengths may all be in one group.
        bounds = people_sensitivity if self.kind == "visits" else count_sensitivity
        sensitivity = bounds(unit, grouped=True)
        scaled = Sensitivity(
            l1=sensitivity.l1 * FULL_WEIGHT, l2_squared=sensitivity.l2_squared * FULL_WEIGHT**2
        )
        noises = [spending.noise(scaled) for spending in spendings(self.request.price)]
        return min(noises, key=lambda spending: spending.stddev)

    @property
    def event(self) -> Event:
        """The event that the ledger charges."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The cap, and the grid or the edges."""
        choices: dict[str, Any] = {"cap": self.cap}
        if self.kind == "lengths":
            return {**choices, "edges": self.edges.tolist()}
        return {**choices, "cells": self.cells, "box": list(self.grid.box)}

    @property
    def error(self) -> Mapping[str, Any]:
        """The standard deviation and the 95 % bound of a count."""
        noise = self.noise
        return {
            "count": {"sd": noise.stddev / FULL_WEIGHT, "bound95": noise.bound(0.05) / FULL_WEIGHT}
        }

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released table without rows."""
        return {self.kind: self._table(np.zeros(self._groups)).slice(0, 0)}

    @property
    def _groups(self) -> int:
        if self.kind == "lengths":
            return len(self.edges)
        return self.grid.size ** (2 if self.kind == "trips" else 1)

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Read paths with a bound per person and count them with noise."""
        exact = self.exact_counts(read_paths(rows, self.form))
        noisy = self.noise.sample(exact, entropy).astype(np.float64) / FULL_WEIGHT
        return {self.kind: self._table(np.round(noisy, 3))}

    def exact_counts(self, paths: Paths) -> IntArray:
        """The exact counts in units of 1 / FULL_WEIGHT items, to which noise is added."""
        groups, owners = self._items(paths)
        return measurement.summed(groups, self._groups, measurement.weights(owners, self.cap))

    def _items(self, paths: Paths) -> tuple[IntArray, IntArray]:
        """Return the group and the owner of each item."""
        if self.kind == "lengths":
            most = np.minimum(paths.lengths, self.request.unit.max_rows)
            return np.searchsorted(self.edges, most, side="right") - 1, paths.owners
        cells = self.grid.locate(paths.x, paths.y)
        if self.kind == "trips":
            ends = cells[paths.first + paths.lengths - 1] if len(paths) else cells
            return cells[paths.first] * self.grid.size + ends, paths.owners
        visits = np.unique(paths.owners[paths.path_of] * self.grid.size + cells)
        owners, held = np.divmod(visits, self.grid.size)
        return held, owners

    def _table(self, counts: FloatArray) -> pa.Table:
        if self.kind == "lengths":
            ends = np.append(self.edges[1:] - 1, self.request.unit.max_rows)
            return pa.table({"points_from": self.edges, "points_to": ends, "count": counts})
        grid, names = self.grid, (self.form.x, self.form.y)
        number, wide = np.arange(self._groups), (grid.width, grid.height)
        cells_by_prefix = {"": number}
        if self.kind == "trips":
            start, end = np.divmod(number, grid.size)
            cells_by_prefix = {"from_": start, "to_": end}
        columns = {
            f"{prefix}{name}_{side}": grid.centres[cells, axis] + shift * wide[axis]
            for prefix, cells in cells_by_prefix.items()
            for axis, name in enumerate(names)
            for side, shift in (("low", -0.5), ("high", 0.5))
        }
        return pa.table({**{k: np.round(v, 9) for k, v in columns.items()}, "count": counts})


def prepare_trips(request: FormRequest, *, cells: object = 4, trips: object = 1) -> PathCounts:
    """Counts of paths from each cell of a grid to each."""
    return _prepare_counts(request, "trips", trips, cells)


def prepare_visits(request: FormRequest, *, cells: object = 16, visits: object = 4) -> PathCounts:
    """Counts of the people who were in each cell of a grid."""
    return _prepare_counts(request, "visits", visits, cells)


def prepare_lengths(request: FormRequest, *, trips: object = 1) -> PathCounts:
    """Counts of paths by how many points they have."""
    return _prepare_counts(request, "lengths", trips, 1)


def _prepare_counts(request: FormRequest, kind: str, cap: object, cells: object) -> PathCounts:
    points_of(request)
    most = request.unit.max_rows
    name = "visits" if kind == "visits" else "trips"
    counts = PathCounts(
        request=request,
        kind=kind,
        cap=whole(cap, name, least=1, most=most),
        cells=whole(cells, "cells", least=1, most=_MOST_ACROSS.get(kind, 1)),
    )
    _ = counts.tables  # what is not declared is refused before anything is charged
    return counts
