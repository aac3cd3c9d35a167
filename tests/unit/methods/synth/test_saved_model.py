"""What is stored of a synthesis is read as it was written; any other table is refused."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.methods.synth.test_measurement_log import noisy_log

from sfumato.errors import SfumatoError, SourceError
from sfumato.methods.synth.junction_tree import fit_junction
from sfumato.methods.synth.saved_model import from_content, packed, to_file, unpacked
from sfumato.methods.synth.synthesis_model import SynthesisModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = noisy_log(5)
MODEL = fit_junction(LOG)
PACKED = packed(MODEL, LOG, {"more": [1]})
NAN = float("nan")


def test_logs_and_models_survive_a_file() -> None:
    loaded, again, told = unpacked(from_content(to_file(PACKED)))
    assert told == {"more": [1]}
    assert again.shape == LOG.shape
    for one, other in zip(LOG.tables, again.tables, strict=True):
        assert (one.columns, one.variance, one.event) == (
            other.columns,
            other.variance,
            other.event,
        )
        assert (one.counts == other.counts).all()
    assert (loaded.shape, loaded.total) == (MODEL.shape, MODEL.total)
    assert (loaded.counts((0, 1, 2)) == MODEL.counts((0, 1, 2))).all()


def with_header(**changed: Any) -> pa.Table:
    header = json.loads(PACKED.schema.metadata[b"sfumato"])
    return PACKED.replace_schema_metadata({b"sfumato": json.dumps(header | changed).encode()})


def with_cell(name: str, row: int, change: Callable[[Any], Any]) -> pa.Table:
    column = PACKED.column(name)
    cells = column.to_pylist()
    cells[row] = change(cells[row])
    changed = pa.array(cells, column.type)
    return PACKED.set_column(PACKED.column_names.index(name), name, changed)


def out_of_bounds() -> pa.Table:
    """Lists whose ends lie far behind what they are of."""
    many = PACKED.num_rows
    ends = pa.array(np.arange(many + 1) << 40)
    buffers = [None, ends.buffers()[1]]
    lists = pa.Array.from_buffers(
        pa.large_list(pa.float64()), many, buffers, children=[pa.array([0.5])]
    )
    return PACKED.set_column(2, "cells", lists)


HOSTILE = {
    "another version": lambda: with_header(version=2),
    "no header": lambda: PACKED.replace_schema_metadata(None),
    "a deep header": lambda: PACKED.replace_schema_metadata({b"sfumato": b"[" * 100_000}),
    "columns missing": lambda: PACKED.slice(1),
    "no noisy tables": lambda: PACKED.slice(0, 3),
    "a huge shape": lambda: with_header(sizes=[2**40, 2**40, 2**40]),
    "a size below one": lambda: with_header(sizes=[2, 3, 0]),
    "sizes that are no numbers": lambda: with_header(sizes=["2", 3, True]),
    "one name twice": lambda: with_header(columns=["a", "b", "a"]),
    "more rows than there are numbers": lambda: with_header(total=1e300),
    "a number of rows that is none": lambda: with_header(total=NAN),
    "places that are none": lambda: with_cell("places", 0, lambda _: [-1]),
    "a place twice": lambda: with_cell("places", -1, lambda _: [0, 0]),
    "no places": lambda: with_cell("places", 0, lambda _: None),
    "probabilities of NaN": lambda: with_cell("cells", 0, lambda one: [NAN] * len(one)),
    "negative ones": lambda: with_cell("cells", 0, lambda one: [1.5, -0.5, *one[2:]]),
    "wrong sums": lambda: with_cell("cells", 0, lambda one: [2 * part for part in one]),
    "nothing to draw": lambda: with_cell("cells", 0, lambda one: [0.0] * len(one)),
    "counts without an end": lambda: with_cell("cells", -1, lambda one: [1e309] * len(one)),
    "too few cells": lambda: with_cell("cells", 0, lambda one: one[1:]),
    "cells that are missing": lambda: with_cell("cells", 0, lambda one: [None] * len(one)),
    "no noise": lambda: with_cell("variance", -1, lambda _: 0.0),
    "no event": lambda: with_cell("event", -1, lambda _: "{}"),
    "ends elsewhere": out_of_bounds,
    "rows of nothing": lambda: PACKED.set_column(0, "part", pa.nulls(PACKED.num_rows)),
}


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE)
def test_hostile_tables_are_refused(made: Callable[[], pa.Table]) -> None:
    unlike = (SfumatoError, ValueError, KeyError, TypeError, RecursionError, pa.ArrowException)
    with pytest.raises(unlike):
        unpacked(made())


def test_no_flipped_bit_of_a_file_is_overlooked() -> None:
    content = to_file(PACKED)
    assert from_content(content).equals(PACKED)
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        with pytest.raises((ValueError, OSError, pa.ArrowException)):
            from_content(bytes(damaged))


def test_a_file_without_a_checksum_is_refused() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, PACKED.schema) as writer:
        writer.write_table(PACKED)
    with pytest.raises(ValueError, match="not what a synthesis writes"):
        from_content(bytes(sink.getvalue()))


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_what_is_larger_than_its_file_is_refused_before_it_is_unpacked(compression: str) -> None:
    """With a checksum as it should be: whoever means harm writes one."""
    zeros = pa.array([np.zeros(1 << 22)], pa.large_list(pa.float64()))
    place, none = b"7" * 64, b"0" * 64
    schema = pa.schema({"cells": zeros.type}, {b"sfumato sha256": place})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_table(pa.table([zeros], schema=schema))
    content = bytes(sink.getvalue())
    content = content.replace(place, sha256(content.replace(place, none)).hexdigest().encode())
    assert len(content) < 1 << 18
    with pytest.raises(ValueError, match="not what a synthesis writes"):
        from_content(content)


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, tmp_path / "none"):
        with pytest.raises(SourceError) as refused:
            SynthesisModel.load(place)
        assert refused.value.code == "file_malformed"
