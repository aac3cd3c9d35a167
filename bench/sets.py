"""Sets: k^m on real baskets, item counts and twins against epsilon, the scoreboard, a million.

Figures of ../shared/data, skipped where that is not there.
"""

from __future__ import annotations

import csv
import gzip
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.attack.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATA = Path(__file__).parents[2] / "shared" / "data"
BASKETS = 1_000_000
_SCHEMA = """table = "{table}"
form = {{ items = {{ of = "{owner}", item = "{item}"{more} }} }}
unit = {{ column = "{owner}", max_rows = {rows} }}
[columns.{owner}]
role = "identifier"
nullable = false
kind = "text"
[columns.{item}]
role = "sensitive"
kind = "text"
{hierarchy}
"""


def rows() -> Iterator[dict[str, object]]:
    """Every measurement."""
    with TemporaryDirectory() as folder:
        if DATA.exists():
            yield from _retail(Path(folder))
            yield from _groceries(Path(folder))
            yield from _scoreboard(Path(folder))
        yield from _million(Path(folder))


def _read(folder: Path, pairs: Sequence[tuple[Any, ...]], **said: Any) -> sf.Table:
    """A table of items with its schema, as files."""
    said = {"more": "", "hierarchy": "", "rows": 10, **said}
    names = [said["owner"], said["item"], *said.pop("others", ())]
    more = said.pop("columns", "")
    (folder / "t.toml").write_text(_SCHEMA.format(**said) + more)
    columns = [pa.array(one) for one in zip(*pairs, strict=True)]
    pq.write_table(pa.table(columns, names=names), folder / f"{said['table']}.parquet")
    return sf.read(folder / f"{said['table']}.parquet", schema=folder / "t.toml")


def _retail(folder: Path) -> Iterator[dict[str, object]]:
    with gzip.open(DATA / "sets/online_retail.csv.gz", "rt") as stream:
        pairs = sorted({(one["invoice"], one["stock_code"]) for one in csv.DictReader(stream)})
    codes = sorted({code for _, code in pairs})
    groups = [";".join([one, *(f"{one[:n]}~" for n in (4, 3, 2, 1)), "*"]) for one in codes]
    (folder / "codes.csv").write_text("\n".join(groups) + "\n")
    table = _read(
        folder, pairs, table="retail", owner="invoice", item="code",
        hierarchy='hierarchy = { file = "codes.csv" }',
    )  # fmt: skip
    for share in (0, 0.05):
        begin, cpu = time.perf_counter(), time.process_time()
        released = table.anonymize(k=5, m=2, suppress=share)
        took, spent = time.perf_counter() - begin, time.process_time() - cpu
        assert released.holder is not None
        name = f"25,900 baskets, k 5, m 2, {share:.0%} may be left out"
        yield {"name": name, "value": took, "unit": "s", "aim": "< 60 s"}
        yield {"name": f"{name}: CPU", "value": spent, "unit": "s"}
        yield {"name": f"{name}: loss", "value": released.holder["loss"], "unit": ""}


def _groceries(folder: Path) -> Iterator[dict[str, object]]:
    with gzip.open(DATA / "sets/groceries.csv.gz", "rt") as stream:
        baskets = [(one["tid"], one["items"].split(";")) for one in csv.DictReader(stream)]
    items = sorted({item for _, held in baskets for item in held})
    pairs = [(owner, item) for owner, held in baskets for item in held]
    listed = ", ".join(f'"{one}"' for one in items)
    table = _read(
        folder, pairs, table="groceries", owner="basket", item="product",
        hierarchy=f"values = [{listed}]",
    )  # fmt: skip
    true = _shares(pairs, items)
    private = sf.protect(table, epsilon=10)
    for epsilon in ("0.1", "0.5", "1", "4"):
        twin = private.synthesize(epsilon=epsilon).table
        made = list(zip(twin["basket"].to_pylist(), twin["product"].to_pylist(), strict=True))
        found = _shares(made, items)
        alone = np.outer(np.diag(found), np.diag(found))
        np.fill_diagonal(alone, np.diag(found))
        top = np.argsort(-np.diag(true))[:30]
        upper = np.ix_(top, top)
        yield {
            "name": f"twin of groceries, epsilon {epsilon}: items, mean error of a share",
            "value": float(np.abs(np.diag(found) - np.diag(true)).mean()), "unit": "",
        }  # fmt: skip
        yield {
            "name": f"twin of groceries, epsilon {epsilon}: pairs of the 30 most frequent",
            "value": float(np.abs(found - true)[upper].mean()), "unit": "",
            "peer": "items alone", "peer_value": float(np.abs(alone - true)[upper].mean()),
        }  # fmt: skip


def _shares(pairs: Sequence[tuple[Any, ...]], items: list[str]) -> np.ndarray:
    """The share of baskets with each item, and with both of any two."""
    owners = {one: place for place, one in enumerate(dict.fromkeys(one for one, *_ in pairs))}
    place = {one: number for number, one in enumerate(items)}
    has = np.zeros((len(owners), len(items)), dtype=np.float32)
    for owner, item, *_ in pairs:
        has[owners[owner], place[item]] = 1
    return np.asarray(has.T @ has / max(len(owners), 1), dtype=np.float64)


def _scoreboard(folder: Path) -> Iterator[dict[str, object]]:
    with gzip.open(DATA / "ratings/movietweetings_100k.csv.gz", "rt") as stream:
        pairs = [(one["user"], one["movie"], int(one["rating"])) for one in csv.DictReader(stream)]
    table = _read(
        folder, pairs, table="films", owner="user", item="movie", rows=20,
        more=', rating = "stars"', others=("stars",),
        columns='[columns.stars]\nrole = "sensitive"\nkind = "integer"\nbounds = [0, 10]\n',
    )  # fmt: skip
    columns = {"person": "user", "item": "movie", "rating": "stars"}
    before = table.attack("scoreboard", columns=columns)
    twin = sf.protect(table, epsilon=4, delta=1e-4).synthesize(epsilon=2, delta=1e-6).table
    path = folder / "twin.parquet"
    users = pa.array([str(one) for one in twin["user"].to_pylist()])
    pq.write_table(twin.set_column(0, "user", users), path)
    made = sf.read(path, schema=folder / "t.toml")
    after = made.attack("scoreboard", original=table, columns=columns)
    for when, found in (("before", before), ("after, on the twin", after)):
        assert isinstance(found, Finding)
        yield {"name": f"scoreboard, 8 known films, {when}", "value": found.success.value,
               "unit": "", "peer": "chance", "peer_value": found.baseline.value}  # fmt: skip


def _million(folder: Path) -> Iterator[dict[str, object]]:
    generator = np.random.default_rng(1)
    owners = np.repeat(np.arange(BASKETS), 1 + generator.poisson(5, BASKETS))
    items = (generator.zipf(1.3, len(owners)) - 1) % 2000
    names = pa.array([f"p{one}" for one in range(2000)]).take(pa.array(items))
    table = pa.table({"basket": owners.astype(str), "item": names})
    pq.write_table(table, folder / "million.parquet")
    said = {"table": "shop", "owner": "basket", "item": "item", "rows": 10}
    (folder / "m.toml").write_text(_SCHEMA.format(**said, more="", hierarchy=""))
    shop = sf.read(folder / "million.parquet", schema=folder / "m.toml")
    private = sf.protect(shop, epsilon=10, delta=1e-4)
    for name, asked in (
        ("items", lambda: private.publish("items", epsilon=1, delta=1e-6)),
        ("itemsets", lambda: private.publish("itemsets", epsilon=1, delta=1e-6, size=2)),
        ("frequent", lambda: private.publish("frequent", epsilon=1, delta=1e-6, k=100)),
        ("search-log", lambda: private.publish("search-log", epsilon=1, delta=1e-6)),
        ("twin", lambda: private.synthesize(epsilon=1, delta=1e-6)),
    ):
        begin, cpu = time.perf_counter(), time.process_time()
        asked()
        took, spent = time.perf_counter() - begin, time.process_time() - cpu
        yield {"name": f"1,000,000 baskets: {name}", "value": took, "unit": "s", "aim": "< 60 s"}
        yield {"name": f"1,000,000 baskets: {name}, CPU", "value": spent, "unit": "s"}
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield {"name": "all of it: memory", "value": held, "unit": "GiB", "aim": "< 4 GiB"}
