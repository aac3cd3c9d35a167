"""Records: decisions of operators, in the same hash chain as the charges.

A record has a topic, a name and a value; the last value of a name is current, null revokes it.
There is no table of records: they are read from the chain once, then only what was appended.
Lost entries may have revoked a record, so a rollback revokes all records before it. Decision
`ledger`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError
from sfumato.privacy.ledger import rules
from sfumato.privacy.ledger.chain import ORIGIN, Position, canonical, link
from sfumato.privacy.ledger.replay import standing_charges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sfumato.privacy.accounting.filters import Budget
    from sfumato.privacy.ledger.chain import Account, Draft, Entry, Reader

_LONGEST_VALUE = 64 * 1024
"""The most characters of a value in JSON: the chain is kept permanently and read as a whole."""

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Decisions:
    """The current records at one moment: values by topic and name."""

    records: Mapping[str, Mapping[str, Any]]
    time: datetime
    """The later of the clock and the last entry's time, so that setting the clock back does not
    revive anything that has expired."""

    def of(self, topic: str) -> Mapping[str, Any]:
        """The current values of a topic by name; read-only for the caller."""
        return self.records.get(topic, {})


@dataclass(frozen=True)
class BookState(Decisions):
    """The current records under the write lock, with the accounts by name."""

    accounts: Mapping[str, Account]


@dataclass(frozen=True)
class Amendment:
    """Budgets and records that change together: budgets by account, which is opened if unknown."""

    budgets: Mapping[str, Budget] = field(default_factory=dict)
    records: Mapping[tuple[str, str], object] = field(default_factory=dict)
    """Values by topic and name; None revokes one."""


class RecordCache:
    """All records up to a position, extended when the chain has grown."""

    def __init__(self) -> None:
        self._state = _RecordState()  # replaced as a whole, so that threads may read it unlocked

    def read(self, reader: Reader) -> _RecordState:
        """The records as a reader sees them; read-only for the caller."""
        position = reader.position()
        state = self._state
        if state.position != position:
            state = self._state = self._read_on(reader, position)
        return state

    def peek(self, draft: Draft) -> _RecordState:
        """The records in a draft; not cached, because the draft may still be rolled back."""
        return self._read_on(draft, draft.position)

    def _read_on(self, book: Draft | Reader, position: Position) -> _RecordState:
        state = self._state
        entry = book.entry(state.position.seq)
        if entry is None or entry.hash != state.position.hash:
            state = _RecordState()  # another chain, as after a restored backup
        last = rules.linked(book, position.seq) if position.seq > 1 else None
        return state.read_on(book.records(state.position.seq), last, position)


@dataclass(frozen=True)
class _RecordState:
    position: Position = field(default_factory=lambda: Position(0, ORIGIN))
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    time: datetime = _NEVER

    def read_on(
        self, records: Iterable[tuple[Entry, str | None]], last: Entry | None, position: Position
    ) -> _RecordState:
        """The state after more records, each checked against its hash."""
        values = {topic: dict(named) for topic, named in self.values.items()}
        for entry, before in records:
            if before is None or link(before, entry.body) != entry.hash:
                raise rules.damaged(f"entry {entry.seq} is changed, or the one before it is gone")
            _apply(values, json.loads(entry.body))
        time = self.time if last is None else datetime.fromisoformat(json.loads(last.body)["time"])
        return _RecordState(position, values, time)


def _apply(values: dict[str, dict[str, Any]], record: dict[str, Any]) -> None:
    if record["kind"] == "rollback":
        # Lost entries may have revoked any of these records, so a rollback revokes all of them.
        values.clear()
    elif record["value"] is None:
        values.get(record["topic"], {}).pop(record["name"], None)
    else:
        values.setdefault(record["topic"], {})[record["name"]] = record["value"]


def write_record(draft: Draft, topic: str, name: str, value: object, operator: str) -> None:
    """Add a record to the chain."""
    _check_record(topic, name, value, operator)
    draft.append("record", topic=topic, name=name, value=value, operator=operator)


def amend(
    draft: Draft, decide: Callable[[BookState], Amendment], operator: str, cache: RecordCache
) -> Amendment:
    """Write the amendment that `decide` makes of the current state; all of it or nothing."""
    rules.check_name(operator, "operator")
    accounts = {account.name: account for account in draft.all_accounts()}
    state = cache.peek(draft)
    amendment = decide(BookState(state.values, max(draft.current_time(), state.time), accounts))
    for (topic, name), value in amendment.records.items():
        _check_record(topic, name, value, operator)
    # Check everything first. The replay of standing charges is slow, so it runs only if a budget of
    # an open account changes.
    limits = {name: budget for name, budget in amendment.budgets.items() if name in accounts}
    opened = {name: budget for name, budget in amendment.budgets.items() if name not in accounts}
    for name in opened:
        rules.check_opening(draft, name)
    earlier_charges = standing_charges(draft) if limits else {}
    planned = [
        rules.planned_limit(draft, name, budget, earlier_charges.get(name, ()))
        for name, budget in limits.items()
    ]
    # All checks are done: from here on nothing may be refused, or the amendment would be partial.
    for account, budget, spent in planned:
        rules.write_limit(draft, account, budget, spent, operator=operator)
    for name, budget in opened.items():
        rules.open_account(draft, name, budget, None)
    for (topic, name), value in amendment.records.items():
        write_record(draft, topic, name, value, operator)
    return amendment


def _check_record(topic: str, name: str, value: object, operator: str) -> None:
    for text, kind in ((topic, "topic"), (name, "name"), (operator, "operator")):
        rules.check_name(text, kind)
    try:
        length = len(canonical(value))
    except (TypeError, ValueError, RecursionError):
        raise ParameterError(
            "record_invalid", "The value of a record must be plain JSON: texts, numbers, lists."
        ) from None
    if length > _LONGEST_VALUE:
        raise ParameterError(
            "record_invalid",
            f"The value of a record may have {_LONGEST_VALUE:,} characters in JSON, not "
            f"{length:,}.",
            hint="Write down less.",
        )
