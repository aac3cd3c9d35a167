"""One vault with two doors: the folder opened here, and a real server before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.testing.servers import served
from sfumato.vault.vault import create_vault, open_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.vault.vault import Vault
    from sfumato.vault.vault_api import AnyVault

LOCAL, REMOTE = "local", "remote"
FIRST, LAST = date(1950, 1, 1), date(1959, 12, 31)
PEOPLE = sf.Schema(
    "people",
    (
        sf.Column("id", sf.Kind.INTEGER, nullable=False),
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 110)),
        sf.Column(
            "city",
            sf.Kind.TEXT,
            domain=sf.Values(("Ulm", "Bonn", "Köln")),
            hierarchy=sf.Tree.of({"west": ["Köln", "Bonn"], "south": ["Ulm"]}),
        ),
        sf.Column(
            "income",
            sf.Kind.REAL,
            domain=sf.Bounds(Decimal("0.00"), Decimal("99.50"), Decimal("0.50")),
        ),
        sf.Column("born", sf.Kind.DATE, domain=sf.Bounds(FIRST, LAST)),
        sf.Column("smoker", sf.Kind.BOOLEAN),
    ),
    unit=sf.Entity("id", max_rows=1),
)
VISITS = sf.Schema(
    "visits",
    (
        sf.Column("id", sf.Kind.INTEGER, nullable=False),
        sf.Column("cost", sf.Kind.INTEGER, domain=sf.Bounds(0, 50)),
        sf.Column("kind", sf.Kind.TEXT, domain=sf.Values(("short", "long"))),
    ),
    unit=sf.Entity("id", max_rows=3, max_groups=2),
)
CITIES = sf.Schema(
    "cities",
    (
        sf.Column("city", sf.Kind.TEXT, domain=sf.Values(("Ulm", "Bonn", "Köln"))),
        sf.Column("land", sf.Kind.TEXT, domain=sf.Values(("BW", "NW"))),
    ),
)
ROWS = 400


def people() -> pa.Table:
    """Some people, the same at every call."""
    numbers = np.arange(ROWS)
    days = np.datetime64(FIRST, "D") + (numbers * 9) % 3652
    return pa.table(
        {
            "id": numbers,
            "age": (numbers * 7) % 111,
            "city": pa.array(["Ulm", "Bonn", "Köln"]).take(pa.array(numbers % 3)),
            "income": (numbers % 200) / 2.0,
            "born": pa.array(days),
            "smoker": pa.array((numbers % 4 == 0).tolist()),
        }
    )


def visits() -> pa.Table:
    """What these people had done, up to three times each."""
    numbers = np.arange(2 * ROWS)
    return pa.table(
        {
            "id": numbers % ROWS,
            "cost": numbers % 51,
            "kind": pa.array(["short", "long"]).take(pa.array(numbers % 2)),
        }
    )


@dataclass(frozen=True)
class Doors:
    """A vault behind a server, and what opens it."""

    vault: Vault
    """The server's own."""
    url: str
    tokens: dict[str, str]

    def open(self, door: str, principal: str = "owner") -> Any:
        """The vault by a door: the one line of a notebook that changes."""
        if door == LOCAL:
            return open_vault(self.vault.config.folder)
        return sf.connect(self.url, self.tokens[principal])


def make_vault(folder: Path) -> Vault:
    """A vault of people, of their visits and of cities, with two who may ask besides its owner."""
    tables = {"people": people(), "visits": visits()}
    cities = pa.table({"city": ["Ulm", "Bonn", "Köln"], "land": ["BW", "NW", "NW"]})
    for name, table in {**tables, "cities": cities}.items():
        pq.write_table(table, folder / f"{name}.parquet")
    vault = create_vault(folder / "vault")
    vault.add("people", folder / "people.parquet", PEOPLE, epsilon=10, delta="1e-6")
    vault.add("visits", folder / "visits.parquet", VISITS, population="people")
    vault.add("cities", folder / "cities.parquet", CITIES, public=True, unique=["city"])
    for name in ("ann", "bob"):
        vault.people.add(name, "permanent-staff", operator="root")
    vault.people.grant("ann", epsilon=5, delta="1e-7", population="people", operator="root")
    return vault


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with make_vault(tmp_path_factory.mktemp("doors")) as vault, served(vault) as server:
        tokens = {name: vault.tokens.new(name, operator="root") for name in ("owner", "ann", "bob")}
        yield Doors(vault, server.url, tokens)


@pytest.fixture(scope="module")
def local(doors: Doors) -> Iterator[AnyVault]:
    with doors.open(LOCAL) as vault:
        yield vault


@pytest.fixture(scope="module")
def remote(doors: Doors) -> Iterator[AnyVault]:
    with doors.open(REMOTE) as vault:
        yield vault


@pytest.fixture(params=[LOCAL, REMOTE])
def vault(request: pytest.FixtureRequest) -> AnyVault:
    """The vault by either door."""
    found: AnyVault = request.getfixturevalue(request.param)
    return found
