"""Points of paths out of any engine, bounded by person where the data lies.

Of a person with more rows than the unit allows, paths are kept whole as far as rows last: in the
order of a keyed hash of the path, and within a path in order of time. What is kept is a function of
that person's own rows and of a secret salt that is drawn for each release. Rows without a person,
a path, a time or a place are left out. Decision 0395.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.counting.contribution import PERSON
from sfumato.counting.hashing import Keyed
from sfumato.trajectory.paths import Paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.units import Unit
    from sfumato.publish.forms import FormRows
    from sfumato.schema.forms import Points

_NAMES = ("sf_path", "sf_time", "sf_x", "sf_y")
_WRITTEN = (
    "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d",
)  # fmt: skip


def read_paths(rows: FormRows, form: Points) -> Paths:
    """The paths of a data set, of no person more rows than the unit allows."""
    data = rows.data
    table = data.engine.stream(kept_rows(data.table, form, data.unit, rows.salt)).read_all()
    person, path = (numbered(table.column(name)) for name in (PERSON, "sf_path"))
    time = moments(table.column("sf_time"))
    x, y = (
        table.column(name).cast(pa.float64()).to_numpy().astype(np.float64)
        for name in ("sf_x", "sf_y")
    )
    whole = np.isfinite(time) & np.isfinite(x) & np.isfinite(y)
    return Paths.of(*(one[whole] for one in (person, path, time, x, y)))


def kept_rows(table: exp.Table, form: Points, unit: Unit, salt: str) -> exp.Select:
    """Person, path, time and place of everybody's first rows, as many as the unit allows."""
    [person] = unit.columns
    named = zip((person, form.path, form.time, form.x, form.y), (PERSON, *_NAMES), strict=True)
    columns = [exp.alias_(exp.column(one, quoted=True), name) for one, name in named]
    present = [exp.column(name).is_(exp.Null()).not_() for name in (PERSON, *_NAMES)]
    rows = exp.select(*columns).from_(table.copy())
    owned = exp.select(exp.Star()).from_(rows.subquery("sf_all")).where(*present)
    order = [Keyed(salt).order([PERSON, "sf_path"]), *map(exp.column, _NAMES)]
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(PERSON)],
        order=exp.Order(expressions=[exp.Ordered(this=one, nulls_first=False) for one in order]),
    )
    ranked = exp.select(exp.Star(), exp.alias_(place, "sf_place")).from_(owned.subquery("sf_owned"))
    return (
        exp.select(*map(exp.column, (PERSON, *_NAMES)))
        .from_(ranked.subquery("sf_ranked"))
        .where(exp.column("sf_place") <= exp.convert(unit.max_rows))
    )


def moments(values: pa.ChunkedArray) -> NDArray[np.float64]:
    """Times as seconds since 1970, or as the numbers they are; NaN where one cannot be read."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Fractions of a second and a Z behind a moment are not told apart.
        plain = pc.replace_substring_regex(values.cast(pa.string()), r"(\.\d+)?Z?$", "")
        read = [pc.strptime(plain, one, unit="s", error_is_null=True) for one in _WRITTEN]
        seconds = pc.coalesce(*read).cast(pa.int64())
    elif pa.types.is_temporal(kind):
        seconds = values.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    else:
        seconds = values
    return np.asarray(seconds.cast(pa.float64()).to_numpy(), dtype=np.float64)


def numbered(values: pa.ChunkedArray) -> NDArray[np.int64]:
    """Values as numbers, in their order."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(pc.rank(values, tiebreaker="dense"), dtype=np.int64)
