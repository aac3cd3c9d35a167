"""Replay of the chain: recompute the balances from the entries alone, to check stored ones.

Decision `ledger`.
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
from sfumato.privacy.accounting.event_records import from_record
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.chain import FORMAT, ORIGIN, Position, canonical, digest, link
from sfumato.privacy.ledger.large_answers import is_reference
from sfumato.privacy.ledger.rules import cost, damaged, recount

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from sfumato.privacy.accounting.filters import Charge
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.ledger.chain import Draft, Entry, Reader
    from sfumato.privacy.ledger.large_answers import AnswerFiles

EntryRecord = dict[str, Any]

_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class Verification:
    """The size of a ledger whose entries, balances and answers all agree."""

    position: Position
    accounts: int
    requests: int


_Open = tuple[str, str, str, str]
"""A charge neither answered nor voided: principal, request, digest of its body, and its entry.

A plain tuple of texts, which the garbage collector does not track: chains are long.
"""


@dataclass
class _Balance:
    parent: str | None
    budget: str
    limits: tuple[tuple[int, ...], ...]
    spent: list[list[int] | None]
    events: Counter[str] = field(default_factory=Counter, compare=False)

    def spend(self, charge: Charge) -> None:
        """Add a charge in place, without allocation: it runs once per entry of a long chain."""
        spent = self.spent
        for number, added in enumerate(charge):
            units_spent = spent[number]
            if units_spent is None or added is None:
                spent[number] = None
                continue
            limit = self.limits[number]
            for quantity, units in enumerate(added):
                if units:
                    total = units_spent[quantity] = units_spent[quantity] + units
                    if total > limit[quantity]:
                        spent[number] = None

    def give_back(self, charge: Charge) -> None:
        """Subtract a charge; a filter that it broke stays broken."""
        for number, returned in enumerate(charge):
            units_spent = self.spent[number]
            if units_spent is None or returned is None:
                continue
            for quantity, units in enumerate(returned):
                units_spent[quantity] -= units


@dataclass
class _Replay:
    """The state of the ledger after applying entries one by one."""

    position: Position = field(default_factory=lambda: Position(0, ORIGIN))
    balances: dict[str, _Balance] = field(default_factory=dict)
    datasets: dict[str, str] = field(default_factory=dict)
    open: dict[int, _Open] = field(default_factory=dict)
    requests: int = 0
    fingerprint: int = 0
    _latest: tuple[EntryRecord, str] = ({}, "{}")

    def apply(self, entry: Entry) -> None:
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

    def event_text(self, event: EntryRecord) -> str:
        """The canonical text of an event; the last one is cached, because chains repeat events."""
        if event != self._latest[0]:
            self._latest = event, canonical(event)
        return self._latest[1]

    def count(self, seq: int, charged: _Open, answered: int | None, answer: str | None) -> None:
        """Add a request that was not voided to the sum of fingerprints."""
        self.requests += 1
        self.fingerprint += _fingerprint(*charged[:3], seq, answered, answer)


def _genesis(_: _Replay, record: EntryRecord, _body: str) -> None:
    if record["format"] != FORMAT:
        raise ValueError(f"only format {FORMAT} is known")


def _account(state: _Replay, record: EntryRecord, _body: str) -> None:
    if record["account"] in state.balances:
        raise ValueError("it opens an account again")
    state.balances[record["account"]] = _Balance(record["parent"], "", (), [])
    _limit(state, record, _body)


def _limit(state: _Replay, record: EntryRecord, _body: str) -> None:
    balance = state.balances[record["account"]]
    balance.budget = canonical(record["budget"])
    budget = _budget(balance.budget)
    balance.limits = budget.limits()
    balance.spent = record["spent"]
    # Limits and spending are recomputed: an entry cannot raise a limit or forget a charge.
    if record["limits"] != _as_lists(balance.limits):
        raise ValueError("its limits are not those of its budget")
    if balance.spent != _as_lists(recount(budget, _decoded_events(balance.events))):
        raise ValueError("what it says was spent is not what its events cost")


def _sums(state: _Replay, record: EntryRecord, _body: str) -> None:
    balance = state.balances[record["account"]]
    usual = _budget(balance.budget)
    # The switch must precede every output, or two filters would each have the whole delta.
    if balance.spent != _as_lists(usual.zero()) or any(balance.events.values()):
        raise ValueError("it changes how a used account is counted")
    sums = usual.sums_only()
    if sums is None or record["budget"] != sums.to_record():
        raise ValueError("it changes the guarantee of an account")
    _limit(state, record, _body)


def _dataset(state: _Replay, record: EntryRecord, _body: str) -> None:
    if record["dataset"] in state.datasets:
        raise ValueError("it attaches a data set again")
    state.datasets[record["dataset"]] = record["root"]


def _burn(state: _Replay, record: EntryRecord, _body: str) -> None:
    event = state.event_text(record["event"])
    for name, charge in record["charges"].items():
        balance = state.balances[name]
        # The recorded cost must equal the cost of the recorded event, or it could be understated.
        if charge != _units(balance.budget, event):
            raise ValueError("its event costs something else")
        balance.spend(charge)
        balance.events[event] += 1


def _charge(state: _Replay, record: EntryRecord, body: str) -> None:
    _burn(state, record, body)
    for name in record["charges"]:
        spent = state.balances[name].spent
        # None marks a broken filter; a charge that breaks the last one should have been refused.
        if spent.count(None) == len(spent):
            raise ValueError("it overspends")
    state.open[record["seq"]] = (record["principal"], record["request"], record["body"], body)


def _void(state: _Replay, record: EntryRecord, _body: str) -> None:
    *_, body = state.open.pop(record["charge"])
    charged = json.loads(body)
    event = canonical(charged["event"])
    for name, charge in charged["charges"].items():
        balance = state.balances[name]
        balance.events[event] -= 1
        is_broken = None in balance.spent
        balance.give_back(charge)
        # Entries of earlier versions do not state what is spent; there a broken filter stays so.
        if "spent" not in record:
            continue
        if is_broken:
            recounted = recount(_budget(balance.budget), _decoded_events(balance.events))
            balance.spent = _as_lists(recounted)
        if record["spent"].get(name) != balance.spent:
            raise ValueError("what it says was spent is not what its events cost")
    if record.get("spent", charged["charges"]).keys() != charged["charges"].keys():
        raise ValueError("it states other accounts than it returns to")


def _answer(state: _Replay, record: EntryRecord, _body: str) -> None:
    seq = record["charge"]
    state.count(seq, state.open.pop(seq), record["seq"], record["digest"])


def _rollback(_state: _Replay, _record: EntryRecord, _body: str) -> None:
    """A rollback changes no balance by itself: the budgets it burns have entries of their own."""


def _record(_state: _Replay, record: EntryRecord, _body: str) -> None:
    """A record changes no balance."""
    if not all(isinstance(record[key], str) for key in ("topic", "name", "operator")):
        raise ValueError("its topic, name or operator is no text")
    if "value" not in record:
        raise ValueError("it decides nothing")


_APPLY = {
    "genesis": _genesis,
    "account": _account,
    "limit": _limit,
    "sums": _sums,
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
    """The cost of an event as a charge in JSON, cached: chains repeat the same few events."""
    return _as_lists(cost(_budget(budget), from_record(json.loads(event))))


@lru_cache(maxsize=1024)
def _budget(text: str) -> Budget:
    return Budget.from_record(json.loads(text))


def _decoded_events(events: Counter[str]) -> Iterable[tuple[Charged, int]]:
    return [(from_record(json.loads(text)), times) for text, times in events.items() if times]


def _as_lists(charge: Charge) -> list[list[int] | None]:
    """A charge as JSON decodes it, with lists for tuples."""
    return [None if units is None else list(units) for units in charge]


def standing_charges(draft: Draft) -> dict[str, Iterable[tuple[Charged, int]]]:
    """Every account's charges that were not voided, from a full replay of the chain.

    The chain is verified: recounting a budget from a forged entry could return spent budget.
    """
    state = _Replay()
    for entry in draft.history():
        state.apply(entry)
    if state.position != draft.position:
        raise damaged("its last entry is not the end of its chain")
    return {name: _decoded_events(balance.events) for name, balance in state.balances.items()}


def check_book(reader: Reader, files: AnswerFiles | None = None) -> Verification:
    """Replay all entries and compare with every stored balance, data set, request and answer."""
    reader.check_storage()
    state = _Replay()
    for entry in reader.entries():
        state.apply(entry)
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
            _as_lists(account.spent),
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
    """A hash of one request; sums of hashes compare sets of requests in any order.

    Finding another set with the same sum is infeasible by accident; against an attacker the chain
    of entries protects, not this sum.
    """
    # Names are printable, so a line feed is an unambiguous separator.
    text = f"{principal}\n{request_id}\n{body_digest}\n{charge}\n{answered}\n{answer}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def write_export(reader: Reader, target: TextIO) -> None:
    """Write every entry with its hash as a line of JSON, then the head as the last line."""
    position = Position(0, ORIGIN)
    for entry in reader.entries():
        target.write(_line(entry))
        position = Position(entry.seq, entry.hash)
    target.write(_head(position))


def export_page(reader: Reader, after: int, most: int) -> list[str]:
    """At most `most` lines of the export after an entry; the last page ends with the head."""
    lines = [_line(entry) for entry in islice(reader.entries(after), most)]
    return lines if len(lines) == most else [*lines, _head(reader.position())]


def _line(entry: Entry) -> str:
    """An entry with its hash, as a line of JSON."""
    return f'{entry.body[:-1]},"hash":"{entry.hash}"}}\n'


def _head(position: Position) -> str:
    """The last line, which proves that no entry is missing."""
    return canonical({"head": {"hash": position.hash, "seq": position.seq}}) + "\n"
