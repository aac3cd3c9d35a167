"""The history of questions asked in the console, each with the ledger entry of its answer.

The ledger keeps answers and costs, but not the text of a question. An answer is read again under
its receipt, so looking at it never charges anybody.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select

from sfumato.privacy.ledger.chain import utc_now
from sfumato.release.files_in_use import CONSOLE
from sfumato.report.display import Card, Shown
from sfumato.text import dumps
from sfumato.vault.config import PrivateSet
from sfumato.vault.releases import stored_answer
from sfumato.vault.side_database import Name, SideDatabase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Row

    from sfumato.vault.answer import Answer
    from sfumato.vault.vault import Vault

_metadata = MetaData()
_questions = Table(
    "sfumato_console_questions",
    _metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("principal", Name, nullable=False, index=True),
    Column("request", Name, nullable=False),
    Column("asked", Text, nullable=False),
    Column("datasets", Text, nullable=False),
    Column("entry", Name, nullable=False),
    Column("charged", Integer, nullable=False),
    Column("time", Name, nullable=False),
)


@dataclass(frozen=True)
class AskedBefore:
    """A question of the past: its request, what was asked, and when it was answered."""

    request: str
    asked: Mapping[str, str]
    time: datetime
    datasets: tuple[str, ...]
    entry: str
    charged: bool
    """Whether it was charged then, and not before."""


class History(Shown):
    """The questions of a vault's principals, as they asked them in the console."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._store = SideDatabase(vault.config, CONSOLE, _metadata, "questions")

    def _card(self) -> Card:
        return Card("questions of the console", {})

    def add(
        self, principal: str, request: str, asked: Mapping[str, str], answer: Answer,
        datasets: Sequence[str],
    ) -> str:  # fmt: skip
        """Add an answered question, once, however often it was sent; return its request id.

        If the id stands for another question already, a new id is made.
        """
        row = {
            "principal": principal,
            "request": request,
            "asked": dumps(dict(asked)),
            "datasets": dumps(list(datasets)),
            "entry": answer.entry,
            "charged": int(answer.charged),
            "time": utc_now().isoformat(timespec="seconds"),
        }
        with self._store.writing() as connection:
            held = connection.execute(_of(principal, request)).first()
            if held is not None and json.loads(held.asked) == asked:
                return request
            stored_request = request if held is None else token_urlsafe(16)
            connection.execute(insert(_questions).values({**row, "request": stored_request}))
        return stored_request

    def list(self, principal: str, most: int = 100) -> list[AskedBefore]:
        """A principal's questions, the last first."""
        newest = select(_questions).where(_questions.c.principal == principal)
        ordered = newest.order_by(_questions.c.number.desc()).limit(most)
        with self._store.reading() as connection:
            return [_read(row) for row in connection.execute(ordered)]

    def get(self, principal: str, request: str) -> AskedBefore | None:
        """A question of a principal, or None."""
        with self._store.reading() as connection:
            row = connection.execute(_of(principal, request)).first()
        return None if row is None else _read(row)

    def answer(self, principal: str, question: AskedBefore) -> Answer:
        """The stored answer to a question, with the balance of today."""
        held = [self._vault.config.datasets.get(name) for name in question.datasets]
        populations = {dataset.population for dataset in held if isinstance(dataset, PrivateSet)}
        purpose = question.asked.get("purpose") or None
        asker = self._vault.principal_registry.asker(principal, purpose, tuple(sorted(populations)))
        stored = stored_answer(self._vault.ledger, question.entry)
        return self._vault.gatekeeper.read(stored, asker, charged=question.charged)

    def close(self) -> None:
        """Close the database."""
        self._store.close()


def _of(principal: str, request: str) -> Any:
    same_request = _questions.c.principal == principal, _questions.c.request == request
    return select(_questions).where(*same_request)


def _read(row: Row[Any]) -> AskedBefore:
    when = datetime.fromisoformat(row.time).astimezone(UTC)
    datasets = tuple(json.loads(row.datasets))
    asked, charged = json.loads(row.asked), bool(row.charged)
    return AskedBefore(row.request, asked, when, datasets, row.entry, charged)
