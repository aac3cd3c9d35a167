"""A table that came with a form: kept for its owner's eyes alone, once it is what it says.

Nothing of the name that a browser gives becomes a path. What would unfold into more than a server
can hold is refused by what its own index says, before a row is read: packed files, and Parquet of
too many rows, columns or bytes. Decision `console`.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO, TYPE_CHECKING

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 256 * 1024**2
"""The largest file that is taken; larger ones are added from the server's folder for data."""
MOST_COLUMNS = 1000
_MOST_ROWS = 100_000_000
_MOST_UNFOLDED = 16 * MOST_BYTES
_LONGEST_HEADER = 1024**2
_BLOCK = 1024**2
ENDINGS = (".csv", ".tsv", ".parquet")
_PACKED = (
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"\x28\xb5\x2f\xfd",
    b"BZh",
    b"\xfd7zXZ",
    b"\x04\x22\x4d\x18",
)
_PARQUET = b"PAR1"


def suggested_name(file_name: str) -> str:
    """What a data set could be called whose file had this name: a letter, then plain signs."""
    stem = PurePosixPath(PureWindowsPath(file_name).name).stem
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_-")
    return re.sub(r"^[^A-Za-z]+", "", plain)[:63] or "table"


def keep_upload(file: IO[bytes], file_name: str, folder: Path) -> Path:
    """Write an uploaded table into a folder, under a name of ours; refused if it is none."""
    ending = PurePosixPath(file_name.lower()).suffix
    if ending not in ENDINGS:
        raise ParameterError(
            "upload_invalid",
            f"Only files that end in {', '.join(ENDINGS)} are taken, as they are and not packed. "
            "Save the table as one of these.",
        )
    place = folder / f"table{ending}"
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as kept:
        _copy(file, kept)
    if ending == ".parquet":
        _check_parquet(place)
    else:
        _check_text(place)
    return place


def _copy(file: IO[bytes], kept: IO[bytes]) -> None:
    taken = 0
    while block := file.read(_BLOCK):
        taken += len(block)
        if taken > MOST_BYTES:
            raise ParameterError(
                "request_too_large",
                f"A file of at most {MOST_BYTES:,} bytes can be sent. Put a larger one into "
                "the server's folder of data and add it from there.",
            )
        kept.write(block)
    if not taken:
        raise ParameterError("upload_invalid", "The file is empty. Choose one that has a table.")


def _check_text(place: Path) -> None:
    with place.open("rb") as stream:
        header = stream.readline(_LONGEST_HEADER)
    if header.startswith((*_PACKED, _PARQUET)):
        raise ParameterError(
            "upload_invalid",
            "The file is packed, or of another kind than its name says. Send it unpacked, under a "
            "name that ends as what it is.",
        )
    most = max(header.count(sign) for sign in (b",", b";", b"\t", b"|"))
    if most >= MOST_COLUMNS or len(header) == _LONGEST_HEADER:
        raise _too_wide()


def _check_parquet(place: Path) -> None:
    """Compare what the file's own index says of it with what a server can hold."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        index = pq.read_metadata(place)
    except (pa.ArrowException, OSError, MemoryError):
        raise ParameterError(
            "upload_invalid",
            "The file is no Parquet, or a broken one. Save it again and send that.",
        ) from None
    if index.num_columns > MOST_COLUMNS:
        raise _too_wide()
    groups = (index.row_group(place) for place in range(index.num_row_groups))
    unfolded = sum(group.total_byte_size for group in groups)
    if index.num_rows > _MOST_ROWS or not 0 <= unfolded <= _MOST_UNFOLDED:
        raise ParameterError(
            "upload_invalid",
            f"The file says that it unfolds to {index.num_rows:,} rows and {unfolded:,} bytes; "
            f"at most {_MOST_ROWS:,} rows and {_MOST_UNFOLDED:,} bytes are taken. Send a part of "
            "it, or add it from the server's folder for data.",
        )


def _too_wide() -> ParameterError:
    return ParameterError(
        "upload_invalid",
        f"The table has more than {MOST_COLUMNS:,} columns. Send those that matter.",
    )
