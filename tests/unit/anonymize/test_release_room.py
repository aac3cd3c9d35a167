"""Under a low limit of cells a release is right, or refused with the number that would do."""

from __future__ import annotations

import pickle
import re
from contextlib import closing
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize.measure import measure
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.counting.memory_limit import SETTING, TooManyCombinationsError
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Values
from sfumato.data.schema.hierarchy import Calendar, Mask, Step, Tree, Widths
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError, SfumatoError, SourceError
from sfumato.release.open_table import Table, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.anonymize.criteria import Criterion

ROWS = 900
DAYS = Column("day", Kind.DATE, Role.QUASI, hierarchy=Calendar((Step.MONTH, Step.YEAR)))
AGE = Column("age", Kind.INTEGER, Role.QUASI, hierarchy=Widths((5, 20)))
ZIP = Column("zip", Kind.TEXT, Role.QUASI, hierarchy=Mask())
LETTERS = Column(
    "letter",
    Kind.TEXT,
    Role.QUASI,
    Values(tuple("abcd")),
    Tree.of({"x": ["a", "b"], "y": ["c", "d"]}),
)
ILL = Column("ill", Kind.TEXT, Role.SENSITIVE)
COLUMNS = (DAYS, AGE, ZIP, LETTERS, ILL)
PEOPLE = pa.table(
    {
        "day": [date(1960, 1, 1) + timedelta(days=place * 769 % 2900) for place in range(ROWS)],
        "age": [place * 37 % 80 for place in range(ROWS)],
        "zip": [f"{place * 31 % 60 + 100}" for place in range(ROWS)],
        "letter": ["abcd"[place * 7 % 4] for place in range(ROWS)],
        "ill": [
            ("flu", "gout", "flu", "cold", "none")[place * 11 % 13 % 5] for place in range(ROWS)
        ],
    }
)


@pytest.fixture
def people() -> Iterator[Table]:
    with closing(read(PEOPLE, Schema("people", COLUMNS))) as table:
        yield table


def number_to_set(error: SfumatoError) -> int:
    """What a refusal says the setting must be."""
    found = re.search(rf"{SETTING}(?:=| to )(\d+) or more", error.message)
    assert found, error.message
    return int(found[1])


LOW_ALGORITHMS: list[tuple[str, list[Criterion]]] = [
    ("mondrian", [sf.KAnonymity(3)]),
    ("mondrian", [sf.KAnonymity(3), sf.DistinctDiversity(2, "ill")]),
    ("mondrian-relaxed", [sf.KAnonymity(3)]),
    ("permute", [sf.FolkDiversity(2, "ill")]),
]


@pytest.mark.parametrize(("algorithm", "asked"), LOW_ALGORITHMS)
@pytest.mark.parametrize("cells", [40, 300])
def test_the_number_that_a_refusal_names_is_the_least_that_works(
    people: Table,
    algorithm: str,
    asked: list[Criterion],
    cells: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SETTING, str(cells))
    with pytest.raises(ParameterError) as refusal:
        anonymize(people, asked, algorithm=algorithm)
    assert refusal.value.code == "problem_too_large"
    least = number_to_set(refusal.value)
    monkeypatch.setenv(SETTING, str(least))
    anonymize(people, asked, algorithm=algorithm)
    monkeypatch.setenv(SETTING, str(least - 1))
    with pytest.raises(ParameterError) as again:
        anonymize(people, asked, algorithm=algorithm)
    assert number_to_set(again.value) == least


def test_mondrian_may_need_less_than_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared values are held in any case: only how sensitive ones spread over them counts."""
    columns = (LETTERS, ZIP, AGE, ILL)
    with closing(
        read(PEOPLE.select(["letter", "zip", "age", "ill"]), Schema("p", columns))
    ) as table:
        asked = [sf.KAnonymity(3), sf.DistinctDiversity(2, "ill")]
        whole = anonymize(table, asked, algorithm="mondrian").release().table
        monkeypatch.setenv(SETTING, "200")
        with pytest.raises(ParameterError) as refusal:
            anonymize(table, asked, algorithm="mondrian")
        least = number_to_set(refusal.value)
        assert least == 80 * 25 < 720 * 4
        monkeypatch.setenv(SETTING, str(least))
        parted = anonymize(table, asked, algorithm="mondrian")
        assert "cut where it lies" in parted.remarks[0]
        assert parted.release().table.equals(whole)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (DAYS, "the widest step that unites them by its hierarchy's rule still leaves 8. Give it"),
        (AGE, "still leaves 4. Declare a wider one; or give it"),
    ],
)
def test_a_rule_that_leaves_too_many_values_is_not_called_missing(
    column: Column, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "60")  # two values
    with closing(read(PEOPLE.select([column.name]), Schema("one", (column,)))) as table:
        with pytest.raises(SourceError) as refusal:
            anonymize(table, [sf.KAnonymity(2)])
        assert refusal.value.code == "problem_too_large"
        assert said in refusal.value.message
        monkeypatch.setenv(SETTING, str(number_to_set(refusal.value)))
        assert anonymize(table, [sf.KAnonymity(2)]).figures["classes"]


def test_sensitive_values_that_do_not_fit_under_the_roots_are_refused_with_the_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = Schema("few", (LETTERS, ILL))
    with closing(read(PEOPLE.select(["letter", "ill"]), schema)) as table:
        monkeypatch.setenv(SETTING, "4")
        with pytest.raises(TooManyCombinationsError) as refusal:
            anonymize(table, [sf.DistinctDiversity(2, "ill")])
        assert number_to_set(refusal.value) == 4 * 2
        monkeypatch.setenv(SETTING, "8")
        assert anonymize(table, [sf.DistinctDiversity(2, "ill")]).figures["classes"] == 1


def test_a_refusal_travels_between_processes() -> None:
    error = TooManyCombinationsError.of(["age", "zip"], 12)
    assert str(pickle.loads(pickle.dumps(error))) == error.message  # our own


def test_measuring_what_does_not_fit_names_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "100")
    schema = Schema("people", COLUMNS)
    with pytest.raises(TooManyCombinationsError) as refusal:
        measure(PEOPLE, schema)
    monkeypatch.setenv(SETTING, str(number_to_set(refusal.value)))
    assert measure(PEOPLE, schema).rows == ROWS


CRITERIA: dict[str, Any] = {
    "t": sf.TCloseness("0.3", "ill"),
    "recursive": sf.RecursiveDiversity(2, "ill", c=3),
    "beta": sf.BetaLikeness("1.5", "ill"),
    "delta": sf.DeltaDisclosure("1.5", "ill"),
}


def held(again: Any, asked: str) -> bool:
    """Whether a measured file satisfies a criterion."""
    told = again.sensitive["ill"]
    limits = {"t": ("t_equal", 0.3), "beta": ("beta", 1.5), "delta": ("delta_disclosure", 1.5)}
    if asked == "recursive":
        return bool(told["recursive_c"][2] < 3)
    name, most = limits[asked]
    return bool(told[name] <= most + 1e-12)


@pytest.mark.parametrize(
    ("asked", "algorithm"),
    [
        # Each criterion under half of the searches; all pairs are slow.
        pytest.param(asked, name, marks=[] if (one + other) % 2 == 0 else pytest.mark.slow)
        for one, asked in enumerate(CRITERIA)
        for other, name in enumerate(("optimal", "incognito", "samarati", "datafly"))
    ],
)
def test_criteria_of_sensitive_values_hold_of_the_file(
    people: Table, asked: str, algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "2000")
    decided = anonymize(
        people, [sf.KAnonymity(4), CRITERIA[asked]], algorithm=algorithm, suppress="0.1"
    )
    assert "The search began where they fit" in " ".join(decided.remarks)
    decided.write(tmp_path / "released.csv")
    monkeypatch.delenv(SETTING)
    again = measure(tmp_path / "released.csv", people.schema, original=PEOPLE)
    assert again.k >= 4
    assert held(again, asked)


def test_mondrian_names_the_number_by_which_people_can_be_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    who = Column("who", Kind.INTEGER, Role.IDENTIFIER, nullable=False)
    schema = Schema("people", (*COLUMNS, who), sf.Entity("who", max_rows=9))
    visits = PEOPLE.append_column("who", pa.array([place % 300 for place in range(ROWS)]))
    monkeypatch.setenv(SETTING, "1000")
    with closing(read(visits, schema)) as table:
        with pytest.raises(ParameterError) as refusal:
            anonymize(table, [sf.KAnonymity(3)], algorithm="mondrian")
        monkeypatch.setenv(SETTING, str(number_to_set(refusal.value)))
        assert anonymize(table, [sf.KAnonymity(3)], algorithm="mondrian").figures["classes"] > 1
