"""A vault of people with a server before it, and those who may ask it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.testing.servers import Client, served
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sfumato.server.settings import Limits
    from sfumato.vault.vault import Vault

SCHEMA = """\
table = "people"
[columns.sex]
role = "quasi"
kind = "text"
values = ["f", "m"]
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 99]
[columns.ill]
role = "sensitive"
kind = "text"
"""
HEAD = "sex,age,ill"
ROWS = tuple(f"{'fm'[n % 2]},{n % 90},{('flu', 'gout')[n % 2]}" for n in range(300))
OTHERS = tuple(f"{'fm'[n % 2]},{(n * 7) % 80},gout" for n in range(200))
COUNT = "SELECT COUNT(*) AS n FROM people"


@dataclass(frozen=True)
class Served:
    """A vault, where it is served, and who may ask it."""

    vault: Vault
    url: str
    owner_link: str
    owner: Client
    alice: Client
    """Permanent staff, with a budget for people."""
    bob: Client
    """Permanent staff, with a budget for others alone."""
    nobody: Client


def people_vault(home: Path, rows: Sequence[str] = ROWS) -> Vault:
    """A vault of people and of others, in which Alice and Bob may each ask about one."""
    home.mkdir(exist_ok=True)
    for name, held in (("people", rows), ("others", OTHERS)):
        (home / f"{name}.csv").write_text("\n".join([HEAD, *held]) + "\n")
        (home / f"{name}.toml").write_text(SCHEMA)
    vault = create_vault(home / "clinic")
    vault.add("people", home / "people.csv", home / "people.toml", epsilon=8)
    vault.add("others", home / "others.csv", home / "others.toml", epsilon=8)
    for name, population in (("alice", "people"), ("bob", "others")):
        vault.people.add(name, "permanent-staff", epsilon=6, population=population, operator="Ann")
    return vault


@contextmanager
def people_served(
    home: Path, rows: Sequence[str] = ROWS, limits: Limits | None = None
) -> Iterator[Served]:
    """A server before such a vault."""
    with people_vault(home, rows) as vault, served(vault, limits=limits) as server:
        owner, alice, bob = (
            Client(server.url, vault.tokens.new(name, operator="Ann"))
            for name in ("owner", "alice", "bob")
        )
        assert server.owner_link is not None
        nobody = Client(server.url)
        yield Served(vault, server.url, server.owner_link, owner, alice, bob, nobody)
