"""Attacks on synthetic tables beside Anonymeter's, linking and paths at a million, uniqueness.

Both get the same three tables: people, a release of them, and as many others as control. One
release has kept a third of its rows, one is of other people altogether. Seconds are of the attack
alone, tables being open before: as data frames there, in the engine here, which counts them anew
each time. Of people both link and guess the same ones; which descriptions single out is drawn by
each, by ours ten times as many where it is not timed. Estimates of who is alone in a population are
of samples of one that is known.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from bench._peers import asked
from sfumato.attack.case import Case, HeldRelease, HeldTable
from sfumato.attack.options import attack_options
from sfumato.attack.registry import run
from sfumato.attack.runner import attack
from sfumato.attack.uniqueness import ClassSizes, dankar
from sfumato.data.counting.grouping import keys
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.attack.finding import Finding

DATA = Path(__file__).parents[2] / "shared" / "data"
ADULT = DATA / "adult" / "adult.csv"
POPULATION = DATA / "adult_large" / "adult_1200k.parquet"
ROWS, GUESSES, MANY = 10_000, 1_000, 1_000_000
PEER = "Anonymeter 1.1"
LONGEST = 900
"""Seconds for all attacks of the peer."""
SECRET = "salary-class"


def rows() -> Iterator[dict[str, object]]:
    """Every measurement."""
    yield from _linking()
    yield from _paths()
    if ADULT.exists():
        yield from _beside_anonymeter()
    if POPULATION.exists():
        yield from _populations()


def _beside_anonymeter() -> Iterator[dict[str, object]]:
    table = csv.read_csv(ADULT, parse_options=csv.ParseOptions(delimiter=";"))
    draws = np.random.default_rng(16)
    order = draws.permutation(table.num_rows)
    original, control, fresh = (
        table.take(pa.array(order[place * ROWS : (place + 1) * ROWS])) for place in range(3)
    )
    kept = draws.random(ROWS) < 1 / 3
    leaky = pa.concat_tables([original.filter(pa.array(kept)), fresh.filter(pa.array(~kept))])
    # The peer takes the first of rows that are as near: where people's own stand must not tell.
    leaky = leaky.take(pa.array(draws.permutation(leaky.num_rows)))
    releases, people = (
        {"leaky": leaky, "fresh": fresh},
        {"original": original, "control": control},
    )
    names = [name for name in table.column_names if name != SECRET]
    told = {
        "guesses": GUESSES,
        "first": names[::2],
        "second": names[1::2],
        "secret": SECRET,
        "releases": list(releases),
    }
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        (folder / "told.json").write_text(json.dumps(told))
        few = {f"few_{name}": one.slice(0, GUESSES) for name, one in people.items()}
        for name, one in {**people, **few, **releases}.items():
            csv.write_csv(one, folder / f"{name}.csv")
        theirs: dict[str, Any] = asked("anonymeter", folder, deadline=LONGEST)
    for release, made in releases.items():
        for name in ("singling-out", "linkability", "inference"):
            most = ROWS if name == "singling-out" else GUESSES
            tried = [one.slice(0, most) for one in people.values()]
            found, spent = _timed(name, [made, *tried], told)
            peer = theirs.get(f"{release} {name}")
            yield from _compared(f"{name}, {release} release", found, spent, peer or theirs[""])


def _timed(
    name: str, tables: list[pa.Table], told: dict[str, Any]
) -> tuple[Finding, tuple[float, float]]:
    """What an attack finds, and its best seconds of five by the clock and of the processor."""
    schema = _schema(tables[0], told, name)
    names = [column.name for column in schema.columns]
    spent = []
    with ExitStack() as opened:
        engines = [
            opened.enter_context(closing(open_source(one, declared=names))) for one in tables
        ]
        for guesses in (*[GUESSES] * 5, ROWS):
            released, people, others = (
                HeldTable(one, one.table, tuple(schema.columns)) for one in engines
            )
            options = attack_options(guesses=guesses, first=told["first"], sensitive=SECRET)
            case = Case(
                schema, HeldRelease(released), original=people, control=others, options=options
            )
            started = time.perf_counter(), time.process_time()
            found = run(name, case)
            both = time.perf_counter() - started[0], time.process_time() - started[1]
            if guesses == GUESSES:
                spent.append(both)
    return found, (min(clock for clock, _ in spent), min(cpu for _, cpu in spent))


def _schema(table: pa.Table, told: dict[str, Any], name: str) -> Schema:
    """What is declared; a list that links has no secret."""
    return Schema(
        "adult",
        tuple(
            Column(
                field.name,
                Kind.INTEGER if pa.types.is_integer(field.type) else Kind.TEXT,
                Role.SENSITIVE if field.name == told["secret"] else Role.QUASI,
            )
            for field in table.schema
            if name != "linkability" or field.name != told["secret"]
        ),
    )


def _compared(
    name: str, found: Finding, spent: tuple[float, float], peer: Any
) -> Iterator[dict[str, object]]:
    seconds = {"name": f"{name}: seconds", "value": spent[0], "unit": "s", "peer": PEER}
    cpu = {"name": f"{name}: CPU seconds", "value": spent[1], "unit": "s", "peer": PEER}
    risk = {"name": f"{name}: risk", "value": found.risk, "unit": "", "peer": PEER}
    if isinstance(peer, dict):
        low, high = peer["interval"]
        seconds["peer_value"], cpu["peer_value"] = peer["seconds"]
        seconds["wanted"] = cpu["wanted"] = "at least 20 x"
        inside = "inside" if low <= found.risk <= high else "OUTSIDE"
        risk["peer_value"] = f"{peer['risk']:.3f}"
        risk["wanted"] = f"{inside} {low:.3f} to {high:.3f}"
    else:
        seconds["peer_value"] = cpu["peer_value"] = risk["peer_value"] = str(peer)
    yield from (seconds, cpu, risk)


def _linking() -> Iterator[dict[str, object]]:
    """A list of a million people looked up in a release of a million rows by three labels."""
    draws = np.random.default_rng(17)
    age, town = draws.integers(18, 90, MANY), draws.integers(0, 2_000, MANY)
    sex = np.array(["female", "male"])[draws.integers(0, 2, MANY)]
    names = [Column("age", Kind.INTEGER, Role.QUASI), Column("town", Kind.INTEGER, Role.QUASI)]
    schema = Schema("people", (*names, Column("sex", Kind.TEXT, Role.QUASI)))
    people = pa.table({"age": age, "town": town, "sex": sex})
    low, part = age // 10 * 10, town // 100 * 100
    ranges = [
        [f"{one}-{one + wide - 1}" for one in start.tolist()]
        for start, wide in ((low, 10), (part, 100))
    ]
    release = pa.table({"age": ranges[0], "town": ranges[1], "sex": sex})
    yield from _at_scale(
        f"link, {MANY:,} people in {MANY:,} rows",
        lambda: attack("link", release, schema, known=people),
    )


def _paths() -> Iterator[dict[str, object]]:
    draws = np.random.default_rng(18)
    person = draws.integers(0, 10_000, MANY)
    points = pa.table(
        {
            "person": person,
            "time": draws.integers(0, 7 * 86_400, MANY),
            "lon": np.round(draws.normal(0, 0.1, MANY) + person % 100 / 100, 5),
            "lat": np.round(draws.normal(0, 0.1, MANY), 5),
        }
    )
    yield from _at_scale(f"path, {MANY:,} points of 10,000 people", lambda: attack("path", points))


def _at_scale(name: str, attacked: Callable[[], object]) -> Iterator[dict[str, object]]:
    """Seconds with opening the tables, by the clock and of the processor."""
    started = time.perf_counter(), time.process_time()
    attacked()
    spent = time.perf_counter() - started[0], time.process_time() - started[1]
    for what, value in zip(("seconds", "CPU seconds"), spent, strict=True):
        yield {"name": f"{name}: {what}", "value": value, "unit": "s", "wanted": "under 60 s"}


def _populations() -> Iterator[dict[str, object]]:
    """The estimate of Dankar's rule from samples of a known population, as parts of the truth."""
    people = parquet.read_table(POPULATION).drop_columns([SECRET])
    codes = [
        column.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        for column in people.columns
    ]
    key, _ = keys(codes, [int(one.max()) + 1 for one in codes])
    _, classes, sizes = np.unique(key, return_inverse=True, return_counts=True)
    alone, draws = int((sizes == 1).sum()), np.random.default_rng(19)
    for share in (0.005, 0.01, 0.05, 0.1, 0.2):
        found, names = [], set()
        for _ in range(10):
            drawn = draws.permutation(len(classes))[: round(share * len(classes))]
            rows = np.bincount(classes[drawn])
            name, one = dankar(ClassSizes.of(rows[rows > 0], len(classes)))
            found.append(one / alone)
            names.add(name)
        yield {
            "name": f"alone among {len(classes):,}, from {share:.1%}, of the truth",
            "value": float(np.median(found)),
            "unit": "x",
            "wanted": f"{', '.join(sorted(names))}; {min(found):.2f} to {max(found):.2f} of 10",
        }
