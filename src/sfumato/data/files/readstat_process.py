"""A separate process that reads a file of SPSS, Stata or SAS.

The library for these formats is written in C, and a damaged file can crash its process. So this
module runs as a program: it takes a task as JSON and prints one JSON object. It imports nothing of
Sfumato. Decision `reading-files`.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    """Read the file of the task."""
    task = json.loads(sys.argv[1])
    json.dump(answer(**task), sys.stdout, allow_nan=True)


def answer(path: str, reader: str, encoding: str | None, most_bytes: int) -> dict[str, Any]:
    """The columns, formats and labels of the file; only `too_large` where it exceeds the limit."""
    import pyreadstat

    read = getattr(pyreadstat, reader)
    options = {"output_format": "dict", "disable_datetime_conversion": True, "encoding": encoding}
    _, about = read(path, metadataonly=True, **options)
    width = sum((about.variable_storage_width or {}).values())
    most = most_bytes // max(width, 1)
    if (about.number_rows or 0) > most:
        return {"too_large": True}
    cells, about = read(path, row_limit=most + 1, **options)
    if any(len(column) > most for column in cells.values()):
        return {"too_large": True}
    return {
        "columns": {name: list(column) for name, column in cells.items()},
        "formats": {name: form or "" for name, form in about.original_variable_types.items()},
        "labels": {
            name: list(labels.items()) for name, labels in about.variable_value_labels.items()
        },
    }


if __name__ == "__main__":
    main()
