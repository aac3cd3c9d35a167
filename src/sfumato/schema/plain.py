"""Reading plain public text files, schemas and hierarchies, within limits."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

_MEBIBYTE = 1024 * 1024


def read_text(path: Path, *, what: str, most_mebibytes: int) -> str:
    """Read a UTF-8 file of limited size; `what` names it in errors."""
    data = _read_bytes(path, what, most_mebibytes)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SchemaError(
            "encoding_wrong", f"{what} '{path}' is UTF-16; save it as UTF-8 and try again."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SchemaError(
            "encoding_wrong",
            f"{what} '{path}' is not UTF-8: line {line}, byte {error.start} of the file is "
            f"0x{data[error.start]:02x}. Save it as UTF-8 and try again.",
        ) from None


def _read_bytes(path: Path, what: str, most_mebibytes: int) -> bytes:
    try:
        # A pipe or a device could block or never end, so look before opening.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SchemaError("file_not_regular", f"{what} '{path}' is not an ordinary file.")
        with path.open("rb") as stream:
            data = stream.read(most_mebibytes * _MEBIBYTE + 1)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "the system refused"
        raise SchemaError("file_unreadable", f"{what} '{path}' cannot be read: {reason}.") from None
    except ValueError:
        raise SchemaError("file_unreadable", f"{what} has a path that no file can have.") from None
    if len(data) > most_mebibytes * _MEBIBYTE:
        raise SchemaError("file_too_large", f"{what} '{path}' is larger than {most_mebibytes} MiB.")
    return data
