"""Reading what people said from a file, all of it or none: bad lines are listed, not skipped."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, SourceError
from sfumato.vault.consent.consent_record import Said, now
from sfumato.vault.consent.person_ids import fault_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from sfumato.data.schema.column import Kind

COLUMNS = ("person", "purpose", "agreed", "time")
ANSWERS = {"yes": True, "no": False}
_SEPARATORS = (",", ";", "\t")
_LISTED = 20
_LONGEST_LINE = 100_000


def read_said(path: Path, purposes: Sequence[str], kind: Kind) -> list[Said]:
    """What a file of `person,purpose,agreed[,time]` says, in UTF-8 and under these titles."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            head = stream.readline(_LONGEST_LINE)
            titles = _titles(path, head)
            lines = csv.reader(stream, delimiter=_separator(head), strict=True)
            return checked(_numbered(lines, len(titles)), purposes, kind)
    except OSError as error:
        raise SourceError(
            "source_missing", f"Cannot read '{path}': {error.strerror}. Name a CSV file."
        ) from None
    except (UnicodeDecodeError, csv.Error):
        raise SourceError(
            "consent_file_wrong",
            f"'{path}' cannot be read as CSV in UTF-8. Nothing was taken from it. Save it as CSV "
            f"with the columns {', '.join(COLUMNS[:3])} and, if known, time.",
        ) from None


def _separator(head: str) -> str:
    return max(_SEPARATORS, key=head.count)


def _titles(path: Path, head: str) -> list[str]:
    found = [one.strip().strip('"').lower() for one in head.rstrip("\r\n").split(_separator(head))]
    if tuple(found) not in (COLUMNS[:3], COLUMNS):
        raise SourceError(
            "consent_file_wrong",
            f"The first line of '{path}' must name the columns {','.join(COLUMNS[:3])} and, if "
            "known, time, in this order. A line says yes or no: 1042,research,yes.",
        )
    return found


def _numbered(lines: Iterator[list[str]], width: int) -> Iterator[tuple[str, list[str]]]:
    """Lines as people count them; the first is the titles'."""
    for cells in lines:
        if cells:
            place = f"line {getattr(lines, 'line_num') + 1}"  # noqa: B009  of a csv.reader
            yield place, cells if len(cells) == width else []


def checked(
    lines: Iterable[tuple[str, Sequence[str]]], purposes: Sequence[str], kind: Kind
) -> list[Said]:
    """What lines say, each with its place; refused with all places where one cannot be taken."""
    found: dict[tuple[str, str], Said] = {}
    bad: list[str] = []
    today = now()
    for place, cells in lines:
        said = _said(cells, purposes, kind, today)
        if isinstance(said, Said):
            before = found.setdefault((said.purpose, said.person), said)
            if before.agreed != said.agreed:
                bad.append(f"{place}: the same person says yes and no to {quoted(said.purpose)}")
        else:
            bad.append(f"{place}: {said}")
    if bad:
        more = f"; and {len(bad) - _LISTED} more" if len(bad) > _LISTED else ""
        raise ParameterError(
            "consent_lines_bad",
            f"{len(bad)} line{'s' * (len(bad) > 1)} cannot be taken, so nothing was changed: "
            f"{'; '.join(islice(bad, _LISTED))}{more}. Mend them and import it again.",
        )
    return list(found.values())


def _said(cells: Sequence[str], purposes: Sequence[str], kind: Kind, today: str) -> Said | str:
    """What one line says, or what is wrong with it; people are never quoted."""
    if not cells:
        return f"it must have {len(COLUMNS) - 1} values, or {len(COLUMNS)} with a time"
    person, purpose, answer, *times = cells
    if fault := fault_of(person, kind):
        return fault
    if purpose not in purposes:
        return f"there is no purpose {quoted(purpose)}; {suggestion(purpose, purposes)}".rstrip(".")
    if answer not in ANSWERS:
        return f"the answer must be yes or no, not {quoted(answer)}"
    if not times or not times[0]:
        return Said(purpose, person, ANSWERS[answer], today)
    time = moment(times[0])
    if time is None or time > today:
        return "the time must be one such as 2026-03-01 or 2026-03-01T09:30:00Z, and not to come"
    return Said(purpose, person, ANSWERS[answer], time, dated=True)


def moment(text: str) -> str | None:
    """A time as it is written beside a change, or None for what is none; without a zone, UTC."""
    try:
        found = datetime.fromisoformat(text)
        return (
            found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC).isoformat(timespec="seconds")
        )
    except (ValueError, OverflowError):
        return None
