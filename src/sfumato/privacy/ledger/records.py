"""Records: what operators decided of a name, in the same chain as the charges.

A record has a topic, a name and a value; the last value of a name stands, null takes it back.
There is no table of them: they are read from the chain, once, and then only what came behind.
Entries that were lost may have taken something back, so a rollback ends all records before it.
Decision `ledger-stores`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError
from sfumato.privacy.ledger import rules
from sfumato.privacy.ledger.chain import ORIGIN, Position, canonical, link
from sfumato.privacy.ledger.replay import events_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sfumato.privacy.accounting.filters import Budget
    from sfumato.privacy.ledger.chain import Account, Draft, Entry, Reader

_LONGEST_VALUE = 64 * 1024
"""Of a value in JSON; the chain is read as a whole, and kept for good."""


_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Decided:
    """What operators decided, at one moment: values by topic and name."""

    records: Mapping[str, Mapping[str, Any]]
    time: datetime
    """The later of the clock and of the last entry: a clock put back brings nothing back."""

    def of(self, topic: str) -> Mapping[str, Any]:
        """What stands of every name of a topic; whoever gets it does not change it."""
        return self.records.get(topic, {})


@dataclass(frozen=True)
class BookState(Decided):
    """What stands while nobody else writes, with the accounts by name."""

    accounts: Mapping[str, Account]


@dataclass(frozen=True)
class Amendment:
    """Budgets and records that change together: accounts to open or to limit anew, values."""

    budgets: Mapping[str, Budget] = field(default_factory=dict)
    records: Mapping[tuple[str, str], object] = field(default_factory=dict)
    """Values by topic and name; None takes one back."""


class RecordCache:
    """All records up to a position, read on from there when the chain has grown."""

    def __init__(self) -> None:
        self._state = _State()  # put in its place as a whole: threads may each read on from it

    def read(self, reader: Reader) -> _State:
        """The records as a reader sees them; whoever gets them does not change them."""
        position = reader.position()
        state = self._state
        if state.position != position:
            state = self._state = self._read_on(reader, position)
        return state

    def peek(self, draft: Draft) -> _State:
        """The records as they stand in a draft, which may yet come to nothing."""
        return self._read_on(draft, draft.position)

    def _read_on(self, book: Draft | Reader, position: Position) -> _State:
        state = self._state
        known = book.entry(state.position.seq)
        if known is None or known.hash != state.position.hash:
            state = _State()  # another chain, as after a restored backup
        last = rules.linked(book, position.seq) if position.seq > 1 else None
        return state.read_on(book.records(state.position.seq), last, position)


@dataclass(frozen=True)
class _State:
    position: Position = field(default_factory=lambda: Position(0, ORIGIN))
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    time: datetime = _NEVER

    def read_on(
        self, records: Iterable[tuple[Entry, str | None]], last: Entry | None, position: Position
    ) -> _State:
        """The state once more records were read, each checked against its hash."""
        values = {topic: dict(named) for topic, named in self.values.items()}
        for entry, before in records:
            if before is None or link(before, entry.body) != entry.hash:
                raise rules.damaged(f"entry {entry.seq} is changed, or the one before it is gone")
            _apply(values, json.loads(entry.body))
        time = self.time if last is None else datetime.fromisoformat(json.loads(last.body)["time"])
        return _State(position, values, time)


def _apply(values: dict[str, dict[str, Any]], record: dict[str, Any]) -> None:
    if record["kind"] == "rollback":
        values.clear()
    elif record["value"] is None:
        values.get(record["topic"], {}).pop(record["name"], None)
    else:
        values.setdefault(record["topic"], {})[record["name"]] = record["value"]


def write_record(draft: Draft, topic: str, name: str, value: object, operator: str) -> None:
    """Add a record to the chain."""
    _check(topic, name, value, operator)
    draft.append("record", topic=topic, name=name, value=value, operator=operator)


def amend(
    draft: Draft, decide: Callable[[BookState], Amendment], operator: str, known: RecordCache
) -> Amendment:
    """Let somebody decide by what stands, and write all of it or nothing."""
    rules.check_name(operator, "operator")
    accounts = {one.name: one for one in draft.all_accounts()}
    state = known.peek(draft)
    amendment = decide(BookState(state.values, max(draft.now(), state.time), accounts))
    for (topic, name), value in amendment.records.items():
        _check(topic, name, value, operator)
    limits = {name: one for name, one in amendment.budgets.items() if name in accounts}
    opened = {name: one for name, one in amendment.budgets.items() if name not in accounts}
    for name in opened:
        rules.check_opening(draft, name)
    seen = events_seen(draft) if limits else {}
    planned = [
        rules.planned_limit(draft, name, budget, seen.get(name, ()))
        for name, budget in limits.items()
    ]
    # From here on nothing is refused.
    for account, budget, spent in planned:
        rules.write_limit(draft, account, budget, spent, operator=operator)
    for name, budget in opened.items():
        rules.open_account(draft, name, budget, None)
    for (topic, name), value in amendment.records.items():
        write_record(draft, topic, name, value, operator)
    return amendment


def _check(topic: str, name: str, value: object, operator: str) -> None:
    for word, what in ((topic, "topic"), (name, "name"), (operator, "operator")):
        rules.check_name(word, what)
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
