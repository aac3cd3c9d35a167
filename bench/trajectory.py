"""Twins of paths by three models: five figures against epsilon; the time of a million points.

Units: one trip of the made-up town; one taxi of Porto, whose trips weigh one path together; one
trip of GoTrack. Every point counts once a minute.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv

from sfumato.noise.entropy import SystemEntropy
from sfumato.privacy.price import price
from sfumato.privacy.units import Entity
from sfumato.trajectory.adatrace import AdaTrace
from sfumato.trajectory.cells import Box, Squares
from sfumato.trajectory.dpt import DPT
from sfumato.trajectory.generate import TOWN, made_up
from sfumato.trajectory.measuring import PathCost
from sfumato.trajectory.one_level import OneLevel
from sfumato.trajectory.paths import Paths
from sfumato.trajectory.reading import moments
from sfumato.trajectory.reference_systems import ReferenceSystems
from sfumato.trajectory.utility import utility

SHARED = Path(__file__).parents[2] / "shared" / "data" / "trajectories"
BASELINE = "one-level"
EPSILONS = ("0.5", "1", "2", "5")
MOST = 48
PORTO = Box(-8.70, 41.10, -8.53, 41.25)
ARACAJU = Box(-37.15, -11.05, -37.02, -10.83)


def learner(name: str, box: Box, epsilon: str) -> Any:
    """A model by name, as the command has it by default."""
    fixed: dict[str, Any] = {
        "cost": PathCost(price(epsilon=epsilon, maximum=100), Entity("trip", MOST)),
        "most": MOST, "every": 60.0, "first_time": 0.0, "last_time": 86_400.0,
    }  # fmt: skip
    if name == "dpt":
        return DPT(systems=ReferenceSystems.squares(box, 64), **fixed)
    if name == "adatrace":
        return AdaTrace(box=box, **fixed)
    return OneLevel(grid=Squares.of(box, 16, 16), **fixed)


@cache
def data(name: str) -> tuple[Paths, Box]:
    """Paths and their declared box."""
    if name == "town":
        return made_up(100_000), TOWN
    table = csv.read_csv(SHARED / f"{name}_points.csv.gz")
    numbers = [np.asarray(table.column(one)) for one in ("user", "trip", "lon", "lat")]
    times = moments(table.column("time")) % 86_400
    paths = Paths.of(numbers[0], numbers[1], times, numbers[2], numbers[3]).thinned(60.0)
    return paths, (PORTO if name.startswith("porto") else ARACAJU)


def figures(name: str, model: str, epsilon: str) -> dict[str, float]:
    """How far a twin of as many paths is off."""
    real, box = data(name)
    twin = learner(model, box, epsilon).learn(real, SystemEntropy())
    return utility(real, twin.drawn(len(real), SystemEntropy()), box).to_json()


def rows() -> list[dict[str, object]]:
    """Figures of each model beside those of the plain one, and the time of a million points."""
    found: list[dict[str, object]] = []
    for name in ("town", "porto_taxi", "gotrack"):
        if name != "town" and not SHARED.exists():
            continue
        for epsilon in EPSILONS:
            plain = figures(name, BASELINE, epsilon)
            for model in ("dpt", "adatrace"):
                for what, value in figures(name, model, epsilon).items():
                    found.append(
                        {
                            "name": f"paths: {name}, epsilon {epsilon}, {model}, {what}",
                            "unit": "shared" if what == "patterns" else "off",
                            "value": value,
                            "peer": BASELINE,
                            "peer_value": plain[what],
                        }
                    )
    begun = time.perf_counter()
    real = made_up(45_000)  # a little more than a million points
    learner("dpt", TOWN, "1").learn(real, SystemEntropy()).drawn(len(real), SystemEntropy())
    took = time.perf_counter() - begun
    found.append({"name": "paths: 1 M points, dpt", "unit": "s", "value": took})
    return found
