"""Twins of paths by three models: five figures against epsilon; the time of a million points.

Units: one trip of the made-up town, of GoTrack and of the bicycles, of which only the stations at
both ends are known; one taxi of Porto, whose trips weigh one path together. Points are a minute
apart. Means over three twins, each learnt anew from all and of at most 10,000 paths; the tables of
docs/guide/paths.md are written by `python -m bench.trajectory`.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv

from sfumato.data.schema.unit import Entity
from sfumato.methods.trajectory.adatrace import AdaTrace
from sfumato.methods.trajectory.cells import Box, ReferenceSystems, Squares
from sfumato.methods.trajectory.dpt import DPT
from sfumato.methods.trajectory.generate import TOWN, generated_paths
from sfumato.methods.trajectory.measurement import PathCost
from sfumato.methods.trajectory.one_level import OneLevel
from sfumato.methods.trajectory.paths import Paths, parse_times
from sfumato.methods.trajectory.utility import PATTERN_GRIDS, shared_patterns, utility
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.entropy import SystemEntropy

SHARED = Path(__file__).parents[2] / "shared" / "data" / "trajectories"
BASELINE = "one-level"
EPSILONS = ("0.5", "1", "2", "5")
MOST = 48
PORTO = Box(-8.70, 41.10, -8.53, 41.25)
ARACAJU = Box(-37.15, -11.05, -37.02, -10.83)
BAY = Box(-122.50, 37.30, -121.85, 37.85)
NAMES = ("town", "porto_taxi", "gotrack", "bikeshare")
MODELS = ("dpt", "adatrace", BASELINE)
DRAWS = 3
MOST_DRAWN = 10_000


def learner(name: str, box: Box, epsilon: str) -> Any:
    """A model by name, as the command has it by default."""
    fixed: dict[str, Any] = {
        "cost": PathCost(price(epsilon=epsilon), Entity("trip", MOST)),
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
        return generated_paths(100_000), TOWN
    if name == "bikeshare":
        return _hires(), BAY
    table = csv.read_csv(SHARED / f"{name}_points.csv.gz")
    numbers = [np.asarray(table.column(one)) for one in ("user", "trip", "lon", "lat")]
    times = parse_times(table.column("time")) % 86_400
    if name == "gotrack":
        numbers[0] = numbers[1]
    paths = Paths.of(numbers[0], numbers[1], times, numbers[2], numbers[3]).thinned(60.0)
    return paths, (PORTO if name == "porto_taxi" else ARACAJU)


def _hires() -> Paths:
    """Hires of bicycles: two points each; a station that moved is where it stood last."""
    stations = csv.read_csv(SHARED / "bikeshare_stations.csv").to_pydict()
    at = zip(stations["lon"], stations["lat"], strict=True)
    where = dict(zip(stations["station"], at, strict=True))
    table = csv.read_csv(SHARED / "bikeshare_trips.csv.gz")
    ends = [np.array([where[one] for one in table.column(f"{end}_station").to_pylist()])
            for end in ("start", "end")]  # fmt: skip
    begun = parse_times(table.column("start_time")) % 86_400
    gone = np.maximum(np.asarray(table.column("duration_s"), dtype=np.float64), 60.0)
    trips = np.tile(np.arange(len(begun)), 2)
    x, y = np.concatenate(ends).T
    return Paths.of(trips, trips, np.concatenate([begun, begun + gone]), x, y)


@cache
def figures(name: str, model: str, epsilon: str) -> dict[str, tuple[float, float]]:
    """How far twins of as many paths are off: the mean over draws, and their deviation."""
    real, box = data(name)
    found = []
    for _ in range(DRAWS):
        twin = learner(model, box, epsilon).learn(real, SystemEntropy())
        paths = twin.draw(min(len(real), MOST_DRAWN), SystemEntropy())
        told = utility(real, paths, box).to_json()
        told |= {f"patterns {n}": shared_patterns(real, paths, box, n) for n in PATTERN_GRIDS}
        found.append(told)
    lists = {what: [one[what] for one in found] for what in found[0]}
    return {
        what: (float(np.mean(all_)), float(np.std(all_, ddof=1))) for what, all_ in lists.items()
    }


def rows() -> list[dict[str, object]]:
    """Figures of each model beside those of the plain one, and the time of a million points."""
    found: list[dict[str, object]] = []
    for name in NAMES:
        if name != "town" and not SHARED.exists():
            continue
        for epsilon in EPSILONS:
            plain = figures(name, BASELINE, epsilon)
            for model in MODELS[:-1]:
                for what, (value, _) in figures(name, model, epsilon).items():
                    found.append(
                        {
                            "name": f"paths: {name}, epsilon {epsilon}, {model}, {what}",
                            "unit": "shared" if what.startswith("patterns") else "off",
                            "value": value,
                            "peer": BASELINE,
                            "peer_value": plain[what][0],
                        }
                    )
    begun = time.perf_counter()
    real = generated_paths(45_000)  # a little more than a million points
    learner("dpt", TOWN, "1").learn(real, SystemEntropy()).draw(len(real), SystemEntropy())
    took = time.perf_counter() - begun
    found.append({"name": "paths: 1 M points, dpt", "unit": "s", "value": took})
    return found


def table(name: str, epsilons: tuple[str, ...] = EPSILONS) -> str:
    """The figures of one set of paths as lines of a page."""
    lines = []
    for epsilon in epsilons:
        for model in MODELS:
            cells = [
                f"{mean:.3f} ± {spread:.3f}"
                for mean, spread in figures(name, model, epsilon).values()
            ]
            lines.append(f"| {name} | {epsilon} | {model} | {' | '.join(cells)} |")
            sys.stderr.write(lines[-1] + "\n")
    return "\n".join(lines)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or NAMES:
        sys.stdout.write(table(chosen) + "\n")
        sys.stdout.flush()
