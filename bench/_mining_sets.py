"""The tables that mining is measured on, and what is declared of them.

What is declared is the same for us and for the peer: round numbers such as somebody who knows the
field would write. Whoever wrote these had seen the least and largest values of the sets of
scikit-learn, so that they fit better than a stranger's would. Rows outside are clamped by both.
These are small; those of ../shared/data are left out where that is not there.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import datasets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    Declared = tuple[float, float] | list[str]

DATA = Path(__file__).parents[2] / "shared" / "data"
TEST = 0.3
"""The share of rows that are held back to score on."""

# How far a nucleus on a slide, measured in pixels, can be off round: radius to fractal dimension.
_NUCLEUS = (
    "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "points",
    "symmetry", "fractal",
)  # fmt: skip
_NUCLEI = (
    ("mean", (30, 40, 200, 2500, 0.2, 0.4, 0.5, 0.2, 0.4, 0.1)),
    ("error", (3, 5, 20, 300, 0.03, 0.15, 0.4, 0.05, 0.1, 0.03)),
    ("worst", (40, 50, 250, 4000, 0.25, 1, 1.2, 0.3, 0.7, 0.2)),
)
BREAST_CANCER = {
    f"{of}_{name}": (0.0, float(high))
    for of, highs in _NUCLEI
    for name, high in zip(_NUCLEUS, highs, strict=True)
}
# What laboratories of wineries quote as usual; alcohol in percent by volume, the rest in g/l, mg/l.
WINE = {
    "alcohol": (10.0, 15.0),
    "malic_acid": (0.0, 6.0),
    "ash": (1.0, 4.0),
    "alcalinity": (10.0, 30.0),
    "magnesium": (50.0, 200.0),
    "phenols": (0.0, 4.0),
    "flavanoids": (0.0, 5.0),
    "nonflavanoids": (0.0, 1.0),
    "proanthocyanins": (0.0, 4.0),
    "colour": (0.0, 15.0),
    "hue": (0.0, 2.0),
    "dilution": (1.0, 4.0),
    "proline": (200.0, 2000.0),
}
# Centimetres of a flower that is held in a hand.
IRIS = {
    "sepal_length": (4.0, 8.0),
    "sepal_width": (2.0, 5.0),
    "petal_length": (0.0, 8.0),
    "petal_width": (0.0, 3.0),
}
# By construction: how many of 4 x 4 pixels are inked.
DIGITS = {f"pixel_{number}": (0.0, 16.0) for number in range(64)}
# Adults in a clinic: kg/m2, mmHg, mg/dl; s5 is the logarithm of triglycerides.
DIABETES = {
    "age": (18.0, 90.0),
    "sex": (1.0, 2.0),
    "bmi": (15.0, 45.0),
    "blood_pressure": (60.0, 140.0),
    "cholesterol": (100.0, 300.0),
    "ldl": (40.0, 250.0),
    "hdl": (20.0, 100.0),
    "ratio": (1.0, 10.0),
    "triglycerides": (3.0, 7.0),
    "glucose": (50.0, 130.0),
}
# A census tops ages at 90; schooling is the 16 steps of its form; the rest are yes or no.
ADULT = {
    "age": (17.0, 90.0),
    "schooling": (1.0, 16.0),
    "male": (0.0, 1.0),
    "married": (0.0, 1.0),
    "never_married": (0.0, 1.0),
    "white": (0.0, 1.0),
    "self_employed": (0.0, 1.0),
    "managing": (0.0, 1.0),
}
# A stay was kept where it took 1 to 14 days; a form holds 16 diagnoses; visits in the year before.
ENCOUNTERS = {
    "age": (0.0, 100.0),
    "female": (0.0, 1.0),
    "days": (1.0, 14.0),
    "lab_tests": (0.0, 120.0),
    "procedures": (0.0, 6.0),
    "medicines": (0.0, 60.0),
    "outpatient": (0.0, 10.0),
    "emergency": (0.0, 10.0),
    "inpatient": (0.0, 10.0),
    "diagnoses": (1.0, 16.0),
    "medicated": (0.0, 1.0),
    "changed": (0.0, 1.0),
}
# The survey's own codes; incomes above 200,000 dollars are few, and clamped.
CENSUS = {
    "age": (25.0, 95.0),
    "male": (0.0, 1.0),
    "schooling": (1.0, 12.0),
    "married": (0.0, 1.0),
    "owner": (0.0, 1.0),
    "walks": (0.0, 1.0),
}


# As `inspect --write` proposes: bounds of numbers, and the values of texts. The duration of a call
# is left out, because it is known only when the answer is.
BANK: dict[str, Declared] = {
    "age": (17.0, 98.0),
    "campaign": (1.0, 56.0),
    "previous": (0.0, 7.0),
    "euribor3m": (0.6, 5.1),
    "job": [
        "admin.", "blue-collar", "entrepreneur", "housemaid", "management", "retired",
        "self-employed", "services", "student", "technician", "unemployed", "unknown",
    ],
    "marital": ["divorced", "married", "single", "unknown"],
    "housing": ["no", "unknown", "yes"],
    "contact": ["cellular", "telephone"],
    "poutcome": ["failure", "nonexistent", "success"],
}  # fmt: skip
INCOME: dict[str, Declared] = {
    "AGEP": (0.0, 99.0),
    "SEX": ["1", "2"],
    "MSP": ["1", "2", "3", "4", "5", "6"],
    "EDU": [str(code) for code in range(1, 13)],
}


@dataclass(frozen=True)
class Sample:
    """A table with what is declared of it: bounds of each feature, and of the target its own."""

    name: str
    bounds: Mapping[str, Declared]
    """Of a number its bounds; of a text its possible values."""
    rows: NDArray[Any]
    target: NDArray[np.float64]
    target_bounds: tuple[float, float] | None = None
    """Of a number; a class has none."""

    def splits(self, repeat: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which rows are learned from and which are held back, the same for everybody."""
        order = np.random.default_rng(1_000 + repeat).permutation(len(self.rows))
        held = round(TEST * len(order))
        return order[held:], order[:held]

    @property
    def scaled(self) -> NDArray[np.float64]:
        """Numbers clamped to their bounds, which are then -1 and 1; a text as indicators."""
        blocks = []
        for column, declared in zip(self.rows.T, self.bounds.values(), strict=True):
            if isinstance(declared, list):
                blocks.append(column[:, None] == np.array(declared, dtype=object))
            else:
                low, high = declared
                cut = np.clip(column.astype(np.float64), low, high)
                blocks.append((2 * (cut - low) / (high - low) - 1)[:, None])
        return np.concatenate(blocks, axis=1, dtype=np.float64)


def samples() -> Iterator[Sample]:
    """Every table that is here."""
    for name, bounds, load in (
        ("breast cancer", BREAST_CANCER, datasets.load_breast_cancer),
        ("wine", WINE, datasets.load_wine),
        ("iris", IRIS, datasets.load_iris),
        ("digits", DIGITS, datasets.load_digits),
    ):
        rows, target = load(return_X_y=True)
        yield Sample(name, bounds, rows, target.astype(float))
    rows, target = datasets.load_diabetes(return_X_y=True, scaled=False)
    yield Sample("diabetes", DIABETES, rows, target, (0.0, 350.0))
    if DATA.exists():
        yield _read("adult", ADULT, DATA / "adult" / "adult.csv", adult_row, delimiter=";")
        encounters = DATA / "clinical" / "diabetes_encounters.csv.gz"
        # A person's first stay, so that a row is a person.
        yield _read("encounters", ENCOUNTERS, encounters, _encounter, once="patient_nbr")
        bank = DATA / "tabular" / "bank_marketing.csv.gz"
        yield _read_mixed("bank", BANK, bank, lambda row: row["y"] == "yes")
        for place in ("national", "ma"):
            path = DATA / "tabular" / f"acs2019_{place}.csv.gz"
            yield _read_mixed(f"income, {place}", INCOME, path, _earns)
        census = DATA / "tabular" / "acs2019_national.csv.gz"
        yield _read("census", CENSUS, census, _census, target=(0.0, 200_000.0))


_SCHOOLS = [
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad",
    "Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
]  # fmt: skip


def adult_row(one: dict[str, str]) -> list[float]:
    """A row of Adult as numbers, of which the last is whether it earns much."""
    return [
        float(one["age"]),
        _SCHOOLS.index(one["education"]) + 1,
        one["sex"] == "Male",
        one["marital-status"].startswith("Married-civ"),
        one["marital-status"] == "Never-married",
        one["race"] == "White",
        one["workclass"].startswith("Self-emp"),
        one["occupation"] in {"Exec-managerial", "Prof-specialty"},
        one["salary-class"] == ">50K",
    ]


def _encounter(one: dict[str, str]) -> list[float]:
    counted = (
        "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications",
        "number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses",
    )  # fmt: skip
    return [
        float(one["age"].strip("[)").split("-")[0]) + 5,
        one["gender"] == "Female",
        *(float(one[name]) for name in counted),
        one["diabetesMed"] == "Yes",
        one["change"] == "Ch",
        one["readmitted"] != "NO",
    ]


def _census(one: dict[str, str]) -> list[float] | None:
    if int(one["AGEP"]) < 25 or "N" in (one["PINCP"], one["EDU"]):
        return None
    return [
        float(one["AGEP"]),
        one["SEX"] == "1",
        float(one["EDU"]),
        one["MSP"] in {"1", "2"},
        one["OWN_RENT"] == "1",
        one["DPHY"] == "2",
        float(one["PINCP"]),
    ]


def _earns(row: dict[str, str]) -> bool | None:
    """Whether an adult's income is above the median of all; None for a row to leave out."""
    if "N" in (row["PINCP_DECILE"], row["EDU"], row["MSP"]):
        return None
    return int(row["PINCP_DECILE"]) >= 6


def _read_mixed(
    name: str,
    bounds: Mapping[str, Declared],
    path: Path,
    target: Callable[[dict[str, str]], bool | None],
) -> Sample:
    """A table of a file with numbers and texts, and two classes."""
    cells, classes = [], []
    with gzip.open(path, "rt") as stream:
        for row in csv.DictReader(stream):
            if (label := target(row)) is not None:
                cells.append(
                    [
                        row[column] if isinstance(declared, list) else float(row[column])
                        for column, declared in bounds.items()
                    ]
                )
                classes.append(float(label))
    return Sample(name, bounds, np.array(cells, dtype=object), np.array(classes))


def _read(
    name: str,
    bounds: dict[str, tuple[float, float]],
    path: Path,
    row: Callable[[dict[str, str]], list[float] | None],
    *,
    delimiter: str = ",",
    once: str | None = None,
    target: tuple[float, float] | None = None,
) -> Sample:
    """A table of a file, a row of numbers each, of which the last is the target."""
    seen, found = set(), []
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as stream:
        for one in csv.DictReader(stream, delimiter=delimiter):
            if once is None or one[once] not in seen:
                seen.add(one.get(once or "", ""))
                read = row(one)
                found += [] if read is None else [read]
    numbers = np.array(found, dtype=np.float64)
    held = numbers[:, -1] if target is None else np.clip(numbers[:, -1], *target)
    return Sample(name, bounds, numbers[:, :-1], held, target)
