"""Single locations with planar Laplace noise (geo-indistinguishability), and their total cost.

The noise makes near locations hard to distinguish (`local.locations`). The guarantee is about one
location: n locations of a person cost n times as much, and the path they form is not private. So
every release states its total.

*Reference*: Andres, Bordenabe, Chatzikokolakis & Palamidessi 2013.
"""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato import arguments
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.exact_numbers import exact, positive
from sfumato.methods.local.local_epsilon import LARGEST
from sfumato.methods.local.locations import LEAST, MOST, PlanarLaplace
from sfumato.methods.trajectory.cells import Box
from sfumato.release.files_in_use import source_files
from sfumato.release.release import Guarantee, Provenance, Release, today
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from sfumato.arrays import FloatArray
    from sfumato.data.engines.sources import Source
    from sfumato.exact_numbers import Number
    from sfumato.privacy.noise.entropy import Entropy


_CELLS = 1 << 10


@dataclass(frozen=True, repr=False, kw_only=True)
class LocationMeter(Shown):
    """The total cost of the released locations of one person: the sum over all locations."""

    epsilon: Fraction
    """For each unit of distance and each place."""
    location_count: int

    @property
    def total(self) -> Fraction:
        """For each unit of distance, all places together."""
        return self.epsilon * self.location_count

    def within(self, distance: Number) -> Fraction:
        """The epsilon between two paths whose corresponding locations are `distance` apart."""
        return self.total * exact(distance, "distance")

    def _card(self) -> Card:
        facts: dict[str, Any] = {
            "places": self.location_count,
            "epsilon of each, for a unit of distance": float(self.epsilon),
            "of all": float(self.total),
            "distance that epsilon 1 hides": float(1 / self.total) if self.total else None,
        }
        return Card(
            f"{self.location_count:,} places cost epsilon {float(self.total):g} a unit", facts
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class NoisyLocations(Shown):
    """Noisy locations in the given order, and their total cost."""

    locations: FloatArray
    meter: LocationMeter
    radius95: float
    """At least 95 % of locations are this near the true ones, except at the edge of the map."""

    def _card(self) -> Card:
        count = f"{len(self.locations):,} places"
        line = f"{count}, at least 95 % within {self.radius95:g} of the true ones"
        return Card(line, {"meter": repr(self.meter)})


def epsilons_on(box: Box) -> tuple[float, float]:
    """Return the least and the largest epsilon per unit of distance that a map allows."""
    cell = max(box.east - box.west, box.north - box.south) / _CELLS
    return float(LEAST) / cell, float(MOST) / cell


def randomize_locations(
    locations: ArrayLike,
    box: Box,
    *,
    epsilon: Number,
    scale: Sequence[float] = (1.0, 1.0),
    entropy: Entropy | None = None,
) -> NoisyLocations:
    """Add planar Laplace noise to the locations of one person, (locations, 2), in a declared box.

    `epsilon` is per unit of distance and per location; the meter has the total. Coordinates must
    be projected. For degrees, `scale` is the length of one degree eastward and northward. Nothing
    is rounded before the noise is added.
    """
    exact_epsilon = positive(epsilon, "epsilon")
    sides = (box.east - box.west) * scale[0], (box.north - box.south) * scale[1]
    step = Fraction(max(sides)).limit_denominator(10**6) / _CELLS
    across, up = (max(int(np.ceil(side / float(step))), 1) for side in sides)
    mechanism = PlanarLaplace(
        [Fraction(box.west), Fraction(box.south)],
        step=step,
        cells=(across, up),
        epsilon=exact_epsilon,
        scale=[Fraction(value) for value in scale],
    )
    rows = mechanism.randomize(np.asarray(locations, dtype=np.float64).reshape(-1, 2), entropy).rows
    moved = np.stack([rows["east"], rows["north"]], axis=1).astype(np.float64)
    at = np.array([box.west, box.south]) + (moved + 0.5) * float(step) / np.array(scale)
    meter = LocationMeter(epsilon=exact_epsilon, location_count=len(rows))
    return NoisyLocations(locations=at, meter=meter, radius95=mechanism.radius(0.95))


# The command `sfumato locate`: add noise to the locations of one person on their own device.
#
# Nobody is trusted with the true places: this runs where they are, needs no vault, and keeps
# nothing. The map is told, never read off the places. Decision `trajectories`.


# Metres per degree of longitude at the equator; elsewhere times the cosine of the latitude.
_METRES = 6_378_137 * math.pi / 180
# Metres per degree of latitude where it is shortest, at the equator.
_NORTH = 110_574.0
UNITS = ("degrees", "metres")


def locate(
    source: Source,
    at: Sequence[str],
    box: Sequence[float],
    *,
    epsilon: Number,
    unit: str = "degrees",
) -> Release:
    """Add planar Laplace noise to the locations of one person.

    Parameters
    ----------
    source
        A table with one location of the same person in every row.
    at
        The two columns of coordinates, east first.
    box
        The map: west, south, east, north.
    epsilon
        Per metre and per location; all locations together cost their number times as much.
    unit
        "degrees" or "metres".

    Returns
    -------
    Release
        The noisy locations and their guarantee.

    Raises
    ------
    ParameterError
        If an option is out of range.
    SchemaError
        If a column is missing or a row has no location.
    """
    return located(source, at, box, epsilon=epsilon, unit=unit)[0]


def located(
    source: Source,
    at: Sequence[str],
    box: Sequence[float],
    *,
    epsilon: Number,
    unit: str = "degrees",
) -> tuple[Release, int]:
    """Locate as `locate` does, and count the true locations outside the map, for the person alone.

    That number is exact, so no file contains it.
    """
    names = [arguments.text(column, "a column of places") for column in at]
    arguments.one_of(unit, "unit", UNITS)
    map_ = _box(box, unit)
    if len(names) != 2 or names[0] == names[1]:
        raise ParameterError(
            "columns_invalid",
            f"Places have two columns. Name them: {option('at', ['lon', 'lat'])}, east first.",
        )
    locations = _read(source, names)
    scale = _scale(map_, unit)
    corner = np.array([map_.west, map_.south])
    noisy = _noisy_locations(locations, map_, scale, epsilon)
    moved = np.round(noisy.locations, 6 if unit == "degrees" else 2)
    meter = noisy.meter
    facts = {
        "epsilon_per_metre": float(meter.epsilon), "places": meter.location_count,
        "total_per_metre": float(meter.total), "radius95": noisy.radius95, "box": list(map_),
        "unit": unit,
    }  # fmt: skip
    release = Release(
        {"places": pa.table({name: moved[:, axis] for axis, name in enumerate(names)})},
        Guarantee("geo-indistinguishability", _statement(meter), facts),
        Provenance("locate", facts, fingerprint="", made=today()),
        {name: {"radius95": noisy.radius95} for name in ("place",)},
        kept=source_files(source),
    )
    outside = (locations < corner) | (locations > [map_.east, map_.north])
    return release, int(outside.any(axis=1).sum())


def _noisy_locations(
    locations: FloatArray, box: Box, scale: FloatArray, epsilon: Number
) -> NoisyLocations:
    """Add noise; a refusal speaks of the map instead of the grid that the noise uses."""
    exact_epsilon = positive(epsilon, "epsilon")
    try:
        return randomize_locations(locations, box, epsilon=exact_epsilon, scale=scale.tolist())
    except ParameterError as error:
        if error.code != "parameter_out_of_range":
            raise
        sides = np.array([box.east - box.west, box.north - box.south]) * scale
        wide = sides.max()
        least, most = epsilons_on(Box(0.0, 0.0, *sides))
        raise ParameterError(
            "parameter_out_of_range",
            f"On a map of {wide:,.0f} metres the epsilon for each metre must be from "
            f"{1.01 * least:.3g} to {min(0.99 * most, LARGEST):.3g}, "
            f"not {arguments.shown(epsilon)}. A smaller one would move locations beyond the map; a "
            "larger one would move them by less than a cell of its grid. Change "
            f"{option('epsilon_per_metre')} or {option('box')}.",
            parameter="epsilon_per_metre",
            given=arguments.shown(epsilon),
        ) from None


def _statement(meter: LocationMeter) -> str:
    """Return the guarantee for one location and for all together."""
    sentence = (
        "Each noisy location is at most e^(r x "
        f"{meter.epsilon}) times as likely for one true location as for another r metres away."
    )
    if not meter.location_count:
        return f"{sentence} The table has no locations, so nothing was revealed."
    return (
        f"{sentence} All {meter.location_count:,} locations together cost epsilon "
        f"{float(meter.total):g} for each metre, which is epsilon 1 for "
        f"{float(1 / meter.total):.3g} metres. The trajectory that they form is not private."
    )


def _box(box: Sequence[float], unit: str) -> Box:
    try:
        west, south, east, north = (float(value) for value in box)
    except (TypeError, ValueError):
        west = south = east = north = math.nan
    right = west < east and south < north and all(map(math.isfinite, (west, south, east, north)))
    if unit == "degrees":
        right = right and west >= -180 and east <= 180 and south >= -85 and north <= 85
    if not right:
        raise ParameterError(
            "parameter_out_of_range",
            "The map needs four numbers: west, south, east, north. West must be less than east, "
            "and south less than north. In degrees, longitudes are from -180 to 180 and latitudes "
            f"from -85 to 85. Give {option('box', [-8.7, 41.1, -8.5, 41.3])}, for example. If the "
            f"locations are in metres, add {option('unit', 'metres')}.",
            parameter="box",
        )
    return Box(west, south, east, north)


def _scale(box: Box, unit: str) -> FloatArray:
    """Metres per degree, east and north; at most the true length, so that the noise suffices."""
    if unit == "metres":
        return np.ones(2)
    farthest = max(abs(box.south), abs(box.north))
    return np.array([_METRES * math.cos(math.radians(farthest)), _NORTH])


def _read(source: Source, names: Sequence[str]) -> FloatArray:
    with closing(open_source(source)) as engine:
        held = engine.columns(engine.table)
        for name in names:
            if name not in held:
                raise SchemaError(
                    "column_unknown",
                    f"The table has no column {quoted(name)}; " + suggestion(name, list(held)),
                )
        columns = [exp.column(name, quoted=True) for name in names]
        table = engine.run(exp.select(*columns).from_(engine.table.copy()))
    try:
        columns_read = [table.column(name).cast(pa.float64()).to_numpy() for name in names]
    except pa.ArrowInvalid:
        columns_read = [np.array([math.nan])]
    locations = (
        np.stack(columns_read, axis=-1) if len(columns_read) == 2 else np.full((1, 2), math.nan)
    )
    if not np.isfinite(locations).all():
        raise SchemaError(
            "column_unsuitable",
            f"Every place needs two numbers, in {quoted(names[0])} and {quoted(names[1])}, and "
            "some row has none. Leave such rows out.",
        )
    return np.asarray(locations, dtype=np.float64)
