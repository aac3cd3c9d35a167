from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = """table = "shop"
{form}
[columns.basket]
kind = "integer"
role = "identifier"
[columns.item]
kind = "text"
role = "sensitive"
{hierarchy}
"""
_FORM = 'form = { items = { of = "basket", item = "item" } }'
_GROUPS = 'hierarchy = { file = "items.csv" }'


@pytest.fixture(name="shop")
def _shop(tmp_path: Path) -> sf.Table:
    return opened(tmp_path)


def opened(folder: Path, form: str = _FORM, hierarchy: str = _GROUPS) -> sf.Table:
    (folder / "items.csv").write_text("".join(f"{one};{one in 'abc'};*\n" for one in "abcdef"))
    (folder / "shop.toml").write_text(_SCHEMA.format(form=form, hierarchy=hierarchy))
    generator = np.random.default_rng(3)
    pairs = [
        (1000 + owner, str(one))
        for owner in range(80)
        for one in generator.choice(list("abcdef"), size=2, p=[0.3, 0.3, 0.2, 0.1, 0.09, 0.01])
    ]
    rows = pa.table({"basket": [one for one, _ in pairs], "item": [one for _, one in pairs]})
    return sf.read(rows, schema=folder / "shop.toml")


@pytest.mark.parametrize("asked", [{}, {"algorithm": "local"}, {"suppress": 0.05}])
def test_what_is_released_is_checked_by_counting(shop: sf.Table, asked: dict[str, Any]) -> None:
    released = shop.anonymize(k=4, m=2, **asked)
    baskets: dict[int, set[str]] = {}
    for one in released.table.to_pylist():
        baskets.setdefault(one["basket"], set()).add(one["item"])
    for size in (1, 2):
        sets = Counter(one for held in baskets.values() for one in combinations(sorted(held), size))
        assert min(sets.values()) >= 4
    assert sorted(baskets) == list(range(1, len(baskets) + 1))
    assert "up to 2 items" in released.guarantee.statement


def test_what_travels_tells_nothing_of_what_is_left_out(shop: sf.Table, tmp_path: Path) -> None:
    released = shop.anonymize(k=4, m=2, suppress=0.05)
    assert released.holder is not None
    assert released.holder["left_out"] > 0
    released.save(tmp_path / "out.csv")
    told = (tmp_path / "out.csv.json").read_text()
    assert "left_out" not in told
    assert "loss" not in told
    assert "left_out" in (tmp_path / "out.csv.holder.json").read_text()


def test_numbers_of_baskets_are_of_chance(shop: sf.Table) -> None:
    tables = [shop.anonymize(k=4, m=2).table for _ in range(3)]
    assert not (tables[0].equals(tables[1]) and tables[0].equals(tables[2]))


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("parameter_missing", {"m": 2}),
        ("parameter_out_of_range", {"k": 4, "m": 9}),
        ("choice_unknown", {"k": 4, "m": 2, "algorithm": "mondrian"}),
        ("option_not_applicable", {"k": 4, "m": 2, "cost": "loss"}),
        ("option_not_applicable", {"k": 4, "m": 2, "require": "link<0.1"}),
    ],
)
def test_refused(shop: sf.Table, code: str, asked: dict[str, Any]) -> None:
    with pytest.raises(ParameterError) as caught:
        shop.anonymize(**asked)
    assert caught.value.code == code


def test_a_table_must_be_of_items_that_have_groups(tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as caught:
        opened(tmp_path, form="").anonymize(k=4, m=2)
    assert caught.value.code == "form_invalid"
    with pytest.raises(SchemaError) as refused:
        opened(tmp_path, hierarchy="").anonymize(k=4, m=2)
    assert refused.value.code == "hierarchy_missing"
