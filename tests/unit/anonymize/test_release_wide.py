"""Tables of very many quasi-identifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.engines.base import render, translating_errors
from sfumato.data.engines.duckdb import translate
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.schema_file import load
from sfumato.errors import InternalError
from sfumato.release.open_table import read
from sfumato.release.recoding import ByColumn, ColumnMap

if TYPE_CHECKING:
    from pathlib import Path

WIDE = 200
NAMES = [f"c{place}" for place in range(WIDE)]


def test_a_recoding_nests_no_deeper_for_more_columns() -> None:
    values, labels = pa.array([0, 1]), pa.array(["zero", "one"])
    maps = tuple(ColumnMap(name, values, labels, values) for name in NAMES)
    gone = pa.table({name: [1] for name in NAMES})
    engine = open_source(pa.table({name: [0, 1] for name in NAMES}))
    depths = []
    for width in (2, WIDE):
        recoding = ByColumn(maps[:width], gone.select(range(width)))
        with recoding.released(engine, engine.table) as query:
            depths.append(_depth(render(query, "duckdb")))
    engine.close()
    assert depths[0] == depths[1]


def _depth(words: str) -> int:
    """How deep parentheses go."""
    depth = deepest = 0
    for letter in words:
        depth += (letter == "(") - (letter == ")")
        deepest = max(deepest, depth)
    return deepest


@translating_errors(translate)
def _endless() -> None:
    _more()


def _more() -> None:
    _more()


def test_our_own_depth_is_no_failure_of_the_engine() -> None:
    with pytest.raises(InternalError) as failure:
        _endless()
    assert failure.value.code == "statement_too_deep"


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["datafly", "mondrian"])
def test_very_many_quasi_identifiers(tmp_path: Path, algorithm: str) -> None:
    declared = 'role = "quasi"\nkind = "integer"\nhierarchy = { widths = [10, 100] }\n'
    path = tmp_path / "wide.toml"
    path.write_text('table = "p"\n' + "".join(f"[columns.{name}]\n{declared}" for name in NAMES))
    rows = {name: [place * row % 97 for row in range(50)] for place, name in enumerate(NAMES)}
    table = read(pa.table(rows), load(path))
    release = table.anonymize(sf.KAnonymity(2), algorithm=algorithm, limit_seconds=3)
    assert release.table.num_rows == 50
