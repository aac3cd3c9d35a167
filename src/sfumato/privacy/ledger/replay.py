"""Replay of the chain: the balances follow from the entries alone.

Decision `ledger-head`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError
from sfumato.privacy.accounting.events import from_record
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.chain import FORMAT, ORIGIN, Position, canonical, digest, link
from sfumato.privacy.ledger.large_answers import is_reference
from sfumato.privacy.ledger.rules import cost, damaged, recount

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.filters import Charge
    from sfumato.privacy.ledger.chain import Draft, Entry, Reader
    from sfumato.privacy.ledger.large_answers import AnswerFiles

Record = dict[str, Any]

_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class Verification:
    """What a ledger was found to hold, every entry, balance and answer agreeing."""

    position: Position
    accounts: int
    requests: int


_Open = tuple[str, str, str, str]
"""A charge neither answered nor voided: principal, request, digest of its body, and its entry.

A plain tuple of texts, which the garbage collector does not walk through again and again.
"""


@dataclass
class _Balance:
    parent: str | None
    budget: str
    limits: tuple[tuple[int, ...], ...]
    spent: list[list[int] | None]
    events: Counter[str] = field(default_factory=Counter, compare=False)

    def spend(self, charge: Charge) -> None:
        """Add a charge in place: this runs once for every entry of a long chain."""
        spent = self.spent
        for number, more in enumerate(charge):
            have = spent[number]
            if have is None or more is None:
                spent[number] = None
                continue
            limit = self.limits[number]
            for part, units in enumerate(more):
                if units:
                    total = have[part] = have[part] + units
                    if total > limit[part]:
                        spent[number] = None

    def give_back(self, charge: Charge) -> None:
        """Take a charge out again; a filter that it broke stays broken."""
        for number, less in enumerate(charge):
            have = self.spent[number]
            if have is None or less is None:
                continue
            for part, units in enumerate(less):
                have[part] -= units


@dataclass
class _Replay:
    """The state that entries lead to, taken one after the other."""

    position: Position = field(default_factory=lambda: Position(0, ORIGIN))
    balances: dict[str, _Balance] = field(default_factory=dict)
    datasets: dict[str, str] = field(default_factory=dict)
    open: dict[int, _Open] = field(default_factory=dict)
    requests: int = 0
    fingerprint: int = 0
    _latest: tuple[Record, str] = ({}, "{}")

    def take(self, entry: Entry) -> None:
        """Check that an entry continues the chain, and apply it."""
        seq = self.position.seq + 1
        try:
            if entry.seq != seq or link(self.position.hash, entry.body) != entry.hash:
                raise ValueError("number or hash do not match")
            record, _ = _decode(entry.body)
            if record["seq"] != seq or (record["kind"] == "genesis") != (seq == 1):
                raise ValueError("it stands in the wrong place")
            _APPLY[record["kind"]](self, record, entry.body)
        except (ParameterError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise damaged(f"entry {seq} cannot follow the entries before it ({error})") from None
        self.position = Position(seq, entry.hash)

    def spelled(self, event: Record) -> str:
        """The text of an event; long chains charge the same one again and again."""
        if event != self._latest[0]:
            self._latest = event, canonical(event)
        return self._latest[1]

    def count(self, seq: int, charged: _Open, answered: int | None, answer: str | None) -> None:
        """Count a request that was not voided into the sum of all fingerprints."""
        self.requests += 1
        self.fingerprint += _fingerprint(*charged[:3], seq, answered, answer)


def _genesis(_: _Replay, record: Record, _body: str) -> None:
    if record["format"] != FORMAT:
        raise ValueError(f"only format {FORMAT} is known")


def _account(state: _Replay, record: Record, _body: str) -> None:
    if record["account"] in state.balances:
        raise ValueError("it opens an account again")
    state.balances[record["account"]] = _Balance(record["parent"], "", (), [])
    _limit(state, record, _body)


def _limit(state: _Replay, record: Record, _body: str) -> None:
    balance = state.balances[record["account"]]
    balance.budget = canonical(record["budget"])
    budget = _budget(balance.budget)
    balance.limits = budget.limits()
    balance.spent = record["spent"]
    if record["limits"] != _listed(balance.limits):
        raise ValueError("its limits are not those of its budget")
    if balance.spent != _listed(recount(budget, _decoded(balance.events))):
        raise ValueError("what it says was spent is not what its events cost")


def _dataset(state: _Replay, record: Record, _body: str) -> None:
    if record["dataset"] in state.datasets:
        raise ValueError("it attaches a data set again")
    state.datasets[record["dataset"]] = record["root"]


def _burn(state: _Replay, record: Record, _body: str) -> None:
    event = state.spelled(record["event"])
    for name, charge in record["charges"].items():
        balance = state.balances[name]
        if charge != _units(balance.budget, event):
            raise ValueError("its event costs something else")
        balance.spend(charge)
        balance.events[event] += 1


def _charge(state: _Replay, record: Record, body: str) -> None:
    _burn(state, record, body)
    for name in record["charges"]:
        spent = state.balances[name].spent
        if spent.count(None) == len(spent):
            raise ValueError("it overspends")
    state.open[record["seq"]] = (record["principal"], record["request"], record["body"], body)


def _void(state: _Replay, record: Record, _body: str) -> None:
    *_, body = state.open.pop(record["charge"])
    charged = json.loads(body)
    event = canonical(charged["event"])
    for name, charge in charged["charges"].items():
        state.balances[name].give_back(charge)
        state.balances[name].events[event] -= 1


def _answer(state: _Replay, record: Record, _body: str) -> None:
    seq = record["charge"]
    state.count(seq, state.open.pop(seq), record["seq"], record["digest"])


def _rollback(_state: _Replay, _record: Record, _body: str) -> None:
    """An operator's note that entries were lost; what it burns stands in entries of its own."""


def _record(_state: _Replay, record: Record, _body: str) -> None:
    """What an operator decided of a name: no amount follows from it."""
    if not all(isinstance(record[part], str) for part in ("topic", "name", "operator")):
        raise ValueError("its topic, name or operator is no text")
    if "value" not in record:
        raise ValueError("it decides nothing")


_APPLY = {
    "genesis": _genesis,
    "account": _account,
    "limit": _limit,
    "dataset": _dataset,
    "charge": _charge,
    "burn": _burn,
    "void": _void,
    "answer": _answer,
    "record": _record,
    "rollback": _rollback,
}


@lru_cache(maxsize=4096)
def _units(budget: str, event: str) -> object:
    """What an event costs, as a charge is written down; long chains repeat the same few."""
    return _listed(cost(_budget(budget), from_record(json.loads(event))))


@lru_cache(maxsize=1024)
def _budget(text: str) -> Budget:
    return Budget.from_record(json.loads(text))


def _decoded(events: Counter[str]) -> Iterable[tuple[Event, int]]:
    return [(from_record(json.loads(text)), times) for text, times in events.items() if times]


def _listed(charge: Charge) -> list[list[int] | None]:
    """A charge as JSON gives it back."""
    return [None if part is None else list(part) for part in charge]


def events_seen(draft: Draft) -> dict[str, Iterable[tuple[Event, int]]]:
    """What each account was charged with and not given back, from a chain walked to its end.

    Whoever counts again must not count from an entry that was changed, lost or put in.
    """
    state = _Replay()
    for entry in draft.history():
        state.take(entry)
    if state.position != draft.position:
        raise damaged("its last entry is not the end of its chain")
    return {name: _decoded(balance.events) for name, balance in state.balances.items()}


def check_book(reader: Reader, files: AnswerFiles | None = None) -> Verification:
    """Replay all entries and compare with every stored balance, data set, request and answer."""
    reader.check_storage()
    state = _Replay()
    for entry in reader.entries():
        state.take(entry)
    for seq, charged in state.open.items():
        state.count(seq, charged, None, None)
    if state.position != reader.position():
        raise damaged("the last entry is not the one that the chain leads to")
    _check_accounts(reader, state)
    _check_requests(reader, state, files)
    return Verification(state.position, len(state.balances), state.requests)


def _check_accounts(reader: Reader, state: _Replay) -> None:
    stored = {
        account.name: _Balance(
            account.parent,
            canonical(account.budget.to_record()),
            account.budget.limits(),
            _listed(account.spent),
        )
        for account in reader.accounts()
    }
    for name in sorted(stored.keys() | state.balances.keys()):
        if stored.get(name) != state.balances.get(name):
            raise damaged(f"account {name!r} does not hold what its entries say")
    for name, account in state.datasets.items():
        if reader.dataset(name) != account:
            raise damaged(f"data set {name!r} is not charged to the account of its entry")


def _check_requests(reader: Reader, state: _Replay, files: AnswerFiles | None) -> None:
    total = 0
    for request, row in reader.requests():
        answer = None if row is None else digest(row)
        if row is not None and files is not None and is_reference(row):
            answer = files.file_digest(row)
            if answer is None:
                lost = f"the answer stored by entry {request.answered}"
                raise damaged(f"the file of {lost} is missing or changed")
        total += _fingerprint(*request, answer)
    if total != state.fingerprint:
        raise damaged("the stored requests or answers are not those of the entries")


def _fingerprint(
    principal: str,
    request_id: str,
    body_digest: str,
    charge: int,
    answered: int | None,
    answer: str | None,
) -> int:
    """A number for one request; sums of them agree only for the same set of requests."""
    # Names are printable, so that a line feed separates the parts.
    parts = f"{principal}\n{request_id}\n{body_digest}\n{charge}\n{answered}\n{answer}"
    return int.from_bytes(hashlib.sha256(parts.encode()).digest())


def write_export(reader: Reader, target: TextIO) -> None:
    """Write every entry with its hash as a line of JSON, then the head as the last line."""
    position = Position(0, ORIGIN)
    for entry in reader.entries():
        target.write(_line(entry))
        position = Position(entry.seq, entry.hash)
    target.write(_head(position))


def export_page(reader: Reader, after: int, most: int) -> list[str]:
    """So many lines of the export behind an entry; the head is the last where these are all."""
    lines = [_line(entry) for entry in islice(reader.entries(after), most)]
    return lines if len(lines) == most else [*lines, _head(reader.position())]


def _line(entry: Entry) -> str:
    """An entry with its hash, as a line of JSON."""
    return f'{entry.body[:-1]},"hash":"{entry.hash}"}}\n'


def _head(position: Position) -> str:
    """The last line, which proves that no entry is missing."""
    return canonical({"head": {"hash": position.hash, "seq": position.seq}}) + "\n"
