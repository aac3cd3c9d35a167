"""What is told of a decided release: its figures, and the classes in which all share a value.

Decision 0192.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.anonymize.cost import COSTS
from sfumato.errors import CriterionError
from sfumato.inspection.reidentification import attacker, reidentification
from sfumato.release.release import SAMPLE
from sfumato.schema.hierarchy.base import ROOT
from sfumato.schema.names import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.criteria import Criterion
    from sfumato.anonymize.outcome import Outcome
    from sfumato.counting.frequencies import Frequencies
    from sfumato.engines.files.output import Batches


class ReleaseFigures(TypedDict):
    """What was decided; `k` is None where it does not apply, as are people where rows are counted.

    `suppressed_people` are those who lose a row; `ended` says what cut the search off.
    """

    algorithm: str
    criteria: list[str]
    k: int | None
    rows: int
    released: int
    suppressed: int
    classes: int
    levels: dict[str, int] | None
    cost: dict[str, float | None]
    minimal: list[dict[str, int]] | None
    optimal: bool
    bound: float | None
    factor: float | None
    lattice: int | None
    checked: int | None
    people: int | None
    suppressed_people: int | None
    ended: str | None


def figures_of_outcome(outcome: Outcome) -> ReleaseFigures:
    """The figures of what a search decided."""
    found = {name: _plain(getattr(outcome, name)) for name in ReleaseFigures.__annotations__}
    if outcome.ended is not None:
        found["factor"] = _plain(outcome.excess)
    return cast("ReleaseFigures", found)


def figures_of_classes(algorithm: str, criteria: list[str], sizes: Counts) -> ReleaseFigures:
    """The figures of a release that generalizes and suppresses nothing."""
    rows = int(sizes.sum())
    found = {
        **dict.fromkeys(ReleaseFigures.__annotations__),
        "algorithm": algorithm,
        "criteria": criteria,
        "rows": rows,
        "released": rows,
        "suppressed": 0,
        "classes": len(sizes),
        "cost": costs_of_untouched(sizes),
        "optimal": False,
    }
    return cast("ReleaseFigures", found)


def costs_of_untouched(sizes: Counts, *, k: int = 1) -> dict[str, Any]:
    """The costs of a table of which no cell was changed, with classes of these sizes."""
    average = int(sizes.sum()) / len(sizes) / k
    of_sizes = {
        "discernability": int(sizes @ sizes),
        "average_class_size": average,
        "c_avg": average,
        "suppressed": 0,
    }
    names = (name.replace("-", "_") for name in COSTS)
    return {name: of_sizes.get(name, 0.0) for name in names}


class PlainWords(TypedDict):
    """What criteria mean to a person, and what they leave open."""

    promises: tuple[str, ...]
    limits: tuple[str, ...]


def in_plain_words(criteria: Sequence[Criterion], person: str | None) -> PlainWords:
    """What was asked, for people who do not know the field; `person` names whom rows are of."""
    counted = "rows" if person is None else "people"
    return PlainWords(
        promises=tuple(one.promise(counted) for one in criteria),
        limits=tuple(dict.fromkeys(one.leaves_open for one in criteria)),
    )


def risk_of(sizes: Counts) -> dict[str, float]:
    """How likely a right guess is of whose a row is, for whoever knows all quasi-identifiers."""
    return asdict(attacker(sizes, sizes))


def risk_before(counted: Frequencies, quasi: Sequence[str], person: str | None) -> dict[str, float]:
    """The same risk in the table as it was; where a column names the `person`, of people."""
    names = dict.fromkeys([*quasi, *([] if person is None else [person])])
    return asdict(reidentification(counted.marginal([*names]), person=person).prosecutor)


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: nothing where there is no finite number."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


_ROWS = "rows"
_MERGED = 64
"""So many batches are counted before their classes are put together."""


class ReleaseWatch:
    """Counts the rows of a release on their way out: its classes, and what everyone in one shares.

    Classes are rows alike in `quasi`; suppressed rows, which are blank where they are `starred`,
    are none. All that it tells can be counted by whoever has the release.
    """

    def __init__(
        self, quasi: Sequence[str], sensitive: Sequence[str], *, starred: bool = False
    ) -> None:
        self._quasi, self._sensitive, self._starred = list(quasi), list(sensitive), starred
        self._parts: list[pa.Table] = []
        self._first: list[pa.RecordBatch] = []
        self.blank = 0

    def passing(self, batches: Batches) -> Batches:
        """The same batches, counted on their way."""
        return _CheckedBatches(batches, self)

    def look(self, table: pa.Table) -> None:
        """Count some rows."""
        self._keep_first(table)
        blank = pa.array([True] * table.num_rows)
        for name in (*self._quasi, *self._sensitive):
            cells = table[name].combine_chunks()
            empty = cells.is_null()
            if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
                empty = pc.or_(empty, pc.fill_null(pc.equal(cells, ROOT), False))
            blank = pc.and_(blank, empty)
        self.blank += pc.sum(blank).as_py() or 0
        if not self._quasi:
            return
        kept = table.filter(pc.invert(blank)) if self._starred else table
        ones = pa.array([1] * kept.num_rows, pa.int64())
        columns = [kept[name] for name in self._quasi] + [ones]
        names = [*map(_key, range(len(self._quasi))), _ROWS]
        for place, name in enumerate(self._sensitive):
            # Codes of values, which a batch numbers for itself, would not compare across batches.
            cells = kept[name].cast(pa.string())
            columns += [cells, cells, cells.is_valid().cast(pa.int64())]
            names += _facts(place)
        self._parts.append(self._merged(pa.Table.from_arrays(columns, names=names)))
        if len(self._parts) >= _MERGED:
            self._parts = [self._merged(pa.concat_tables(self._parts))]

    def _keep_first(self, table: pa.Table) -> None:
        """Keep the first rows, which the report shows."""
        missing = SAMPLE - sum(one.num_rows for one in self._first)
        if missing > 0:
            self._first += table.slice(0, missing).to_batches()

    @property
    def sample(self) -> pa.Table | None:
        """The first rows as they are released; None where there are none."""
        return pa.Table.from_batches(self._first) if self._first else None

    def _classes(self) -> pa.Table | None:
        """All classes, with their rows; None where none were counted."""
        if self._parts:
            self._parts = [self._merged(pa.concat_tables(self._parts))]
            return self._parts[0]
        return None

    def sizes(self) -> Counts:
        """How many rows each class has."""
        classes = self._classes()
        found: Counts = np.zeros(0, np.int64) if classes is None else classes[_ROWS].to_numpy()
        return found

    def labels(self, column: str) -> dict[str | None, int]:
        """The labels of a column, with the rows that wear them."""
        classes = self._classes()
        if classes is None:
            return {}
        key = _key(self._quasi.index(column))
        found = classes.group_by(key, use_threads=False).aggregate([(_ROWS, "sum")])
        return dict(zip(found[key].to_pylist(), found[f"{_ROWS}_sum"].to_pylist(), strict=True))

    def _merged(self, part: pa.Table) -> pa.Table:
        """One row for each class."""
        ways = [(_ROWS, "sum")]
        for place in range(len(self._sensitive)):
            low, high, known = _facts(place)
            ways += [(low, "min"), (high, "max"), (known, "sum")]
        keys = [_key(place) for place in range(len(self._quasi))]
        found = part.group_by(keys, use_threads=False).aggregate(ways)
        return found.select([*keys, *(f"{name}_{way}" for name, way in ways)]).rename_columns(
            [*keys, *(name for name, _ in ways)]
        )

    def findings(self) -> list[str]:
        """What the holder must be told, in words."""
        classes = self._classes()
        if classes is None:
            return []
        found = []
        for place, name in enumerate(self._sensitive):
            low, high, known = (classes[one] for one in _facts(place))
            shared = pc.and_(
                pc.equal(known, classes[_ROWS]), pc.fill_null(pc.equal(low, high), False)
            )
            exposed = classes.filter(pc.or_(shared, pc.equal(known, 0)))
            if exposed.num_rows:
                people = pc.sum(exposed[_ROWS]).as_py()
                found.append(shared_by_all(name, exposed.num_rows, classes.num_rows, people))
        return found

    def refuse_blank(self, suppressed: int) -> None:
        """Refuse released rows that read like suppressed ones, where both stand in one file."""
        if self.blank > suppressed:
            raise CriterionError(
                "released_rows_blank",
                f"{count(self.blank - suppressed, 'released row')} cannot be told from suppressed "
                "ones: every quasi-identifier and sensitive value of them is missing or '*'. Leave "
                "suppressed rows out with --suppressed drop.",
            )


def shared_by_all(column: str, exposed: int, classes: int, rows: int) -> str:
    """The warning about classes that hide nothing."""
    return (
        f"In {exposed:,} of {count(classes, 'class', 'classes')} everyone has the same {column} "
        f"({count(rows, 'row')}): whoever knows that a person is there knows it of that person. "
        f"Ask for diversity of {column}, e.g. --l 2."
    )


class _CheckedBatches:
    """Batches that someone looks at; an Arrow reader would swallow an interruption in between."""

    def __init__(self, batches: Batches, watch: ReleaseWatch) -> None:
        self._batches, self._watch = batches, watch

    @property
    def schema(self) -> pa.Schema:
        """What the batches hold."""
        return self._batches.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Each batch once."""
        for batch in self._batches:
            self._watch.look(pa.Table.from_batches([batch]))
            yield batch


def _key(place: int) -> str:
    return f"key_{place}"


def _facts(place: int) -> list[str]:
    return [f"low_{place}", f"high_{place}", f"known_{place}"]
