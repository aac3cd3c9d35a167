"""Classes that are told from what is held are those that the engine counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sfumato.anonymize import result
from sfumato.anonymize.criteria import EntropyDiversity, KAnonymity
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.schema.schema_file import parse
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from sfumato.anonymize.released_classes import ReleasedClasses

SCHEMA = """\
table = "people"
unit = "row"
[columns.age]
role = "quasi"
kind = "integer"
hierarchy = { widths = [10, 50] }
[columns.city]
role = "quasi"
kind = "text"
hierarchy = { tree = "*" }
[columns.disease]
role = "sensitive"
kind = "text"
hierarchy = { tree = "*" }
[columns.debt]
role = "sensitive"
kind = "real"
[columns.since]
role = "sensitive"
kind = "date"
[columns.smokes]
role = "sensitive"
kind = "boolean"
"""
DECLARED = parse(SCHEMA, "people.toml", Path())
POOLS: dict[str, list[Any]] = {
    "age": [31, 32, 45, None],
    "city": ["Como", "Lodi", None],
    "disease": ["flu", None],
    "debt": [0.0, -0.0, None],
    "since": [date(2020, 1, 1)],
    "smokes": [True, False],
}


def people(seed: int, rows: int = 30) -> pa.Table:
    draw = Random(seed)
    return pa.table(
        {name: [draw.choice(pool) for _ in range(rows)] for name, pool in POOLS.items()}
    )


def told(classes: ReleasedClasses) -> list[str]:
    """The classes in an order of their own."""
    return sorted(map(repr, classes.table.to_pylist()))


@pytest.mark.parametrize("algorithm", ["optimal", "mondrian", "datafly"])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_held_tells_what_the_engine_counts(algorithm: str, seed: int) -> None:
    criteria = [KAnonymity(2)] if seed % 2 else [KAnonymity(2), EntropyDiversity(1, "disease")]
    share = "0" if algorithm == "mondrian" else "0.4"
    with read(people(seed), DECLARED) as table:
        decided = anonymize(table, criteria, algorithm=algorithm, suppress=share)
        assert decided.classes is not None
        counted = replace(decided, classes=None).measured
        assert told(decided.classes) == told(counted)
        assert decided.classes.findings() == counted.findings()
        made = decided.release()
        assert made.guarantee.parameters["risk"]["highest"] <= 1 / 2
        assert sum(decided.classes.sizes()) == made.table.num_rows


def test_nothing_more_is_asked_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(result, "remeasure")
    with read(people(1), DECLARED) as table:
        release = anonymize(table, [KAnonymity(2)], suppress="0.4").release()
        assert release.holder is not None


def test_zeros_of_either_sign_and_missing_values_are_shared() -> None:
    same = pa.table(
        {
            "age": [31] * 4 + [45] * 4,
            "city": ["Como"] * 8,
            "disease": ["flu"] * 4 + ["flu", None, "flu", "flu"],
            "debt": [0.0, -0.0] * 4,
            "since": pa.array([None] * 4 + [date(2020, 1, 1)] * 4, pa.date32()),
            "smokes": [True, False] * 4,
        }
    )
    with read(same, DECLARED) as table:
        classes = anonymize(table, [KAnonymity(4)]).classes
    assert classes is not None
    shares = {row.pop("sf_label_0"): [*row.values()][-4:] for row in classes.table.to_pylist()}
    assert shares == {"31": [1, 1, 1, 0], "45": [0, 1, 1, 0]}
