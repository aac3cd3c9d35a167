"""Generated paths through invented towns, a fixed function of their numbers; they show nobody.

Homes lie in a few quarters; people walk, cycle or drive to places of work and of leisure. Drivers
go by one of two avenues, or through the centre of a town of rays, at a speed of their own; walkers
go straight. So paths have speeds that differ, places where they crowd, and directions that they
keep. Models are tuned on the other towns, and measured on `CROSSED`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.cells import Box
from sfumato.methods.trajectory.paths import Paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray


# In metres.
TOWN = Box(0.0, 0.0, 16_000.0, 16_000.0)
# Seconds from point to point.
EVERY = 60.0


@dataclass(frozen=True)
class MadeUpTown:
    """The homes, destinations and speeds of people in an invented town, in metres and minutes."""

    quarters: tuple[tuple[int, int], ...]
    destinations: tuple[tuple[int, int], ...]
    speeds: tuple[float, float, float]
    """On foot, by bicycle, by car."""
    rays: bool = False
    """Whether one drives through the centre, rather than by streets and an avenue."""
    number: int = 0
    """Sets apart what is drawn of people: no two towns have the same."""


# The town that figures are given of: two avenues that cross.
CROSSED = MadeUpTown(
    ((3_000, 4_000), (4_500, 11_500), (12_500, 12_000), (11_000, 4_500), (7_500, 8_500)),
    ((8_000, 8_000), (8_600, 7_300), (13_500, 7_900), (3_500, 8_100), (8_100, 13_800)),
    (80.0, 250.0, 600.0),
)
RADIAL = MadeUpTown(
    ((2_500, 8_500), (6_000, 3_000), (13_000, 5_000), (11_500, 13_000), (4_500, 13_500)),
    ((9_000, 9_000), (8_200, 9_800), (14_500, 9_500), (9_300, 2_200), (3_000, 5_500)),
    (70.0, 220.0, 450.0),
    rays=True,
    number=1,
)
SUBURBS = MadeUpTown(
    ((2_000, 2_000), (14_000, 2_500), (13_500, 14_000), (2_500, 13_500), (6_000, 6_500)),
    ((5_000, 8_000), (11_000, 8_300), (7_800, 4_000), (8_300, 12_000), (14_000, 8_000)),
    (90.0, 300.0, 900.0),
    number=2,
)
_AVENUES = 8_000.0
_MOST = 48
_MIXERS = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


def generated_paths(count: int, *, first: int = 0, town: MadeUpTown = CROSSED) -> Paths:
    """Return this many generated paths, each of a different person."""
    number = np.arange(first, first + count, dtype=np.uint64) + np.uint64(town.number << 32)
    quarter = (_uniform(number, 0) ** 1.4 * 5).astype(np.int64)
    destination = (_uniform(number, 1) ** 1.6 * 5).astype(np.int64)
    home = np.array(town.quarters, dtype=np.float64)[quarter]
    home += 900 * np.stack([_bell(number, 2), _bell(number, 3)], axis=1)
    work = np.array(town.destinations, dtype=np.float64)[destination]
    work += 350 * np.stack([_bell(number, 4), _bell(number, 5)], axis=1)
    near = np.hypot(*(work - home).T)
    mood = _uniform(number, 6)
    mode = np.where(near < 1_800, 0, np.where(mood < 0.3, 1, 2))
    back = _uniform(number, 7) < 0.4
    start, end = np.where(back[:, None], work, home), np.where(back[:, None], home, work)
    corners = _route(start, end, mode, rays=town.rays)
    legs = np.hypot(*np.moveaxis(np.diff(corners, axis=1), 2, 0))
    reach = legs.cumsum(axis=1)
    speed = np.array(town.speeds)[mode] * (0.75 + 0.5 * _uniform(number, 8))
    lengths = np.clip(np.floor(reach[:, -1] / speed).astype(np.int64) + 1, 2, _MOST)
    path = np.repeat(np.arange(count), lengths)
    step = np.arange(len(path)) - (np.cumsum(lengths) - lengths)[path]
    travelled = reach[path, -1] * step / (lengths - 1)[path]
    leg = (travelled[:, None] > reach[path]).sum(axis=1).clip(max=legs.shape[1] - 1)
    before = np.where(leg > 0, reach[path, leg - 1], 0.0)
    share = ((travelled - before) / np.maximum(legs[path, leg], 1e-9))[:, None]
    at = corners[path, leg] * (1 - share) + corners[path, leg + 1] * share
    point = number[path] * np.uint64(64) + step.astype(np.uint64)
    at = at + 25 * np.stack([_bell(point, 9), _bell(point, 10)], axis=1)
    start_times = np.where(back, 17, 8) * 3600 + 3600 * _bell(number, 11)
    x, y = TOWN.inside(*at.T)
    times = np.floor(np.clip(start_times, 0, 82_800)[path] + EVERY * step)
    return Paths(np.arange(count, dtype=np.int64), lengths, times, x, y)


def _route(start: FloatArray, end: FloatArray, mode: IntArray, *, rays: bool) -> FloatArray:
    """The corners of a way: straight on foot, by streets and an avenue, or a centre, otherwise."""
    if rays:
        centre = np.full_like(start, _AVENUES)
        first = np.where((mode == 0)[:, None], start, start / 3 + 2 * centre / 3)
        second = np.where((mode == 0)[:, None], end, end / 3 + 2 * centre / 3)
        return np.stack([start, first, second, end], axis=1)
    by_east = np.abs(start[:, 1] - end[:, 1]) < np.abs(start[:, 0] - end[:, 0])
    avenue = np.full(len(start), _AVENUES)
    first = np.where(
        by_east[:, None],
        np.stack([start[:, 0], avenue], axis=1),
        np.stack([avenue, start[:, 1]], axis=1),
    )
    second = np.where(
        by_east[:, None],
        np.stack([end[:, 0], avenue], axis=1),
        np.stack([avenue, end[:, 1]], axis=1),
    )
    afoot = (mode == 0)[:, None]
    first, second = np.where(afoot, start, first), np.where(afoot, end, second)
    return np.stack([start, first, second, end], axis=1)


def _uniform(number: NDArray[np.uint64], fact: int) -> FloatArray:
    keys = number + np.uint64((fact + 1) << 48)
    for mixer in _MIXERS:
        keys = (keys ^ (keys >> np.uint64(33))) * np.uint64(mixer)
    keys = keys ^ (keys >> np.uint64(33))
    return np.asarray((keys >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _bell(number: NDArray[np.uint64], fact: int) -> FloatArray:
    """Around 0 with spread about 1, never beyond 3."""
    return np.asarray(2 * sum(_uniform(number, 16 * fact + offset) for offset in range(16, 19)) - 3)
