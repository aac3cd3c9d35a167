"""Which format a file has, by the end of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
"""Separated text."""

PARQUET = (".parquet",)
EXCEL = (".xlsx",)
STATISTICS = (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
"""Files of SPSS, Stata and SAS."""

READ = (*TEXT, *PARQUET, *EXCEL, *STATISTICS)
WRITTEN = (*TEXT, *PARQUET, *EXCEL)

_PARTING = ",;|~^:#"
"""Signs that part cells in some file or other, and are rare in names."""

_TABS = (".tsv", ".tsv.gz")


def ends_in(name: str, endings: tuple[str, ...]) -> bool:
    """Whether the name of a file has one of these ends, and something before it."""
    small = name.lower()
    return small.endswith(endings) and small not in endings


def fixed_separator(name: str) -> str | None:
    """The separator that the name of a file of text alone tells."""
    return "\t" if name.lower().endswith(_TABS) else None


def separator_hint(name: str, columns: Sequence[str]) -> str | None:
    """A question to the owner of a file of text whose only column looks like several."""
    sign = next((sign for sign in _PARTING if sign in columns[0]), None)
    if len(columns) != 1 or sign is None or not ends_in(name, TEXT):
        return None
    next_step = f'Add separator = "{sign}" under [file] in its schema, and name its columns there.'
    if fixed_separator(name):
        next_step = "In a .tsv the tab is: name the file .csv."
    return (
        f"The file has one column, and its header holds '{sign}': is it the separator? {next_step}"
    )
