"""Releases as bytes: the form in which the ledger stores charged answers.

A line of JSON has the metadata of the release and the length of each table. The tables follow as
Arrow streams, so large ones are neither converted to text nor copied.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.errors import LedgerError
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

# Raised when stored answers change their form; older ones are refused, not guessed.
_FORMAT = 2


def to_bytes(release: Release) -> bytes:
    """Encode a release with all its tables."""
    # Arrow streams keep types that JSON has not: dates, 64-bit integers, missing values.
    packed = {name: _packed(table) for name, table in release.tables.items()}
    described = {
        "format": _FORMAT,
        "tables": [[name, len(stream)] for name, stream in packed.items()],
        "guarantee": asdict(release.guarantee),
        "provenance": asdict(release.provenance),
        "error": release.error,
        "receipt": release.receipt,
    }
    # Sorted keys: the ledger compares digests, so equal releases must give equal bytes.
    line = dumps(described, ensure_ascii=False, sort_keys=True).encode()
    return b"".join([line, b"\n", *packed.values()])


def from_bytes(stored: bytes) -> Release:
    """Decode what `to_bytes` wrote; the ledger has checked that the bytes are unchanged."""
    try:
        end = stored.index(b"\n")
        # JSON writes no raw line feed, so the first one ends the metadata.
        described = json.loads(stored[:end])
        return Release(
            dict(_unpacked(described["tables"], memoryview(stored)[end + 1 :])),
            Guarantee(**described["guarantee"]),
            Provenance(**described["provenance"]),
            described["error"],
            described["receipt"],
        )
    except (ValueError, KeyError, TypeError, RecursionError, pa.ArrowException) as error:
        raise unreadable_answer(error) from None


def unreadable_answer(error: Exception) -> LedgerError:
    """Return the error for a stored answer that this version cannot read."""
    return LedgerError(
        "answer_unreadable",
        "The stored answer cannot be read: this version did not write it. The charge stays spent. "
        "Read it with the version that wrote it, or let the operator look for the cause.",
        detail=f"{type(error).__name__}: {error}",
    )


def _packed(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _unpacked(tables: list[tuple[str, int]], streams: memoryview) -> Iterator[tuple[str, pa.Table]]:
    for name, length in tables:
        with pa.ipc.open_stream(streams[:length]) as stream:
            yield name, stream.read_all()
        streams = streams[length:]
