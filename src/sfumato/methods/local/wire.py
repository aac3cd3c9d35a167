"""One report as it travels in JSON, readable by whoever looks at what leaves their device.

A report of one code is that whole number; one of bits alone is a text of 0 and 1; any other is an
object with its codes by name and its bits. What is not exactly that is no report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.local.reports import ReportLayout

BITS = "bits"


def to_wire(layout: ReportLayout, row: Any) -> object:
    """A row of reports as JSON takes it."""
    codes = {code.name: int(row[code.name]) for code in layout.codes}
    if not layout.width:
        return next(iter(codes.values())) if len(codes) == 1 else codes
    bits = np.unpackbits(row["bits"], count=layout.width, bitorder="little")
    text = "".join(map(str, bits.tolist()))
    return {**codes, BITS: text} if codes else text


def from_wire(layout: ReportLayout, report: object) -> NDArray[Any] | str:
    """The row of a report, or in one word why it is none."""
    fields = _fields(layout, report)
    if fields is None:
        return "malformed"
    row = layout.empty(1)
    for code in layout.codes:
        value = fields[code.name]
        if type(value) is not int:
            return "malformed"
        if not 0 <= value < code.limit:
            return "outside_domain"
        row[code.name] = value
    if layout.width:
        text = fields[BITS]
        if not isinstance(text, str) or set(text) - {"0", "1"}:
            return "malformed"
        if len(text) != layout.width:
            return "outside_domain"
        bits = np.frombuffer(text.encode("ascii"), dtype=np.uint8) - ord("0")
        row["bits"] = np.packbits(bits, bitorder="little")
    return row


def _fields(layout: ReportLayout, report: object) -> dict[str, object] | None:
    names = [code.name for code in layout.codes] + ([BITS] if layout.width else [])
    if len(names) == 1:
        return {names[0]: report}
    if isinstance(report, dict) and set(report) == set(names):
        return report
    return None
