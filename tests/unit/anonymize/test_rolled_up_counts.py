"""Where combinations do not fit in memory, releases are valid, and it is said what is lost."""

from __future__ import annotations

from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.anonymize.measure import measure
from sfumato.anonymize.pipeline import anonymize
from sfumato.anonymize.search import SEARCHES
from sfumato.data.counting.memory_limit import SETTING
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.hierarchy import Calendar, Mask, Removal, Side, Step, Widths, read_tree
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError, SchemaError, SourceError
from sfumato.release.open_table import read
from sfumato.release.recoding import ByCuts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.anonymize.criteria import Criterion
    from sfumato.release.open_table import Table

ADULT = Path(__file__).parents[3] / "../shared/data/adult"
QUASI = ("age", "sex", "race", "marital-status", "education", "workclass", "occupation")
SENSITIVE = "salary-class"
LOW = "20000"
"""Cells that are too few for Adult's 12,000 combinations of these columns, but not for values."""

ROLLING = [name for name, member in SEARCHES.items() if member.rolls_up]
ABLE = [*ROLLING, "mondrian"]
CODES = tuple(f"{place:04}" for place in range(0, 5000, 7))


@pytest.fixture(scope="module")
def adult() -> Iterator[Table]:
    if not ADULT.is_dir():
        pytest.skip("the shared Adult data is not beside the repository")
    columns = []
    for name in (*QUASI, SENSITIVE):
        kind = Kind.INTEGER if name == "age" else Kind.TEXT
        tree = read_tree(ADULT / f"adult_hierarchy_{name}.csv", kind)
        role = Role.SENSITIVE if name == SENSITIVE else Role.QUASI
        columns.append(Column(name, kind, role, hierarchy=tree))
    with closing(read(ADULT / "adult.csv", Schema("adult", tuple(columns)))) as table:
        yield table


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, LOW)


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("algorithm", few_fast(ROLLING, 2))
def test_what_is_written_satisfies_what_was_asked(
    adult: Table, algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided = anonymize(
        adult,
        [sf.KAnonymity(10), sf.DistinctDiversity(2, SENSITIVE)],
        algorithm=algorithm,
        suppress="0.02",
        limit_seconds=20 if algorithm != "k-optimize" else 1,
    )
    decided.write(tmp_path / "released.csv")
    monkeypatch.delenv(SETTING)
    again = measure(tmp_path / "released.csv", adult.schema, original=ADULT / "adult.csv")
    assert again.k >= 10
    assert again.sensitive[SENSITIVE]["distinct"] >= 2
    assert again.classes == decided.figures["classes"]
    for name in ("loss", "discernability", "entropy"):
        assert again.cost[name] == pytest.approx(decided.figures["cost"][name], rel=1e-9)
    assert "The search began where they fit" in decided.remarks[0]


def test_figures_of_the_original_are_the_same_and_the_bound_holds(
    adult: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = anonymize(adult, [sf.KAnonymity(10)], suppress="0.02")
    monkeypatch.setenv(SETTING, LOW)
    rolled = anonymize(adult, [sf.KAnonymity(10)], suppress="0.02")
    assert rolled.before == whole.before
    assert rolled.risk == whole.risk
    best, found, bound = whole.figures["cost"]["loss"], rolled.figures["cost"]["loss"], 0.0
    assert best is not None
    assert found is not None
    bound = rolled.figures["bound"] or 0.0
    assert 0 < bound <= best <= found
    assert rolled.figures["optimal"] is (bound == found)


@pytest.mark.usefixtures("low")
def test_rows_that_were_suppressed_are_searched_again(adult: Table, tmp_path: Path) -> None:
    plain = anonymize(adult, [sf.KAnonymity(10)], suppress="0.1")
    refined = anonymize(adult, [sf.KAnonymity(10)], suppress="0.1", refine=True)
    refined.write(tmp_path / "released.csv")
    assert refined.figures["suppressed"] < plain.figures["suppressed"]
    again = measure(tmp_path / "released.csv", adult.schema)
    assert again.rows == refined.figures["released"]
    assert again.k >= 10


@pytest.mark.parametrize(
    "criteria",
    [
        pytest.param([sf.KAnonymity(40)], marks=pytest.mark.slow),
        pytest.param(
            [sf.KAnonymity(40), sf.DistinctDiversity(2, SENSITIVE)], marks=pytest.mark.slow
        ),
        pytest.param([sf.TCloseness("0.3", SENSITIVE)], marks=pytest.mark.slow),
        [sf.KAnonymity(300), sf.DistinctDiversity(2, SENSITIVE), sf.TCloseness("0.3", SENSITIVE)],
    ],
)
def test_mondrian_cuts_in_the_engine_as_it_does_in_memory(
    adult: Table, criteria: list[Criterion], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = anonymize(adult, criteria, algorithm="mondrian")
    monkeypatch.setenv(SETTING, "60000")
    parted = anonymize(adult, criteria, algorithm="mondrian")
    assert isinstance(parted.recoding, ByCuts)
    assert parted.release().table.equals(whole.release().table)
    assert parted.figures["classes"] == whole.figures["classes"]
    assert parted.figures["cost"] == pytest.approx(whole.figures["cost"])
    assert parted.before == whole.before
    assert "cut where it lies" in parted.remarks[0]


def test_mondrian_out_of_time_ends_with_parts_that_pass(
    adult: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, LOW)
    found = anonymize(adult, [sf.KAnonymity(10)], algorithm="mondrian", limit_seconds=0)
    assert found.figures["ended"] == "time"
    assert found.release().table.num_rows == found.figures["rows"]


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("algorithm", [name for name in SEARCHES if name not in ABLE])
def test_who_needs_every_combination_says_so_and_names_who_does_not(
    adult: Table, algorithm: str
) -> None:
    with pytest.raises(ParameterError) as refusal:
        anonymize(adult, [sf.KAnonymity(10)], algorithm=algorithm)
    assert refusal.value.code == "problem_too_large"
    assert "optimal" in refusal.value.message


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("algorithm", ["anatomy", "permute"])
def test_who_rearranges_values_says_so_too(adult: Table, algorithm: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        anonymize(adult, [sf.FolkDiversity(2, SENSITIVE)], algorithm=algorithm)
    assert refusal.value.code == "problem_too_large"


def test_inspecting_finds_the_same_wherever_it_counts(
    adult: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = adult.inspect()
    monkeypatch.setenv(SETTING, "2000")
    found = adult.inspect()
    assert {*found.sets} == {*whole.sets}
    assert found.reidentification == whole.reidentification
    assert found.rows == whole.rows


def long_columns() -> Table:
    """Whole numbers below and above 0, days and codes, hardly one of them twice."""
    columns = (
        Column("number", Kind.INTEGER, Role.QUASI, hierarchy=Widths((50, 500))),
        Column("day", Kind.DATE, Role.QUASI, hierarchy=Calendar((Step.QUARTER, Step.DECADE))),
        Column("code", Kind.TEXT, Role.QUASI, hierarchy=Mask()),
        Column("tail", Kind.TEXT, Role.QUASI, hierarchy=Mask(Side.LEFT)),
    )
    size = len(CODES)
    rows = pa.table(
        {
            "number": pa.array([None if one % 97 == 0 else 3 * one - 900 for one in range(size)]),
            "day": [date(1999, 12, 1) + timedelta(days=5 * one) for one in range(size)],
            "code": [code[: 2 + (place % 40 > 0) * 2] for place, code in enumerate(CODES)],
            "tail": [code[::-1] for code in CODES],
        }
    )
    return read(rows, Schema("long", columns))


def test_columns_with_too_many_values_are_united_by_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(long_columns()) as table:
        whole = anonymize(table, [sf.KAnonymity(20)], suppress="0.1")
        monkeypatch.setenv(SETTING, "6000")  # 240 values of a column
        rolled = anonymize(table, [sf.KAnonymity(20)], suppress="0.1")
        assert rolled.figures["levels"] == whole.figures["levels"]
        assert rolled.figures["cost"] == pytest.approx(whole.figures["cost"])
        assert rolled.release().table.equals(whole.release().table)
        bits = anonymize(table, [sf.KAnonymity(20)], cost="entropy", suppress="0.1")
        assert bits.figures["cost"]["entropy"] == pytest.approx(
            _unlimited(monkeypatch, table).figures["cost"]["entropy"]
        )


def _unlimited(monkeypatch: pytest.MonkeyPatch, table: Table) -> Any:
    monkeypatch.delenv(SETTING)
    return anonymize(table, [sf.KAnonymity(20)], cost="entropy", suppress="0.1")


def test_values_that_no_rule_unites_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "500")
    column = Column("code", Kind.TEXT, Role.QUASI, hierarchy=Removal())
    with (
        closing(read(pa.table({"code": CODES}), Schema("codes", (column,)))) as opened,
        pytest.raises(SourceError) as refusal,
    ):
        anonymize(opened, [sf.KAnonymity(2)])
    assert refusal.value.code == "problem_too_large"


def test_texts_with_a_star_cannot_be_masked_in_the_engine_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SETTING, "500")
    column = Column("code", Kind.TEXT, Role.QUASI, hierarchy=Mask())
    table = pa.table({"code": [*CODES, "1*"]})
    with (
        closing(read(table, Schema("codes", (column,)))) as opened,
        pytest.raises(SchemaError) as refusal,
    ):
        anonymize(opened, [sf.KAnonymity(2)])
    assert refusal.value.code == "cell_malformed"


def test_a_setting_that_is_no_number_is_refused(
    adult: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "much")
    with pytest.raises(ParameterError) as refusal:
        anonymize(adult, [sf.KAnonymity(2)])
    assert refusal.value.code == "parameter_out_of_range"
