"""Models and logs as files: Arrow, with a header in JSON. Nothing of the data is in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import SourceError
from sfumato.privacy import events
from sfumato.synth.log import MeasuredTable, MeasurementLog
from sfumato.synth.model import Conditional, FittedModel
from sfumato.synth.shape import TableShape
from sfumato.texts import dumps

if TYPE_CHECKING:
    from pathlib import Path

_KEY = b"sfumato"
_VERSION = 1


def save_model(model: FittedModel, path: Path) -> None:
    """Write a model: one row for every column, in the order in which they are drawn."""
    _write(
        path,
        {**_header("model", model.shape), "total": model.total},
        {
            "column": pa.array([one.column for one in model.conditionals], pa.int32()),
            "parents": pa.array([one.parents for one in model.conditionals], pa.list_(pa.int32())),
            "table": _flat([one.table for one in model.conditionals]),
        },
    )


def load_model(path: Path) -> FittedModel:
    """Read what `save_model` wrote."""
    header, shape, table = _read(path, "model")
    conditionals = []
    known: set[int] = set()
    for row in table.to_pylist():
        column, parents = row["column"], tuple(row["parents"])
        if not known.issuperset(parents) or column in known:
            raise _damaged(path)
        known.add(column)
        cells = np.array(row["table"]).reshape(shape.of_set((*parents, column)))
        conditionals.append(Conditional(column, parents, cells))
    return FittedModel(shape, tuple(conditionals), float(header["total"]))


def save_log(log: MeasurementLog, path: Path) -> None:
    """Write a log: one row for every noisy table, in the order of measuring."""
    _write(
        path,
        _header("log", log.shape),
        {
            "places": pa.array([one.places for one in log.tables], pa.list_(pa.int32())),
            "counts": _flat([one.counts for one in log.tables]),
            "variance": pa.array([one.variance for one in log.tables], pa.float64()),
            "event": pa.array([dumps(events.to_record(one.event)) for one in log.tables]),
        },
    )


def load_log(path: Path) -> MeasurementLog:
    """Read what `save_log` wrote."""
    _, shape, table = _read(path, "log")
    log = MeasurementLog(shape)
    for row in table.to_pylist():
        places = tuple(row["places"])
        counts = np.array(row["counts"]).reshape(shape.of_set(places))
        event = events.from_record(json.loads(row["event"]))
        log.add(MeasuredTable(places, counts, row["variance"], event))
    return log


def _header(kind: str, shape: TableShape) -> dict[str, Any]:
    return {"version": _VERSION, "kind": kind, "columns": shape.names, "sizes": shape.sizes}


def _flat(tables: list[np.ndarray[Any, Any]]) -> pa.Array:
    return pa.array([table.ravel() for table in tables], pa.large_list(pa.float64()))


def _write(path: Path, header: dict[str, Any], columns: dict[str, pa.Array]) -> None:
    table = pa.table(columns).replace_schema_metadata({_KEY: dumps(header).encode()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _read(path: Path, kind: str) -> tuple[dict[str, Any], TableShape, pa.Table]:
    try:
        with pa.OSFile(str(path), "rb") as source:
            table = pa.ipc.open_file(source).read_all()
        header = json.loads((table.schema.metadata or {})[_KEY])
    except (OSError, KeyError, ValueError):
        raise _damaged(path) from None
    if header.get("version") != _VERSION or header.get("kind") != kind:
        raise _damaged(path)
    return header, TableShape(tuple(header["columns"]), tuple(header["sizes"])), table


def _damaged(path: Path) -> SourceError:
    return SourceError(
        "synthesis_unreadable",
        f"{path.name} is no model or log of a synthesis that this version can read. "
        "Give a file that it saved.",
    )
