"""Rows that are nobody's: a table that kept people is caught, one of strangers finds nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.attack.finding import Rate
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
        Column("ill", Kind.TEXT, Role.SENSITIVE),
    ),
)


def people(draws: np.random.Generator, size: int = 1500) -> pa.Table:
    """Some are common and some are alone; illness goes with age in half of them."""
    age = np.minimum(draws.geometric(0.06, size) + 17, 90)
    ills = np.where(draws.random(size) < 0.5, age // 24, draws.integers(0, 4, size))
    return pa.table(
        {
            "age": age,
            "town": draws.choice(["york", "hull", "bath", "leeds"], size, p=[0.5, 0.3, 0.1, 0.1]),
            "job": draws.choice(["baker", "smith", "clerk"], size, p=[0.6, 0.3, 0.1]),
            "ill": np.array(["asthma", "cancer", "flu", "gout"])[ills],
        }
    )


@pytest.fixture
def tables(draws: np.random.Generator) -> dict[str, pa.Table]:
    return {name: people(draws) for name in ("original", "control", "fresh")}


@pytest.mark.parametrize("given", [(), ("control",)])
def test_strangers_who_look_alike_are_not_found(
    given: tuple[str, ...], found: Attacked, tables: dict[str, pa.Table]
) -> None:
    more = {name: tables[name] for name in given}
    told = found(
        "link", tables["fresh"], SCHEMA, synthetic=True, original=tables["original"], **more
    )
    assert told.success.low == 0
    assert told.success.value < 0.03
    assert (told.victims, list(told.examples)) == (0, [])
    who = "people not in the data" if given else "a fresh sample"
    assert "are synthetic" in told.remarks[0]
    assert who in told.remarks[0]


@pytest.mark.parametrize("given", [(), ("control",)])
def test_people_who_were_kept_are_found_among_strangers(
    given: tuple[str, ...], found: Attacked, tables: dict[str, pa.Table]
) -> None:
    more = {name: tables[name] for name in given}
    original = tables["original"]
    half = pa.concat_tables([original.slice(0, 750), tables["fresh"].slice(0, 750)])
    told = found("link", half, SCHEMA, synthetic=True, original=original, **more)
    whole = found("link", original, SCHEMA, original=original)
    assert told.beats_baseline
    assert 0.2 * whole.success.value < told.success.value < whole.success.value
    assert 0 < told.victims < whole.victims


def test_a_list_says_whom_to_look_up(found: Attacked, tables: dict[str, pa.Table]) -> None:
    original = tables["original"].append_column("name", [[f"p{n}" for n in range(1500)]])
    listed: Any = original.slice(0, 40).select(["name", "age", "town"])
    told = found("link", tables["fresh"], SCHEMA, synthetic=True, original=original, known=listed)
    assert told.success.tried == 40
    unnamed = listed.drop_columns(["name"])
    told = found("link", tables["fresh"], SCHEMA, synthetic=True, original=original, known=unnamed)
    assert told.success.tried == pytest.approx(40, abs=5)


def test_chances_by_hand(found: Attacked) -> None:
    """One of two rows of (30, york) is ill as Ann is; nobody else fits (40, hull)."""
    release: dict[str, list[Any]] = {
        "age": [30, 30, 40, 70],
        "town": ["york", "york", "hull", "bath"],
    }
    release |= {"job": ["smith"] * 4, "ill": ["flu", "gout", "flu", "flu"]}
    real: dict[str, list[Any]] = {"age": [30, 40], "town": ["york", "hull"]}
    real |= {"job": ["smith"] * 2, "ill": ["flu"] * 2}
    told = found("link", release, SCHEMA, synthetic=True, original=real)
    assert told.success.value == pytest.approx((1 / 2 + 1) / 2)
    both = {name: [values[0]] * 2 for name, values in real.items()}
    told = found("link", release, SCHEMA, synthetic=True, original=both)
    assert told.success.value == 0  # each would be carried by the other's row all the same


def test_a_difference_of_shares() -> None:
    """Newcombe's own example with other ends: 56/70 less 48/80."""
    left = Rate.share(56, 70).minus(Rate.share(48, 80))
    assert left.value == pytest.approx(0.2)
    assert 0.04 < left.low < 0.06 < 0.33 < left.high < 0.35
    assert Rate.share(1, 10).minus(Rate.share(9, 10)).value == 0


def test_a_few_dummy_rows_hide_nobody(found: Attacked, tables: dict[str, pa.Table]) -> None:
    """Rows are people's unless somebody says otherwise: 2 % of dummies change 2 % of the figure."""
    original = tables["original"]
    dummies = original.slice(0, 30).set_column(0, "age", [[200 + n for n in range(30)]])
    plain = found("link", original, SCHEMA, original=original)
    told = found("link", pa.concat_tables([original, dummies]), SCHEMA, original=original)
    assert told.success.value == pytest.approx(plain.success.value)
    assert told.victims == plain.victims > 0
    assert "1.96 % of the released rows fit nobody" in told.remarks[1]
    assert '"synthetic"' in told.remarks[1]
    assert not any("fit nobody" in one for one in plain.remarks)


def test_classes_of_strangers_are_not_attacked(
    found: Attacked, tables: dict[str, pa.Table]
) -> None:
    """Where more than half of the rows fit nobody, what classes say is said of nobody."""
    original = tables["original"]
    far = original.set_column(0, "age", [[200 + n for n in range(1500)]])
    mixed = {share: pa.concat_tables([original.slice(0, share), far]) for share in (300, 1500)}
    assert found("homogeneity", mixed[1500], SCHEMA, original=original).victims
    with pytest.raises(ParameterError, match=r"83\.3 % of them fit nobody in the original"):
        found("homogeneity", mixed[300], SCHEMA, original=original)
    with pytest.raises(ParameterError, match="the table is synthetic"):
        found("homogeneity", original, SCHEMA, original=original, synthetic=True)
