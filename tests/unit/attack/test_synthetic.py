"""Attacks on synthetic tables: a release that keeps people is caught, one of others is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.attack.singling_out import Descriptions, fits, joined
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]

SCHEMA = Schema(
    "people",
    (
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("age", Kind.INTEGER, Role.QUASI),
        Column("town", Kind.TEXT, Role.QUASI),
        Column("job", Kind.TEXT, Role.QUASI),
        Column("pay", Kind.REAL, Role.OTHER),
        Column("ill", Kind.TEXT, Role.SENSITIVE),
    ),
)


def people(draws: np.random.Generator, size: int = 800) -> pa.Table:
    """Illness goes with age in half of the people; pay is anything."""
    age = draws.integers(18, 90, size)
    ills = np.where(draws.random(size) < 0.5, age // 24, draws.integers(0, 4, size))
    return pa.table(
        {
            "age": age,
            "town": draws.choice(["york", "hull", "bath", "leeds"], size),
            "job": draws.choice(["baker", "smith", "clerk"], size, p=[0.6, 0.3, 0.1]),
            "pay": np.round(draws.lognormal(7, 1, size), 2),
            "ill": np.array(["asthma", "cancer", "flu", "gout"])[ills],
        }
    )


@pytest.fixture
def tables(draws: np.random.Generator) -> dict[str, pa.Table]:
    return {name: people(draws) for name in ("original", "control", "fresh")}


NAMES = ("singling-out", "linkability", "inference", "membership", "copies")


@pytest.mark.parametrize("name", NAMES)
def test_a_release_that_keeps_people_is_caught(
    name: str, found: Attacked, tables: dict[str, pa.Table]
) -> None:
    told = found(
        name, tables["original"], SCHEMA, original=tables["original"], control=tables["control"]
    )
    assert told.beats_baseline
    assert told.risk > 0.2
    if told.control is not None:
        assert told.success.low > told.control.high


@pytest.mark.parametrize("name", NAMES)
def test_a_release_of_other_people_tells_no_more_of_these_than_of_others(
    name: str, found: Attacked, tables: dict[str, pa.Table]
) -> None:
    told = found(
        name, tables["fresh"], SCHEMA, original=tables["original"], control=tables["control"]
    )
    like = told.baseline if told.control is None else told.control
    assert told.success.low <= like.high
    assert like.low <= told.success.high


def test_what_is_known_of_the_world_is_no_risk(
    found: Attacked, tables: dict[str, pa.Table]
) -> None:
    """Illness goes with age, so that a guess is beaten; but of others just as well."""
    told = found(
        "inference",
        tables["fresh"].drop_columns(["pay"]),
        SCHEMA,
        original=tables["original"],
        control=tables["control"],
    )
    assert told.success.value > told.baseline.high
    assert told.risk < 0.1


def test_one_column_singles_out_by_its_ends_and_rare_values(found: Attacked) -> None:
    release = {"age": [20, 30, 30, 90, None], "town": ["a", "a", "b", "b", "b"]}
    real = {"age": [18, 40, 40, 95, 92], "town": ["a", "a", "a", "b", "b"]}
    told = found("singling-out", release, SCHEMA, original=real, together=1)
    # up to 20, from 90, 20 itself, 90 itself and no age are alone there; here: up to 20 alone.
    assert (told.success.value, told.success.tried) == (0.2, 5)


def test_descriptions_are_counted_as_they_say(draws: np.random.Generator) -> None:
    from sfumato.attack.records import Trait

    numbers = pa.array([1.0, 2.0, 5.0, None])
    traits = [
        Trait("n", numbers, numbers.to_numpy(zero_copy_only=False)),
        Trait("t", pa.array(["a", "b", "c"]), None),
    ]
    rows = np.stack([draws.integers(0, 4, 500), draws.integers(0, 3, 500)])
    every = [(0, c, v) for c in range(4) for v in range(-1, 4)] + [(1, 0, 1), (1, 1, 2)]
    made = np.array([[one, other] for one in every for other in every])
    asked = Descriptions(made[:, :, 0], made[:, :, 1], made[:, :, 2])

    def holds(trait: int, comparison: int, code: int) -> Any:
        mine, known = rows[trait], (rows[trait] != 3) | (trait == 1)
        return [mine == code, (mine != code) & known, mine <= code, (mine >= code) & known][
            comparison
        ]

    expected = [(holds(*one) & holds(*other)).sum() for one in every for other in every]
    assert fits(traits, rows, asked).tolist() == expected
    assert len(joined([asked, asked])) == len(every) ** 2


def test_membership_is_found_by_marginals_that_were_kept(
    found: Attacked, draws: np.random.Generator
) -> None:
    """Rows without a row of anybody, but with the pairs of few people as they are."""
    size, columns = 60, 12
    schema = Schema("few", tuple(Column(f"c{n}", Kind.TEXT) for n in range(columns)))

    def drawn(rows: int) -> dict[str, list[str]]:
        return {f"c{n}": draws.choice(list("abcdef"), rows).tolist() for n in range(columns)}

    real, others = drawn(size), drawn(400)
    mixed = {
        name: [values[place] for place in draws.integers(0, size, 3000)]
        for name, values in real.items()
    }
    told = found("membership", mixed, schema, original=real, control=others)
    assert told.success.low > 0.5
    assert "single values" in told.remarks[0] or "pairs" in told.remarks[0]


def test_ties_count_as_chances(found: Attacked) -> None:
    release = {"age": [30, 30, 50], "town": ["york", "hull", "york"]}
    real = {"age": [30, 50], "town": ["york", "bath"]}
    told = found("linkability", release, SCHEMA, original=real, first=["age"])
    assert told.success.value == pytest.approx((1 / (2 * 2) + 1 / 3) / 2)
    release = {"age": [30, 30, 30, 50], "ill": ["flu", "gout", "flu", "gout"]}
    real = {"age": [31, 50], "ill": ["flu", "flu"]}
    told = found("inference", release, SCHEMA, original=real)
    assert told.success.value == pytest.approx((2 / 3 + 0) / 2)


def test_a_real_number_is_guessed_within_a_twentieth(found: Attacked) -> None:
    release = {"town": ["york", "hull"], "pay": [100.0, 200.0]}
    real = {"town": ["york", "hull", "hull"], "pay": [104.9, 189.0, 210.0]}
    assert (
        found("inference", release, SCHEMA, original=real, sensitive="pay").success.value == 2 / 3
    )


def test_lists_are_as_asked_for(found: Attacked, tables: dict[str, Any]) -> None:
    told = found(
        "linkability", tables["fresh"], SCHEMA, original=tables["original"], first=["age", "ill"]
    )
    assert "one list with age, ill and one with town, job, pay" in told.attacker
    with pytest.raises(ParameterError, match="did you mean 'age'"):
        found("linkability", tables["fresh"], SCHEMA, original=tables["original"], first=["agee"])
    with pytest.raises(ParameterError, match="second list"):
        every = ["age", "town", "job", "pay", "ill"]
        found("linkability", tables["fresh"], SCHEMA, original=tables["original"], first=every)


def test_texts_that_stand_for_several_values_are_labels(
    found: Attacked, tables: dict[str, Any]
) -> None:
    """Else nobody would be met, and a release would look safer than it is."""
    hidden = tables["original"].set_column(1, "town", pa.array(["*"] * 400 + ["york"] * 400))
    with pytest.raises(ParameterError, match="'town' of the release has labels"):
        found("copies", hidden, SCHEMA, original=tables["original"])
    other = tables["original"].set_column(1, "town", pa.array(["elsewhere"] * 800))
    assert found("copies", other, SCHEMA, original=tables["original"]).victims == 0


@pytest.mark.parametrize("name", NAMES)
def test_labels_and_lacking_tables_are_refused_with_words(
    name: str, found: Attacked, tables: dict[str, Any]
) -> None:
    with pytest.raises(ParameterError, match="original="):
        found(name, tables["fresh"], SCHEMA)
    labels = {"age": ["[18, 40]", "[41, 90]"], "ill": ["flu", "gout"]}
    with pytest.raises(ParameterError, match="labels such as ranges"):
        found(name, labels, SCHEMA, original=tables["original"], control=tables["control"])
