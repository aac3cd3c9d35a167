"""Batch files: reports of devices that reach the collector later, by any channel.

A batch is a text file of JSON lines. The first names its round; every other is a report with its
ticket, as a device would send it. An invalid line is rejected alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO

from sfumato.errors import SourceError
from sfumato.filesystem import whole
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FORMAT = "sfumato batch 1"
_LONGEST_LINE = 1 << 16


def write_batch(
    path: Path, round_id: str, items: Sequence[dict[str, Any]], *, overwrite: bool
) -> None:
    """Write a batch file atomically."""
    with whole(path, overwrite=overwrite) as temporary, temporary.open("w", encoding="ascii") as to:
        to.write(dumps({"batch": FORMAT, "round": round_id}) + "\n")
        to.writelines(dumps(item) + "\n" for item in items)


def read_batch(path: Path, round_id: str) -> Iterator[object]:
    """Read the items of a batch file; an invalid line gives None."""
    try:
        with path.open("rb") as lines:
            _check_first(path, lines.readline(_LONGEST_LINE), round_id)
            while line := lines.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                    _pass_over(lines)
                    yield None
                elif line.strip():
                    yield _item(line)
    except OSError as error:
        raise SourceError(
            "file_malformed", f"The batch '{path}' cannot be read: {error.strerror}."
        ) from None


def _pass_over(lines: BinaryIO) -> None:
    """Skip the rest of a line that is too long for a report: it counts as one invalid item."""
    while (remainder := lines.readline(_LONGEST_LINE)) and not remainder.endswith(b"\n"):
        pass


def _check_first(path: Path, line: bytes, round_id: str) -> None:
    first = _item(line)
    if not isinstance(first, dict) or first.get("batch") != FORMAT:
        raise SourceError(
            "file_malformed",
            f"'{path}' is no batch of reports: its first line lacks '{FORMAT}'. Write one "
            "with sf.Survey(...).randomize(answers).save(path).",
        )
    if first.get("round") != round_id:
        raise SourceError(
            "round_differs",
            f"'{path}' belongs to another round than {round_id}: none of its reports count. "
            "Collect it with its own round.",
        )


def _item(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
