"""Read files of SPSS, Stata and SAS: codes or labels, missing codes as NULL, dates as dates.

Decision `reading-files`.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from contextlib import suppress
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sfumato.data.engines.kinds import kind_asked
from sfumato.data.files import readstat_process
from sfumato.data.files.cell_conversion import (
    as_text,
    check_names,
    natural_kind,
    read_cells,
    settled,
)
from sfumato.data.files.file_identity import regular_file
from sfumato.data.schema.column import Kind
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from sfumato.data.engines.kinds import Asked
    from sfumato.data.files.cell_conversion import Cell
    from sfumato.data.files.file_identity import RegularFile

_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}

MOST_EXPANSION = 200
"""The largest expansion of a file; compressed tables about people expand far less."""

EXPANSION_FREE = 64 << 20
"""Bytes below which the expansion is not limited."""

# Epochs: SPSS counts seconds from the first day of the Gregorian calendar, Stata and SAS from 1960.
_SPSS, _SINCE_1960 = datetime(1582, 10, 14), datetime(1960, 1, 1)  # noqa: DTZ001  days have no zone
_DAY, _SECOND, _MILLISECOND = timedelta(days=1), timedelta(seconds=1), timedelta(milliseconds=1)

# For each program the pattern of its date formats, their epoch and their unit.
_TIMES: dict[str, tuple[str, datetime, timedelta]] = {
    ".sav": (r"([AEJS]?DATE|DATETIME|YMDHMS)[0-9.]*", _SPSS, _SECOND),
    ".dta": (r"%-?t?d.*", _SINCE_1960, _DAY),
    ".dta in milliseconds": (r"%-?t[cC].*", _SINCE_1960, _MILLISECOND),
    ".xpt": (
        r"([BEI]S?8601DA|(DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?|(NL|WEEK|WORD)?DAT[EX]|JULIAN|MONYY)[0-9.]*",
        _SINCE_1960,
        _DAY,
    ),
    ".xpt in seconds": (
        r"([EB]8601DT|IS8601DT|DATETIME|DATEAMPM|NLDATM)[0-9.]*",
        _SINCE_1960,
        _SECOND,
    ),
}

# Formats that share the date formats of another one.
_FAMILY = {".zsav": ".sav", ".sas7bdat": ".xpt"}


class StatisticsFile:
    """A file of a statistics program. Close it at the end.

    A column with value labels is read as labels where it is declared as text, or undeclared and
    every value has a label. Otherwise it is read as codes.
    """

    def __init__(
        self,
        path: Path | str,
        layout: FileLayout = DEFAULT_LAYOUT,
        *,
        declared: Collection[str] = (),
    ) -> None:
        self._file = regular_file(path)
        content = _read(self._file, layout)
        ending = self._file.path.suffix.lower()
        family = _FAMILY.get(ending, ending)
        self._labels: Mapping[str, Mapping[Cell, str]] = {
            name: dict(labels) for name, labels in content["labels"].items()
        }
        self._columns: dict[str, Sequence[Cell]] = {
            name: _with_dates(
                [None if cell == "" else cell for cell in column], content["formats"][name], family
            )
            for name, column in content["columns"].items()
        }
        if not declared:
            self._columns = {name: settled(column) for name, column in self._columns.items()}
        self.names = list(self._columns)
        check_names(self.names)
        self.layout = FileLayout(layout.encoding)
        self._file.check_unchanged()

    @property
    def held(self) -> dict[str, Kind]:
        """The kind of each column; text where every value has a label."""
        return {
            name: Kind.TEXT if self._all_labelled(name) else natural_kind(cells)
            for name, cells in self._columns.items()
        }

    def read(self, kinds: Mapping[str, Asked], *, strict: bool = True) -> Iterator[pa.RecordBatch]:
        """Read all rows as the given kinds; labels where that is text."""
        columns = {
            name: self._label_cells(name) if kind_asked(asked) is Kind.TEXT else self._columns[name]
            for name, asked in kinds.items()
        }
        return read_cells(columns, kinds, strict=strict)

    def close(self) -> None:
        """Release the cells."""
        self._columns = {}

    def _all_labelled(self, name: str) -> bool:
        values = {*self._columns[name]} - {None}
        return bool(values) and values <= self._labels.get(name, {}).keys()

    def _label_cells(self, name: str) -> Sequence[Cell]:
        labels = self._labels.get(name, {})
        return [labels.get(cell) or as_text(cell) for cell in self._columns[name]]


def _with_dates(cells: list[Cell], form: str, family: str) -> list[Cell]:
    """Convert numbers of date and time formats; a number beyond the calendar is kept."""
    for key, (pattern, epoch, unit) in _TIMES.items():
        if key.partition(" ")[0] == family and re.fullmatch(pattern, form):
            return [_at(cell, epoch, unit) for cell in cells]
    return cells


def _at(cell: Cell, epoch: datetime, unit: timedelta) -> Cell:
    if not isinstance(cell, int | float) or not math.isfinite(cell):
        return cell
    try:
        at = epoch + unit * cell
    except OverflowError:
        return cell
    return at.date() if unit is _DAY else at


def _read(file: RegularFile, layout: FileLayout) -> dict[str, Any]:
    """Read the file in another process, because a damaged file can crash the reader."""
    if find_spec("pyreadstat") is None:
        raise SourceError(
            "package_missing",
            f"Cannot read {file.name!r}: files of SPSS, Stata and SAS need packages that are not "
            "installed.",
            hint="Install them with: pip install 'sfumato[statistics]', or save it as CSV.",
        )
    task = {
        "path": str(file.path),
        "reader": _READERS[file.path.suffix.lower()],
        "encoding": layout.encoding and layout.codec.upper(),  # as iconv spells it
        "most_bytes": max(EXPANSION_FREE, MOST_EXPANSION * file.version.size),
    }
    # Its messages may quote data, so stderr is discarded.
    process = subprocess.run(
        [sys.executable, "-I", readstat_process.__file__, json.dumps(task, allow_nan=False)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    content: dict[str, Any] = {}
    with suppress(ValueError, RecursionError):
        content = json.loads(process.stdout) if process.returncode == 0 else {}
    if content.get("too_large"):
        raise _bomb(file)
    if not content:
        raise SourceError(
            "file_malformed",
            f"Cannot read {file.name!r}: it is no whole {file.path.suffix.lower()} file, or its "
            "text is in another encoding. Save it again, or say what it is in the schema, e.g. "
            'file.encoding = "windows-1252".',
        )
    return content


def _bomb(file: RegularFile) -> SourceError:
    return SourceError(
        "file_too_large",
        f"{file.name!r} grows more than {MOST_EXPANSION} times when it is expanded.",
        hint="Save it as CSV if you trust it.",
    )
