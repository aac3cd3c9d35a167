"""The names, places, trades and illnesses of the sample town.

Names come from paints and painting. No surname is that of a real person: each is a pigment or a
studio word with an ending.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files

import numpy as np

_NAMES: dict[str, str] = tomllib.loads(
    files("sfumato.demo").joinpath("names.toml").read_text(encoding="utf-8")
)
FIRST_NAMES = {"F": tuple(_NAMES["women"].split()), "M": tuple(_NAMES["men"].split())}
SURNAMES = tuple(p + e for p in _NAMES["paints"].split() for e in _NAMES["endings"].split())
STREETS = tuple(f"{s} {w}" for s in _NAMES["streets"].split() for w in _NAMES["ways"].split())

SEXES = ("F", "M")
RACES = ("White", "Hispanic", "Black", "Asian", "Other")
RACE_WEIGHTS = np.array([0.60, 0.18, 0.12, 0.06, 0.04])
PARTIES = ("Outline", "Shade", "Independent")

# Made-up three-digit prefixes, each with room for sixteen towns.
ZIP_PREFIXES = tuple(_NAMES["zip_prefixes"].split())
QUARTERS = 6
QUARTER_WEIGHTS = np.array([0.34, 0.24, 0.16, 0.12, 0.09, 0.05])
# How well off a quarter is; the largest is poor, the smallest rich, the others between.
QUARTER_WEALTH = np.array([-0.25, 0.0, 0.1, -0.1, 0.25, 0.6])

MARITAL_STATUSES = ("never married", "married", "divorced", "widowed")

EDUCATIONS = (
    "no diploma",
    "high school",
    "some college",
    "bachelor",
    "master",
    "doctorate",
)
# Shares of the six degrees among adults of 25 and more, in a quarter of middling wealth.
EDUCATION_WEIGHTS = np.array([0.10, 0.29, 0.26, 0.22, 0.10, 0.03])

OCCUPATIONS = (
    "pupil",
    "student",
    "retired",
    "unemployed",
    "cleaner",
    "driver",
    "cook",
    "sales clerk",
    "carpenter",
    "nurse",
    "teacher",
    "accountant",
    "engineer",
    "manager",
    "lawyer",
    "physician",
)
WORKING_FROM = 3  # Occupations from here on are those of people of working age.
# Median yearly income, and for the trades from `unemployed` on their weight for each degree.
OCCUPATION_INCOME = np.array(
    [0, 6, 26, 14, 27, 37, 29, 34, 44, 62, 56, 68, 88, 96, 128, 190], dtype=np.float64
)
TRADE_WEIGHTS = np.array(
    [
        [14, 26, 16, 15, 12, 13, 2, 0, 0, 0, 2, 0, 0],
        [8, 12, 16, 11, 18, 16, 5, 0, 5, 0, 9, 0, 0],
        [6, 5, 10, 7, 19, 12, 14, 5, 8, 4, 10, 0, 0],
        [4, 1, 3, 2, 12, 3, 14, 16, 14, 15, 16, 0, 0],
        [3, 0, 1, 0, 4, 1, 7, 22, 13, 19, 18, 12, 0],
        [2, 0, 0, 0, 1, 0, 1, 18, 1, 13, 9, 24, 31],
    ],
    dtype=np.float64,
)

DISEASES = (
    "none",
    "flu",
    "asthma",
    "migraine",
    "depression",
    "fracture",
    "hypertension",
    "diabetes",
    "arthritis",
    "heart disease",
    "cancer",
    "HIV",
    "dementia",
)
DISEASE_AGES = (0, 20, 40, 60, 80, 100)
# Weights of each disease at those ages, for women and for men.
DISEASE_WEIGHTS = np.array(
    [
        [
            [60, 55, 45, 28, 14, 10],
            [18, 12, 9, 7, 6, 6],
            [9, 8, 6, 5, 4, 3],
            [1, 8, 9, 5, 2, 1],
            [0, 8, 9, 7, 5, 4],
            [5, 3, 2, 4, 8, 10],
            [0, 1, 6, 18, 22, 20],
            [0.3, 1, 4, 10, 12, 9],
            [0, 0.5, 3, 11, 14, 13],
            [0, 0.2, 1, 5, 14, 18],
            [0.2, 0.5, 3, 8, 9, 7],
            [0, 0.2, 0.3, 0.2, 0.1, 0],
            [0, 0, 0, 0.5, 9, 22],
        ],
        [
            [60, 60, 48, 26, 14, 11],
            [18, 12, 9, 7, 6, 6],
            [11, 6, 4, 4, 4, 3],
            [1, 3, 4, 2, 1, 1],
            [0, 4, 5, 4, 3, 3],
            [7, 8, 4, 3, 5, 7],
            [0, 1.5, 9, 20, 21, 18],
            [0.3, 1, 5, 13, 13, 10],
            [0, 0.3, 2, 7, 10, 10],
            [0, 0.4, 3, 11, 18, 20],
            [0.2, 0.4, 2, 8, 12, 9],
            [0, 0.5, 0.9, 0.5, 0.2, 0],
            [0, 0, 0, 0.5, 7, 17],
        ],
    ]
)
# Mean number of visits to the clinic in a year, by disease.
DISEASE_VISITS = np.array([0.8, 1.3, 2.2, 2.0, 3.2, 2.6, 2.4, 3.6, 2.6, 4.2, 5.6, 4.8, 4.0])
DEPARTMENTS = (
    "general practice",
    "general practice",
    "pneumology",
    "neurology",
    "psychiatry",
    "surgery",
    "cardiology",
    "endocrinology",
    "rheumatology",
    "cardiology",
    "oncology",
    "infectious diseases",
    "geriatrics",
)
# Typical cost of one visit, by disease.
DISEASE_COST = np.array([80, 95, 140, 160, 180, 620, 130, 170, 190, 540, 1900, 780, 410], float)
