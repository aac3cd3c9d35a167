"""Releases as bytes, in which form the ledger keeps answers that were paid for.

A line of JSON says what the release is and how long each of its tables is; the tables follow it as
Arrow streams, so that large ones are neither spelled out nor copied.
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

_FORMAT = 2


def to_bytes(release: Release) -> bytes:
    """Write a release down, tables and all."""
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
    line = dumps(described, ensure_ascii=False, sort_keys=True).encode()
    return b"".join([line, b"\n", *packed.values()])


def from_bytes(stored: bytes) -> Release:
    """Read what `to_bytes` wrote; the ledger has checked that it is the same."""
    try:
        end = stored.index(b"\n")
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
    """Say that an answer in store is not what this version would have stored."""
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
