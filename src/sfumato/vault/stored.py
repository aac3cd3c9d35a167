"""Releases as bytes, in which form the ledger keeps answers that were paid for."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import asdict
from io import BytesIO

import pyarrow as pa

from sfumato.release import Guarantee, Provenance, Release

_FORMAT = 1


def to_bytes(release: Release) -> bytes:
    """Write a release down, tables and all."""
    described = {
        "format": _FORMAT,
        "tables": {name: _packed(table) for name, table in release.tables.items()},
        "guarantee": asdict(release.guarantee),
        "provenance": asdict(release.provenance),
        "error": release.error,
        "receipt": release.receipt,
    }
    return json.dumps(described, ensure_ascii=False, sort_keys=True).encode()


def from_bytes(stored: bytes) -> Release:
    """Read what `to_bytes` wrote; the ledger has checked that it is the same."""
    described = json.loads(stored)
    return Release(
        {name: _unpacked(packed) for name, packed in described["tables"].items()},
        Guarantee(**described["guarantee"]),
        Provenance(**described["provenance"]),
        described["error"],
        described["receipt"],
    )


def _packed(table: pa.Table) -> str:
    buffer = BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as stream:
        stream.write_table(table)
    return b64encode(buffer.getvalue()).decode("ascii")


def _unpacked(packed: str) -> pa.Table:
    with pa.ipc.open_stream(b64decode(packed)) as stream:
        return stream.read_all()
