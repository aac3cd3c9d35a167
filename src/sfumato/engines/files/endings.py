"""Which format a file has, by the end of its name."""

from __future__ import annotations

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
"""Separated text."""

PARQUET = (".parquet",)
EXCEL = (".xlsx",)
STATISTICS = (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
"""Files of SPSS, Stata and SAS."""

READ = (*TEXT, *PARQUET, *EXCEL, *STATISTICS)
WRITTEN = (*TEXT, *PARQUET, *EXCEL)

_TABS = (".tsv", ".tsv.gz")


def ends_in(name: str, endings: tuple[str, ...]) -> bool:
    """Whether the name of a file has one of these ends, and something before it."""
    small = name.lower()
    return small.endswith(endings) and small not in endings


def fixed_separator(name: str) -> str | None:
    """The separator that the name of a file of text alone tells."""
    return "\t" if name.lower().endswith(_TABS) else None
