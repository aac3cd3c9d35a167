"""Paths against people who are not in the data: a twin that copies some paths is caught by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError
from sfumato.methods.trajectory.generate import generated_paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]

POINTS = Schema(
    "points",
    (
        *(Column(name, Kind.INTEGER) for name in ("person", "time")),
        *(Column(name, Kind.REAL) for name in ("lon", "lat")),
    ),
)
MANY = 400


def points(first: int, *, many: int = MANY, people: int = 0) -> dict[str, Any]:
    """Paths by their numbers, of people who are numbered from another number on."""
    paths = generated_paths(many, first=first)
    told = (people + paths.path_of, paths.times.astype(np.int64), paths.x, paths.y)
    return dict(zip(("person", "time", "lon", "lat"), told, strict=True))


def both(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    return {name: np.concatenate([one[name], two[name]]) for name in one}


def attacked(found: Attacked, twin: dict[str, Any]) -> Finding:
    return found(
        "path", twin, POINTS, original=points(0), control=points(1000, people=5000),
        knows=4, cell=250, minutes=15,
    )  # fmt: skip


def test_paths_of_strangers_lead_to_nobody_more_than_to_others(found: Attacked) -> None:
    told = attacked(found, points(2000, people=9000))
    assert told.control is not None
    assert told.success.low <= told.control.high
    assert told.risk < 0.05


def test_a_twin_that_copies_a_tenth_is_caught(found: Attacked) -> None:
    """Under numbers of its own, so that only what they fit tells of it."""
    leaking = both(points(2000, many=MANY * 9 // 10, people=9000), points(0, many=40, people=20000))
    told = attacked(found, leaking)
    assert told.control is not None
    assert told.success.low > told.control.high
    assert told.risk > 0.02


def test_control_people_need_as_many_points(found: Attacked) -> None:
    with pytest.raises(ParameterError, match="nobody of the control"):
        found(
            "path", points(0), POINTS, original=points(0),
            control={name: one[:2] for name, one in points(1000).items()}, knows=4,
            cell=250, minutes=15,
        )  # fmt: skip
