"""A fitted model and the log behind it as one Arrow table, with a header in JSON.

Rows are the conditionals in the order of drawing, then the noisy tables in the order of measuring.
Nothing of the data is in it.
"""

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
    from collections.abc import Mapping
    from pathlib import Path

_KEY = b"sfumato"
_VERSION = 1
_CONDITIONAL, _MEASURED = "conditional", "measured"


def packed(model: FittedModel, log: MeasurementLog, told: Mapping[str, Any]) -> pa.Table:
    """A model and its log as a table; `told` is whatever else is needed to draw from it."""
    shape, drawn, measured = model.shape, model.conditionals, log.tables
    header = {
        "version": _VERSION,
        "columns": shape.names,
        "sizes": shape.sizes,
        "total": model.total,
        "told": told,
    }
    places = [*((*one.parents, one.column) for one in drawn), *(one.places for one in measured)]
    cells = [*(one.table for one in drawn), *(one.counts for one in measured)]
    no_noise: list[None] = [None] * len(drawn)
    return pa.table(
        {
            "part": [_CONDITIONAL] * len(drawn) + [_MEASURED] * len(measured),
            "places": pa.array(places, pa.list_(pa.int32())),
            "cells": pa.array([one.ravel() for one in cells], pa.large_list(pa.float64())),
            "variance": pa.array([*no_noise, *(one.variance for one in measured)], pa.float64()),
            "event": pa.array(
                [*no_noise, *(dumps(events.to_record(one.event)) for one in measured)], pa.string()
            ),
        }
    ).replace_schema_metadata({_KEY: dumps(header).encode()})


def unpacked(table: pa.Table) -> tuple[FittedModel, MeasurementLog, dict[str, Any]]:
    """The model, the log and what else was told, as `packed` has them."""
    header = json.loads((table.schema.metadata or {})[_KEY])
    if header["version"] != _VERSION:
        raise ValueError("another version")
    shape = TableShape(tuple(header["columns"]), tuple(header["sizes"]))
    log, conditionals = MeasurementLog(shape), list[Conditional]()
    known: set[int] = set()
    for row in table.to_pylist():
        places = tuple(row["places"])
        cells = np.array(row["cells"], dtype=float).reshape(shape.of_set(places))
        if row["part"] == _MEASURED:
            event = events.from_record(json.loads(row["event"]))
            log.add(MeasuredTable(places, cells, row["variance"], event))
            continue
        *parents, column = places
        if not known.issuperset(parents) or column in known:
            raise ValueError("a column before its parents")
        known.add(column)
        conditionals.append(Conditional(column, tuple(parents), cells))
    if known != set(shape.columns):
        raise ValueError("a column is missing")
    return FittedModel(shape, tuple(conditionals), float(header["total"])), log, header["told"]


def write_packed(table: pa.Table, path: Path) -> None:
    """Write what `packed` made as an Arrow file."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_packed(path: Path) -> tuple[FittedModel, MeasurementLog, dict[str, Any]]:
    """Read what `write_packed` wrote."""
    try:
        with pa.OSFile(str(path), "rb") as source:
            return unpacked(pa.ipc.open_file(source).read_all())
    except (OSError, KeyError, ValueError, TypeError, IndexError):  # Arrow's are among these
        raise unreadable(path) from None


def unreadable(path: Path) -> SourceError:
    """Say that a file is no model."""
    return SourceError(
        "synthesis_unreadable",
        f"{path.name} is no model of a synthesis that this version can read. "
        "Give a file that it saved.",
    )
