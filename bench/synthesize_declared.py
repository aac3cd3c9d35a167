"""Synthetic tables as users declare them: every column by its values, or numbers by bounds.

The second declaration is what `inspect --write` proposes, with each proposed line uncommented.
Distances are on one fine grid for both: the distinct values of a column, or its percentiles, each
a cell of its own, and the cells between them. *k-marginal* is NIST's judge by its published formula
(1000 (1 - total variation), mean over sets of k columns), not by its software.

    python -m bench synthesize_declared
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import sfumato as sf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

DATA = Path(__file__).parents[2] / "shared" / "data"
EPSILON, DELTA = 1, "1e-9"
RUNS = 2
DECLARATIONS = ("values", "bounds")
MOST_VALUES = 500
"""A number of more distinct values is declared by bounds in both."""
TRIPLES = 60
RANKS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
DEMOGRAPHIC = [
    *("PUMA", "AGEP", "SEX", "MSP", "HISP", "RAC1P", "OWN_RENT", "EDU", "PINCP_DECILE", "DPHY"),
]
"""Ten demographic columns of NIST's excerpts."""
DIABETES = [
    *("race", "gender", "age", "time_in_hospital", "num_lab_procedures", "num_procedures"),
    *("num_medications", "number_outpatient", "number_emergency", "number_inpatient"),
    *("number_diagnoses", "insulin", "change", "diabetesMed", "readmitted"),
]
TABLES: dict[str, tuple[str, list[str] | None]] = {
    "adult": ("adult_coded/adult.csv", None),
    "bank marketing": ("tabular/bank_marketing.csv.gz", None),
    "diabetes": ("clinical/diabetes_encounters.csv.gz", DIABETES),
    "online retail": ("sets/online_retail.csv.gz", ["country", "quantity", "unit_price"]),
    "bike hours": ("series/bike_hourly.csv.gz", None),
    "national2019, ten columns": ("tabular/acs2019_national.csv.gz", DEMOGRAPHIC),
    "national2019, 24 columns": ("tabular/acs2019_national.csv.gz", None),
}


def rows() -> list[dict[str, object]]:
    """Every table in both declarations."""
    found: list[dict[str, object]] = []
    for name in TABLES if DATA.is_dir() else ():
        for declaration in DECLARATIONS:
            figures = measured(name, declaration, "mst")
            found += [
                {"name": f"synthesis: {name}, {declaration}, mst: {what}", "unit": "", "value": one}
                for what, one in figures.items()
            ]
    return found


def measured(name: str, declaration: str, method: str, runs: int = RUNS) -> dict[str, float]:
    """The figures of a table, mean over runs, and the processor seconds of a run."""
    with _declared(name, declaration) as (table, frame):
        told = []
        for _ in range(runs):
            private = sf.protect(table, unit=sf.Rows(), epsilon=EPSILON, delta=DELTA)
            before = time.process_time()
            made = private.synthesize(epsilon=EPSILON, delta=DELTA, method=method)
            cpu = time.process_time() - before
            with TemporaryDirectory() as folder:
                made.save(Path(folder) / "made.csv")
                told.append({**figures(frame, _read(Path(folder) / "made.csv", table)), "cpu": cpu})
    return {what: float(np.mean([one[what] for one in told])) for what in told[0]}


@contextlib.contextmanager
def _declared(name: str, declaration: str) -> Iterator[tuple[sf.Table, pd.DataFrame]]:
    """A table and its rows, declared in one of the two ways."""
    path, columns = TABLES[name]
    with TemporaryDirectory() as folder:
        file, schema = Path(folder) / "table.csv", Path(folder) / "table.toml"
        pd.read_csv(DATA / path, usecols=columns, dtype=str, keep_default_na=False).to_csv(
            file, index=False
        )
        command = str(Path(sys.executable).with_name("sfumato"))
        asked = [command, "inspect", str(file), "--write", str(schema)]
        subprocess.run(asked, check=True, capture_output=True)
        text = schema.read_text(encoding="utf-8").replace('role = "identifier"', 'role = "other"')
        text = re.sub(r"(?m)^# ((?:bounds|values|nullable) = [^#]*)", r"\1", text)
        schema.write_text(text, encoding="utf-8")
        with contextlib.closing(sf.read(file, schema=schema)) as table:
            frame = _read(file, table)
            if declaration == "bounds":
                yield table, frame
                return
            chosen = sf.Schema(table.schema.table, tuple(
                _by_values(column, frame[column.name]) for column in table.schema.columns
            ))  # fmt: skip
            with contextlib.closing(sf.read(file, schema=chosen)) as by_values:
                yield by_values, frame


def _read(file: Path, table: sf.Table) -> pd.DataFrame:
    """The cells of a file: numbers where they are declared as such, else as they are written."""
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    for column in table.schema.columns:
        if column.kind in (sf.Kind.INTEGER, sf.Kind.REAL):
            frame[column.name] = pd.to_numeric(frame[column.name].replace("", "nan"))
    return frame


def _by_values(column: sf.Column, cells: pd.Series[Any]) -> sf.Column:
    """A number declared by its values, where these are few."""
    values = sorted(cells.dropna().unique().tolist())
    if column.kind is not sf.Kind.INTEGER or len(values) > MOST_VALUES:
        return column
    domain = sf.Values(tuple(int(value) for value in values))
    return sf.Column(column.name, column.kind, domain=domain, nullable=column.nullable)


def figures(real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """How far a synthetic table is off."""
    numbers = [name for name in real if pd.api.types.is_numeric_dtype(real[name])]
    coded = {name: _cells(real[name], made[name], numbers=name in numbers) for name in real}
    names = [str(name) for name in real.columns]
    triples = list(combinations(names, 3))
    chosen = np.random.default_rng(1).permutation(len(triples))[:TRIPLES]
    sets: dict[int, list[tuple[str, ...]]] = {
        1: [(name,) for name in names],
        2: [*combinations(names, 2)],
        3: [triples[place] for place in chosen],
    }
    apart = {
        size: float(np.mean([_distance([coded[name] for name in one]) for one in columns] or [0]))
        for size, columns in sets.items()
    }
    zeros = [(real[name] == 0).mean() for name in numbers]
    made_zeros = [(made[name] == 0).mean() for name in numbers]
    zero_errors = [abs(a - b) for a, b in zip(zeros, made_zeros, strict=True) if a > 0.01]
    return {
        **{f"{size}-way": distance for size, distance in apart.items()},
        "quantiles": float(np.mean([_quantiles(real[name], made[name]) for name in numbers])),
        "zeros": float(np.mean(zero_errors or [0])),
        "zeros, worst": float(max(zero_errors or [0])),
        "k-marginal, k = 2": 1000 * (1 - apart[2]),
        "k-marginal, k = 3": 1000 * (1 - apart[3]),
    }


def _cells(
    real: pd.Series[Any], made: pd.Series[Any], *, numbers: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes of both columns on their common grid; a missing value is a cell of its own."""
    distinct = real.dropna().unique()
    if not numbers or len(distinct) <= 2 * len(RANKS) + 120:
        both = pd.concat([real, made]).astype(str)
        codes = pd.factorize(both)[0].astype(np.int64)
        return codes[: len(real)], codes[len(real) :]
    ends = np.unique(np.quantile(real.dropna(), np.arange(101) / 100, method="lower"))

    def code(cells: pd.Series[Any]) -> NDArray[np.int64]:
        values = cells.to_numpy(dtype=float)
        places = 2 * np.searchsorted(ends, values) + np.isin(values, ends)
        return np.where(np.isnan(values), 2 * len(ends) + 2, places).astype(np.int64)

    return code(real), code(made)


def _distance(columns: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> float:
    """The total variation of some columns together."""
    keys = [np.zeros(len(side), dtype=np.int64) for side in columns[0]]
    for sides in columns:
        size = 1 + max(int(side.max()) for side in sides)
        keys = [key * size + side for key, side in zip(keys, sides, strict=True)]
    _, places = np.unique(np.concatenate(keys), return_inverse=True)
    real, made = np.split(places, [len(keys[0])])
    cells = int(places.max()) + 1
    shares = [np.bincount(side, minlength=cells) / len(side) for side in (real, made)]
    return float(np.abs(shares[0] - shares[1]).sum()) / 2


def _quantiles(real: pd.Series[Any], made: pd.Series[Any]) -> float:
    """How far some quantiles are off, in spreads of the original between its 1st and 99th."""
    exact = np.quantile(real.dropna().astype(float), [0.01, *RANKS])
    drawn = np.quantile(made.dropna().astype(float), RANKS)
    spread = (exact[-1] - exact[0]) or 1.0
    return float(np.abs(exact[1:] - drawn).mean() / spread)


if __name__ == "__main__":
    table, declaration, method, runs = sys.argv[1:5]
    print(table, declaration, method, measured(table, declaration, method, int(runs)), flush=True)
