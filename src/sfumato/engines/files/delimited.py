"""Arrow batches as lines of CSV, built column-wise: a missing cell is empty, empty text is ""."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.kinds import is_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.engines.files.cells import Cells

_NEEDS_QUOTES = '[",;\\t\\r\\n]|^$'

_FORMULA = "^'*[=+\\-@\\t\\r]"
"""Spreadsheets run a cell that starts so; a leading apostrophe makes it text.

Cells that have apostrophes there already get one more, so that it can be taken away again.
"""
_GUARDED = "^'+[=+\\-@\\t\\r]"


def header_line(names: Sequence[str]) -> bytes:
    """Write the header."""
    quoted = _quoted(pa.array(names, pa.large_string()))
    return (",".join(quoted.to_pylist()) + "\n").encode()


def lines(batch: pa.RecordBatch) -> bytes:
    """Write the rows of a batch."""
    rows = _joined(*map(_text, batch.columns), separator=",")
    ended = _joined(rows, "\n")
    # The strings of an Arrow array lie one after the other: together they are the file.
    _, offsets, data = ended.buffers()
    size = int(np.frombuffer(offsets, np.int64)[len(ended)]) if len(ended) else 0
    return bytes(data.slice(0, size)) if size else b""


def unguarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Text as it was before it was written: without the apostrophe that guards spreadsheets."""
    columns = []
    for cells in batch.columns:
        guarded = pc.match_substring_regex(cells, _GUARDED)
        bare = pc.utf8_slice_codeunits(cells, 1) if _any(guarded) else cells
        columns.append(pc.if_else(guarded, bare, cells))
    return pa.record_batch(columns, schema=batch.schema)


def _text(cells: Cells) -> Cells:
    """Turn a column into text as it stands in the file; only text can need quotes."""
    text = pc.cast(cells, pa.large_string())
    if not is_text(cells.type):
        return text
    risky = pc.match_substring_regex(text, _FORMULA)
    return _quoted(pc.if_else(risky, _joined("'", text), text) if _any(risky) else text)


def _quoted(text: Cells) -> Cells:
    """Put quotes around the cells that need them."""
    needed = pc.match_substring_regex(text, _NEEDS_QUOTES)
    if not _any(needed):
        return text
    quoted = _joined('"', pc.replace_substring(text, '"', '""'), '"')
    return pc.if_else(needed, quoted, text)


def _any(checks: Cells) -> bool:
    return pc.any(checks).as_py() is True


def _joined(*parts: Cells | str, separator: str = "") -> Cells:
    """Join text row by row; a missing part is empty."""
    large = [
        pa.scalar(part, pa.large_string()) if isinstance(part, str) else part
        for part in (*parts, separator)
    ]
    return pc.binary_join_element_wise(*large, null_handling="replace", null_replacement="")
