"""A table of a saved release, read as its side-car tells."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.data.engines.kinds import stored_schema
from sfumato.data.engines.sources import open_file
from sfumato.data.files.column_spelling import marked
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.spelling import spelling_of
from sfumato.release.sidecar import layout_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.release.sidecar import Json


def saved_table(folder: Path, told: Mapping[str, Json]) -> pa.Table:
    """Read a table of a release as its side-car tells that it was written."""
    import pyarrow as pa
    from pyarrow import parquet

    path = folder / Path(told["file"]).name
    kinds = {name: Kind(kind) for name, kind in told["columns"].items()}
    spelled = {
        name: Column(name, kinds[name], spelling=spelling_of(kinds[name], keys))
        for name, keys in told.get("written", {}).items()
    }
    spellings = {name: one.spelling for name, one in spelled.items() if one.spelling is not None}
    if told.get("parts"):  # an engine wrote them, which knows no spellings
        parts = [parquet.read_table(folder / Path(name).name) for name in told["parts"]]
        rows = pa.concat_tables(parts)
        return rows.cast(marked(rows.schema, spellings))
    if path.name.lower().endswith(".parquet"):
        return parquet.read_table(path)
    with closing(open_file(path, layout_of(told), declared=kinds, ours=True)) as file:
        rows = pa.Table.from_batches(file.read({**kinds, **spelled}), stored_schema(kinds))
    return rows.cast(marked(rows.schema, spellings))
