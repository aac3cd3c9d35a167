"""An answer that was paid for, as every door shows it, and the index of stored answers."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

from sfumato.exact_numbers import plain
from sfumato.methods.query.page import notes, show_answer
from sfumato.release.codec import to_bytes
from sfumato.release.release import SHOWN, Release
from sfumato.report.display import CardTable
from sfumato.text import dumps
from sfumato.vault.failure_log import open_to_append

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.chain import Key


@dataclass(frozen=True, repr=False)
class Answer(Release):
    """A release that was paid for, with its cost, whether it was charged now, and the balance."""

    cost: Mapping[str, float] = field(default_factory=dict)
    charged: bool = True
    remaining: Mapping[str, float] = field(default_factory=dict)
    balance: str = ""
    """What is left, in one line: 'epsilon 2.5 of 3 left, delta 1e-6'."""
    entry: str = ""
    """The number and hash of its ledger entry, for the vault itself; doors show the receipt."""

    def _facts(self) -> dict[str, Any]:
        paid = "" if self.charged else ", paid for before"
        return {"Cost": f"{self.cost_in_words}{paid}", "Left": self.balance}

    def _remarks(self) -> list[str]:
        return [*notes(self), *self._notes]

    def _rows(self) -> CardTable:
        """The first rows as people read them, a bar beside every figure."""
        text_table, titles, right = show_answer(self, SHOWN), [], []
        for column in text_table.columns:
            bars = [] if column.bars is None else [column.bar_title]
            titles += [column.name, *bars]
            right += [column.is_number, *(True for _ in bars)]
        rows = list(text_table.rows)
        return CardTable(titles, rows, self.table.num_rows - len(rows), right)

    def to_json(self, written: Sequence[Path] = ()) -> dict[str, Any]:
        """The answer in the form that programs get, by every door; its rows unless `written`."""
        rows = [[_plain(value) for value in row.values()] for row in self.table.to_pylist()]
        return {
            **(self.summary() if written else {"columns": self.table.column_names, "rows": rows}),
            **({"totals": self.totals} if self.totals and not written else {}),
            "error": self.error,
            "cost": {**self.cost, "charged": self.charged},
            "remaining": self.remaining,
            "receipt": self.receipt,
            **({} if written else {"notes": [*notes(self), *self._notes]}),
            **({"written": [str(path) for path in written]} if written else {}),
        }

    @property
    def totals(self) -> Mapping[str, list[int]]:
        """By column the rows, from 0, in which NULL stands for all values: those of a ROLLUP.

        In other rows NULL means a missing value.
        """
        totals: Mapping[str, list[int]] = self.provenance.parameters.get("all") or {}
        return totals

    @property
    def cost_in_words(self) -> str:
        """What it cost: 'epsilon 0.3, delta 1e-6'."""
        # Rounded up: a cost in words is never below what was charged.
        return ", ".join(
            f"{name} {plain(Fraction(repr(amount)), digits=6, up=True)}"
            for name, amount in self.cost.items()
        )

    @property
    def _notes(self) -> Sequence[str]:
        notes: Sequence[str] = self.guarantee.parameters.get("notes", ())
        return notes

    @property
    def in_folder(self) -> bool:
        """Whether it is written as a folder of tables, and not as one file."""
        return len(self.tables) > 1

    @property
    def in_short(self) -> Sequence[str]:
        """Lines for people about the written files, besides guarantee and error."""
        return ()

    def summary(self) -> dict[str, Any]:
        """Its tables by their lengths, and the choices that were made for them."""
        return {
            "tables": {name: table.num_rows for name, table in self.tables.items()},
            "choices": self.provenance.parameters.get("method"),
        }


def paid_under(answer: Answer, ledger: Ledger, principal: str, request_id: str | None) -> bool:
    """Whether a principal paid for an answer under this request id, now or at an earlier attempt.

    An answer that cost nothing now may have been paid for by a request whose answer got lost.
    """
    if answer.charged or request_id is None:
        return answer.charged
    entry = ledger.entry(int(answer.entry.partition(":")[0]))
    charge = {} if entry is None else json.loads(entry.body)
    return (charge.get("principal"), charge.get("request")) == (principal, request_id)


def _plain(value: object) -> object:
    # JSON has no NaN and no infinity.
    if isinstance(value, float) and not isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class AnswerIndex:
    """The requests under which each question was answered, in memory or in a folder.

    A file has a line for each answer. Lines are added in one write and never synced: a line that a
    power cut or a crash destroys costs at most another charge for its question.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, str]] = {}

    def requests_of(self, body: str) -> list[Key]:
        """The requests that answered a question, of every principal."""
        return list(self._read(body).items())

    def note(self, body: str, key: Key) -> None:
        """Remember that a question was answered; the answer is already safe without this."""
        principal, request_id = key
        if self._folder is None:
            self._known[body] = {**self._known.get(body, {}), principal: request_id}
            return
        # The ledger has the answer already; an index that cannot be written must not take it back.
        with suppress(OSError):
            handle = open_to_append(self._folder / f"{body}.json")
            try:
                os.write(handle, f"{dumps({principal: request_id})}\n".encode())
            finally:
                os.close(handle)

    def _read(self, body: str) -> dict[str, str]:
        if self._folder is None:
            return self._known.get(body, {})
        try:
            lines = (self._folder / f"{body}.json").read_bytes().splitlines()
        except OSError:
            return {}
        # Of two lines about one principal the later stands: the earlier request may be lost.
        return dict(pair for line in lines for pair in _read_line(line))


def _read_line(line: bytes) -> list[Key]:
    """The requests in a line; none in a line that is not in our form."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return []
    pairs = record.items() if isinstance(record, dict) else ()
    return [
        (principal, request_id) for principal, request_id in pairs if isinstance(request_id, str)
    ]


def packed(answer: Answer, *, paid: bool) -> bytes:
    """An answer with everything that it says, as bytes; `paid` under this very request or not."""
    beside = {
        "cost": answer.cost,
        "charged": answer.charged,
        "paid": paid,
        "remaining": answer.remaining,
        "balance": answer.balance,
    }
    return dumps(beside, ensure_ascii=False).encode() + b"\n" + to_bytes(answer)
