"""Mondrian on Adult, on 1.2 million rows and on 10 million; measuring Adult; peers beside it."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria import KAnonymity
from sfumato.anonymize.measure import measure_counts
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.search import run
from sfumato.data.counting.frequencies import count
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.hierarchy import read_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from sfumato.anonymize.outcome import Outcome
    from sfumato.data.counting.frequencies import Frequencies

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".." / "shared" / "data"
QUASI = (
    "age", "sex", "race", "marital-status", "education", "native-country", "workclass",
    "occupation",
)  # fmt: skip
NEAR_UNIQUE = (100, 2, 5, 16, 41, 365, 1000, 14)
ROWS = 10_000_000


def rows() -> list[dict[str, object]]:
    """Search alone on counts that are already here, CPU seconds, the best of five."""
    if not DATA.is_dir():
        return []
    adult, large = _counted("adult/adult.csv"), _counted("adult_large/adult_1200k.parquet")
    peers = {k: _anonypy(k) for k in (5, 10)}
    found = [
        _row("Mondrian, k = 5, Adult", 0.1, lambda: run(_problem(adult, 5), "mondrian"))
        | {"peer": "anonypy, one run", "peer_value": peers[5][0]},
        _row("Mondrian relaxed, k = 5, Adult", None, lambda: _search(adult, "mondrian-relaxed")),
        _row("Mondrian, k = 5, 1.2 million rows", 1.5, lambda: run(_problem(large, 5), "mondrian")),
    ]
    for k, most in ((5, 275_000), (10, 480_000)):
        cost = run(_problem(adult, k), "mondrian").cost["discernability"]
        found.append(
            {
                "name": f"Mondrian's discernability, k = {k}, Adult",
                "unit": "",
                "value": cost,
                "peer": "anonypy",
                "peer_value": peers[k][1],
                "wanted": f"at most {most:,}",
            }
        )
    columns = [*map(_column, QUASI[:-1]), _column(QUASI[-1], Role.SENSITIVE)]
    found.append(
        _row("measure k, l, t and costs, Adult", 0.1, lambda: measure_counts(adult, columns))
        | {"peer": "pycanon: k, l, t; one run", "peer_value": _pycanon()}
    )
    found.append(_large())
    return found


def _adult_frame() -> pd.DataFrame:
    import pandas as pd

    frame = pd.read_csv(DATA / "adult" / "adult.csv", sep=";")
    for name in frame.columns:
        if name != "age":
            frame[name] = frame[name].astype("category")
    return frame


def _anonypy(k: int) -> tuple[float, float]:
    """CPU seconds and discernability of anonypy's Mondrian on the same columns."""
    from anonypy import Mondrian

    search = Mondrian(_adult_frame(), list(QUASI), "salary-class")
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = search.partition(k)
    return time.process_time() - started, float(sum(len(rows) ** 2 for rows in classes))


def _pycanon() -> float:
    """CPU seconds of pycanon for k, l and t with the last column as the sensitive one."""
    from pycanon import anonymity

    frame, quasi, sensitive = _adult_frame().astype(str), list(QUASI[:-1]), [QUASI[-1]]
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anonymity.k_anonymity(frame, quasi)
        anonymity.l_diversity(frame, quasi, sensitive)
        anonymity.t_closeness(frame, quasi, sensitive)
    return time.process_time() - started


def _search(table: Frequencies, algorithm: str) -> Outcome:
    return run(_problem(table, 5), algorithm)


def _row(name: str, most: float | None, task: Callable[[], object]) -> dict[str, object]:
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        task()
        best = min(best, time.process_time() - started)
    wanted = None if most is None else f"at most {most}"
    return {"name": name, "unit": "s", "value": best, "wanted": wanted}


def _counted(name: str) -> Frequencies:
    engine = open_source(DATA / name, kinds={one: _kind(one) for one in (*QUASI, "salary-class")})
    try:
        return count(engine, engine.table, list(QUASI))
    finally:
        engine.close()


def _column(name: str, role: Role = Role.QUASI) -> Column:
    tree = read_tree(DATA / "adult" / f"adult_hierarchy_{name}.csv", _kind(name))
    return Column(name, _kind(name), role, hierarchy=tree)


def _kind(name: str) -> Kind:
    return Kind.INTEGER if name == "age" else Kind.TEXT


_PROBLEMS: dict[tuple[int, int], Problem] = {}


def _problem(table: Frequencies, k: int) -> Problem:
    """Set up once: what is measured is the search."""
    key = (id(table), k)
    if key not in _PROBLEMS:
        hierarchies = {name: _column(name).hierarchy for name in QUASI}
        taxonomies = {name: one.grow([]) for name, one in hierarchies.items() if one is not None}
        _PROBLEMS[key] = Problem.build(table, taxonomies, QUASI, [KAnonymity(k)])
    return _PROBLEMS[key]


def _large() -> dict[str, object]:
    """The peak memory of a process of its own."""
    code = "from bench.partition import large; large()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return {
        "name": f"Mondrian, k = 5, {ROWS:,} near-unique rows, peak memory",
        "unit": "GiB",
        "value": float(done.stdout) / (1 << 20),
        "wanted": "at most 4",
    }


def large() -> None:
    """Search a table in which nearly every row is alone, and print the peak in KiB."""
    import pyarrow as pa

    from sfumato.data.counting.axes import Listed
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.counting.grouping import group
    from sfumato.data.schema.hierarchy import Taxonomy

    generator = np.random.default_rng(0)
    codes = [generator.integers(0, size, ROWS).astype(np.int32) for size in NEAR_UNIQUE]
    groups = group(codes, NEAR_UNIQUE, np.ones(ROWS, dtype=np.int64))
    names = [f"q{place}" for place in range(len(codes))]
    axes = tuple(
        Listed(name, pa.array(range(size)), declared=False)
        for name, size in zip(names, NEAR_UNIQUE, strict=True)
    )
    merged = tuple(column[groups.representatives] for column in codes)
    table = Frequencies(axes, merged, groups.counts)
    taxonomies = {
        name: Taxonomy.build(list(range(size)), [], missing=False)
        for name, size in zip(names, NEAR_UNIQUE, strict=True)
    }
    run(Problem.build(table, taxonomies, names, [KAnonymity(5)]), "mondrian")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
