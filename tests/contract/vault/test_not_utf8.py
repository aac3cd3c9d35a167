"""Text whose bytes are not UTF-8 is a malformed cell: told to its owner, missing to all others."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """\
table = "t"
[columns.c]
kind = "text"
role = "quasi"
hierarchy = { tree = "*" }
[columns.n]
kind = "integer"
bounds = [0, 9]
"""
BAD = [b"ok"] * 40 + [b"\xff\xfe"] * 30 + [b"caf\xe9"] * 10
GOOD = [b"ok"] * 40 + [None] * 40


def write(cells: list[Any], path: str = "rows/t.parquet") -> None:
    """Write bytes as text, as programs do that do not look at them."""
    stored = pa.array(cells, pa.binary())
    texts = pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())
    Path(path).parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"c": texts, "n": pa.array([1] * len(cells), pa.int64())}), path)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text(SCHEMA)


@pytest.fixture
def parquet() -> Callable[[], Any]:
    return lambda: "rows"


@pytest.fixture
def spark_folder(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Any]:
    monkeypatch.setattr(type(spark_session), "stop", lambda _: None)  # it is not ours
    return lambda: f"spark+parquet://{tmp_path}/rows/"


@pytest.fixture
def spark_frame(spark_session: Any, tmp_path: Path) -> Callable[[], Any]:
    return lambda: spark_session.read.parquet(str(tmp_path / "rows"))


@pytest.fixture(params=["parquet", "spark_folder", "spark_frame"])
def source(request: pytest.FixtureRequest) -> Callable[[], Any]:
    found: Callable[[], Any] = request.getfixturevalue(request.param)
    return found


def told(source: Any) -> list[Any]:
    """What questions tell, as good as without noise, and what a release holds."""
    with closing(sf.read(source, "t.toml", strict=False)) as opened:
        private = sf.protect(opened, epsilon=10**5, max_epsilon=10**5, delta="1e-6")
        keyed = private.query(
            "SELECT c, COUNT(*) AS n FROM t GROUP BY c", epsilon=5000, delta="1e-7"
        )
        counted = private.query("SELECT COUNT(c) AS a, COUNT_IF(c = 'ok') AS b FROM t", epsilon=500)
        released = opened.anonymize(k=5).table
    labels = sorted(map(str, released["c"].to_pylist()))
    return [keyed.table.to_pylist(), counted.table.to_pylist(), labels]


def test_bytes_that_are_not_utf8_are_missing(source: Callable[[], Any]) -> None:
    write(GOOD)
    expected = told(source())
    assert expected[0] == [{"c": None, "n": 40}, {"c": "ok", "n": 40}]
    write(BAD)
    assert told(source()) == expected
    assert code_of(anonymized, source()) in {"cell_malformed", "not_utf8"}


def anonymized(source: Any) -> None:
    with closing(sf.read(source, "t.toml")) as opened:
        opened.anonymize(k=5).table  # noqa: B018


def test_one_such_cell_decides_nothing_in_a_vault() -> None:
    write(GOOD)
    create(Path("vault"))
    Registration(name="t", source="rows", schema=Path("t.toml"), epsilon=9).add_to(Path("vault"))
    with sf.open("vault") as vault:
        write(BAD)
        asked = "SELECT COUNT(c) AS n FROM t"
        assert code_of(vault.query, asked, epsilon=1) == "no error"
