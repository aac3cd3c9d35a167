"""Places of one person, moved at random before they leave: what `sfumato locate` does.

Nobody is trusted with the true places: this runs where they are, needs no vault, and keeps nothing.
The map is told, never read off the places. Decision `trajectories`.
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato import arguments
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.methods.trajectory.cells import Box
from sfumato.methods.trajectory.location import epsilons_on, randomize_locations
from sfumato.release.files_in_use import source_files
from sfumato.release.release import Guarantee, Provenance, Release, today

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.data.engines.sources import Source
    from sfumato.exact_numbers import Number
    from sfumato.methods.trajectory.location import LocationMeter, NoisyLocations


# Of a degree of longitude on the equator; elsewhere by the cosine, and never less.
_METRES = 6_378_137 * math.pi / 180
# Of a degree of latitude, where it is shortest.
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
    """Tell the places of one person by planar noise: epsilon for each metre and each place.

    `at` names the columns of places, east first; `box` is the map: west, south, east, north. Every
    row is a place of the same person, and all of them together cost as many times epsilon.
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
    """The same, and how many true places lie outside of the map: for the person's own eyes alone.

    That number is exact, so it stands in nothing that is written.
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
    """Places with their noise, or a refusal in words of the map and not of the grid on it."""
    try:
        return randomize_locations(locations, box, epsilon=epsilon, scale=scale.tolist())
    except ParameterError as error:
        if error.code != "parameter_out_of_range" or error.parameter == "epsilon":
            raise
        sides = np.array([box.east - box.west, box.north - box.south]) * scale
        wide = sides.max()
        least, most = epsilons_on(Box(0.0, 0.0, *sides))
        raise ParameterError(
            "parameter_out_of_range",
            f"On a map of {wide:,.0f} metres an epsilon for each metre can be from "
            f"{1.01 * least:.3g} to {0.99 * most:.3g}, not {arguments.shown(epsilon)}: with less, "
            "places would be moved beyond the map; with more, by less than can be told on it. Give "
            f"another {option('epsilon_per_metre')}, or another {option('box')}.",
        ) from None


def _statement(meter: LocationMeter) -> str:
    """What the places promise, each and together."""
    sentence = (
        f"Places up to r metres apart are told apart by at most a factor e^(r x {meter.epsilon}) "
        "each."
    )
    if not meter.location_count:
        return f"{sentence} There was no place to tell, so nothing was given away."
    return (
        f"{sentence} {meter.location_count:,} places of one person cost {float(meter.total):g} for "
        f"each metre together: epsilon 1 hides {float(1 / meter.total):.3g} metres. The path that "
        "the places form is not private."
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
            "The map must be four numbers, west, south, east, north, the first two below the last "
            "two; of degrees from -180 to 180 and from -85 to 85. Give "
            f"{option('box', [-8.7, 41.1, -8.5, 41.3])}; where places are in metres, add "
            f"{option('unit', 'metres')}.",
        )
    return Box(west, south, east, north)


def _scale(box: Box, unit: str) -> FloatArray:
    """Metres of a degree, east and north; never more than on the ground, so that noise suffices."""
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
