"""What a collector keeps: whole-number sums over reports. The sum of two is that of all reports."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import SourceError
from sfumato.methods.local.reports import MAGIC
from sfumato.methods.local.reports import check_same, header, read_header
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from sfumato.arrays import IntArray

_SKETCH_MAGIC = b"sfumato sketch 2 "
_DIGEST_BYTES = 16
_MOST = 1 << 62
"""So many reports no sketch has: sums of 64 bits would wrap."""


@dataclass(frozen=True, eq=False, repr=False)
class ReportSketch(Shown):
    """Sums over `n` reports of one mechanism; `rejected` others could not be reports of it."""

    made_by: dict[str, Any]
    n: int
    rejected: int
    tally: IntArray

    def __add__(self, other: ReportSketch) -> ReportSketch:
        """The sketch of the reports of both."""
        if not isinstance(other, ReportSketch):
            return NotImplemented
        check_same(self.made_by, other.made_by, "Sketches")
        if self.tally.shape != other.tally.shape:
            raise unreadable()
        if self.n + other.n >= _MOST or self.rejected + other.rejected >= _MOST:
            raise unreadable("These sketches have more reports together than can be: 2^62.")
        return ReportSketch(
            self.made_by,
            self.n + other.n,
            self.rejected + other.rejected,
            self.tally + other.tally,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportSketch) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # a sketch is compared, never a key

    def to_bytes(self) -> bytes:
        """As bytes, to be kept or sent to who merges."""
        counts = np.array([self.n, self.rejected, *self.tally.shape], dtype="<i8")
        fields = {"dimensions": self.tally.ndim, "made_by": self.made_by}
        first_line = header(fields).replace(MAGIC, _SKETCH_MAGIC, 1)
        content = first_line + counts.tobytes() + self.tally.astype("<i8").tobytes()
        return content + _digest(content)

    @classmethod
    def from_bytes(cls, data: bytes) -> ReportSketch:
        """Read what `to_bytes` wrote."""
        arguments.require(data, "data", bytes, "the bytes of a sketch")
        if not data.startswith(_SKETCH_MAGIC) or _digest(data[:-_DIGEST_BYTES]) != data[-_DIGEST_BYTES:]:
            raise unreadable()
        data = data[:-_DIGEST_BYTES]
        fields, start = read_header(MAGIC + data[len(_SKETCH_MAGIC) :])
        start += len(_SKETCH_MAGIC) - len(MAGIC)
        if len(data) % 8 != start % 8 or "made_by" not in fields:
            raise unreadable()
        numbers = np.frombuffer(data, dtype="<i8", offset=start).astype(np.int64)
        dimensions = fields.get("dimensions")
        if not isinstance(dimensions, int) or not 0 < dimensions <= len(numbers) - 2:
            raise unreadable()
        n, rejected, *shape = numbers[: 2 + dimensions].tolist()
        tally = numbers[2 + dimensions :]
        if not 0 <= min(n, rejected, *shape) <= max(n, rejected) < _MOST or len(tally) != prod(
            shape
        ):
            raise unreadable()
        return cls(fields["made_by"], n, rejected, tally.reshape(shape))

    def _card(self) -> Card:
        turned = f", {self.rejected:,} rejected" if self.rejected else ""
        line = f"{self.n:,} reports by {self.made_by['mechanism']}{turned}"
        return Card(line, {"reports": self.n, "rejected": self.rejected})


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_DIGEST_BYTES]


def unreadable(why: str = "This is no sketch, a part of one, or a damaged one.") -> SourceError:
    """What is said of bytes or sums that no sketch has."""
    return SourceError(
        "file_malformed", f"{why} Give what `to_bytes` of a sketch wrote, whole and as it was."
    )
