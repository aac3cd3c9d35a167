from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.data.schema.column import Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema_file import load
from sfumato.demo import registers, town

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

PEOPLE = town.TOWN_SIZE


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return town.table(PEOPLE)


@pytest.fixture(scope="module")
def visits() -> pa.Table:
    return registers.visits_table(PEOPLE)


@pytest.fixture(scope="module")
def listed() -> pa.Table:
    return registers.voters_table(PEOPLE)


def mean(table: pa.Table, column: str, **where: str) -> float:
    for name, value in where.items():
        table = table.filter(pc.equal(table[name], value))
    return float(pc.mean(table[column]).as_py())


def years(table: pa.Table) -> NDArray[np.int64]:
    born: NDArray[np.int64] = pc.year(table["birth_date"]).to_numpy()
    return born


@pytest.mark.parametrize(
    "batches", [town.batches, registers.visits_batches, registers.voters_batches]
)
def test_a_row_depends_on_its_number_alone(
    batches: Callable[..., Iterator[pa.RecordBatch]],
) -> None:
    full = pa.Table.from_batches(batches(1000)).combine_chunks()
    pieces = pa.Table.from_batches(batches(1000, batch_rows=77)).combine_chunks()
    longer = pa.Table.from_batches(batches(3000)).combine_chunks()
    assert pieces.equals(full)
    assert longer.slice(0, full.num_rows).equals(full)


@pytest.mark.parametrize(
    ("table", "schema"),
    [
        (town.table, town.SCHEMA),
        (registers.visits_table, registers.VISITS),
        (registers.voters_table, registers.VOTERS),
    ],
)
def test_nobody_makes_an_empty_table(table: Callable[[int], pa.Table], schema: pa.Schema) -> None:
    empty = table(0)
    assert empty.num_rows == 0
    assert empty.schema == schema


def test_identifiers_are_unique_and_never_issued(people: pa.Table) -> None:
    assert pc.count_distinct(people["person"]).as_py() == PEOPLE
    assert pc.count_distinct(people["ssn"]).as_py() == PEOPLE
    assert pc.all(pc.match_substring_regex(people["ssn"], r"^9\d\d-[1-4]\d-\d{4}$")).as_py()


def test_social_security_numbers_stay_unique_far_out() -> None:
    far = town.Townspeople(39_990_000, 10_000).batch()["ssn"]
    assert pc.count_distinct(
        pa.concat_arrays([far, town.Townspeople(0, 10_000).batch()["ssn"]])
    ) == (pa.scalar(20_000))


@pytest.mark.parametrize("number", [0, 1, 7])
def test_as_many_stand_alone_in_every_town_as_in_a_real_country(number: int) -> None:
    people = pa.Table.from_batches([town.Townspeople(number * PEOPLE, PEOPLE).batch()])
    groups = people.group_by(["birth_date", "sex", "zip"]).aggregate([([], "count_all")])
    alone = pc.sum(pc.equal(groups["count_all"], 1)).as_py()
    assert round(100 * alone / PEOPLE) == 87


def test_the_next_town_has_other_post_codes(people: pa.Table) -> None:
    neighbours = pa.Table.from_batches([town.Townspeople(PEOPLE, PEOPLE).batch()])
    assert not set(people["zip"].to_pylist()) & set(neighbours["zip"].to_pylist())
    assert set(pc.utf8_length(neighbours["zip"]).to_pylist()) == {5}


def test_post_codes_are_uneven_and_rich_ones_earn_more(people: pa.Table) -> None:
    sizes = {row["values"]: row["counts"] for row in people["zip"].value_counts().to_pylist()}
    assert sizes["53600"] > 5 * sizes["53605"]
    assert mean(people, "salary", zip="53605") > 1.5 * mean(people, "salary", zip="53600")


def test_age_goes_with_marriage_school_and_work(people: pa.Table) -> None:
    age = 2024 - years(people)
    marital = people["marital_status"].to_numpy()
    occupation = people["occupation"].to_numpy()
    assert set(marital[age < 17]) == {"never married"}
    assert age[marital == "widowed"].mean() > 70
    assert set(occupation[age < 17]) == {"pupil"}
    assert set(occupation[age > 70]) == {"retired"}
    assert "doctorate" not in people["education"].to_numpy()[age < 24]


def test_degrees_pay(people: pa.Table) -> None:
    by_degree = [
        mean(people, "salary", education=degree)
        for degree in ("no diploma", "high school", "bachelor", "master", "doctorate")
    ]
    assert by_degree == sorted(by_degree)


def test_disease_goes_with_age_and_sex(people: pa.Table) -> None:
    born = years(people)
    disease, sex = people["disease"].to_numpy(), people["sex"].to_numpy()
    assert born[disease == "dementia"].mean() < born[disease == "flu"].mean() - 30
    assert (sex[disease == "migraine"] == "F").mean() > 0.6
    assert (sex[disease == "heart disease"] == "F").mean() < 0.45
    assert mean(people, "visits", disease="cancer") > 3 * mean(people, "visits", disease="none")


def test_visits_agree_with_the_people(people: pa.Table, visits: pa.Table) -> None:
    counted = visits.group_by("patient").aggregate([([], "count_all")]).sort_by("patient")
    visitors = people.filter(pc.greater(people["visits"], 0))
    assert counted["patient"].equals(visitors["person"])
    assert counted["count_all"].equals(visitors["visits"])
    joined = visits.join(people.select(["person", "birth_date"]), "patient", "person")
    assert pc.all(pc.greater_equal(joined["day"], joined["birth_date"])).as_py()
    assert pc.max(visits["day"]).as_py() < town.TODAY


def test_voters_are_a_part_of_the_adults(people: pa.Table, listed: pa.Table) -> None:
    keys = ["name", "birth_date", "sex", "zip"]
    assert listed.join(people, keys, join_type="left anti").num_rows == 0
    assert 0.5 < listed.num_rows / PEOPLE < 0.65
    youngest = pc.max(listed["birth_date"]).as_py()
    assert (town.TODAY - youngest).days >= 18 * 365.2425 - 1


@pytest.mark.parametrize(
    ("name", "make_table"),
    [("town.toml", town.table), ("visits.toml", registers.visits_table)],
    ids=["town", "visits"],
)
def test_the_schema_file_fits_the_table(name: str, make_table: Callable[[int], pa.Table]) -> None:
    with as_file(files("sfumato.demo").joinpath(name)) as path:
        schema = load(path)
    table: pa.Table = make_table(PEOPLE)
    assert [column.name for column in schema.columns] == table.column_names
    for column in schema.columns:
        held = table[column.name]
        if isinstance(column.domain, Values):
            assert set(held.unique().to_pylist()) == set(column.domain.values)
        if isinstance(column.domain, Bounds):
            assert column.domain.low <= pc.min(held).as_py()
            assert pc.max(held).as_py() <= column.domain.high
        if column.hierarchy is not None:
            leaves = held.unique().to_pylist()
            assert set(leaves) <= set(column.hierarchy.grow(leaves).leaves)


def test_every_quasi_identifier_of_the_town_can_be_generalized() -> None:
    with as_file(files("sfumato.demo").joinpath("town.toml")) as path:
        schema = load(path)
    assert all(column.hierarchy for column in schema.by_role(Role.QUASI))
