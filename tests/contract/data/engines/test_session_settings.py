"""Settings that a PostgreSQL database or role may have: none decides about privacy."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from sqlglot import exp

import sfumato as sf
from sfumato.data.engines.base import named
from sfumato.data.engines.postgres import Postgres
from sfumato.methods.programs.blocks import Cut, to_stream

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("postgres")]


@pytest.fixture
def open_with(postgres_url: str) -> Callable[[str], Postgres]:
    """Open an engine on a server whose sessions begin with other settings."""
    separator = "&" if "?" in postgres_url else "?"
    return lambda setting: Postgres(
        f"{postgres_url}{separator}options=-c{setting.replace('=', '%3D')}", named("none")
    )


@pytest.mark.parametrize("setting", ["extra_float_digits=0", "extra_float_digits=-15"])
def test_F25_reals_of_one_text_do_not_move_each_other_s_blocks(
    setting: str, open_with: Callable[[str], Postgres]
) -> None:
    column = sf.Column("x", sf.Kind.REAL, nullable=False)
    values = [1.0 + step * 2**-52 for step in range(200)]

    def blocks(values: list[float]) -> list[bytes]:
        with (
            closing(open_with(setting)) as engine,
            engine.lend(pa.table({"x": values})) as table,
        ):
            return list(map(to_stream, Cut((column,), sf.Rows(), 20).blocks_of(engine, table, "k")))

    pairs = zip(blocks(values), blocks(values[1:]), strict=True)
    assert sum(before != after for before, after in pairs) == 1


def test_a_backslash_ends_no_literal(open_with: Callable[[str], Postgres]) -> None:
    text = r"x\' OR TRUE OR '"
    with closing(open_with("standard_conforming_strings=off")) as engine:
        found = engine.run(exp.select(exp.alias_(exp.Literal.string(text), "t")))
    assert found["t"].to_pylist() == [text]
