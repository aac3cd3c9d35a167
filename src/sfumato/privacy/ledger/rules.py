"""The rules of the book: what may be written, given what stands in it.

Each rule checks everything before it writes anything, so that a refused operation leaves its draft
untouched and the others of the same group commit go through.

Decision `ledger-stores`. Decision `ledger-head`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from secrets import token_hex
from typing import TYPE_CHECKING

from sfumato.errors import BudgetError, CallerError, LedgerError, ParameterError
from sfumato.privacy.accounting.balance import explain_shortage
from sfumato.privacy.accounting.events import ApproxEvent, Event, PureEvent, to_record
from sfumato.privacy.accounting.filters import Budget, Charge, charge_from_record
from sfumato.privacy.accounting.losses import Approx
from sfumato.privacy.ledger.chain import (
    Account,
    ChargeRequest,
    Draft,
    Entry,
    Position,
    digest,
    link,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.privacy.ledger.chain import Reader

_LONGEST_NAME = 200


def open_account(draft: Draft, name: str, budget: Budget, parent: str | None) -> Account:
    """Open an account, or find it as it stands: opening it again never resets it."""
    check_name(name, "account")
    account = draft.account(name)
    if account is not None:
        if (account.parent, account.budget) != (parent, budget):
            raise ParameterError(
                "name_taken",
                f"Account {name!r} already exists with another budget or parent.",
                hint="Open it unchanged, or let its owner set a new limit.",
            )
        return account
    check_opening(draft, name)
    if parent is not None:
        _check_share(name, budget, parent, known(draft, parent).budget)
    account = _open(draft, name, budget, parent)
    # Once entries were lost, nobody knows whether this account stood, and spent, in them.
    return _burn(draft, account, [budget]) if draft.recorded(kind="rollback") else account


def check_opening(draft: Draft, name: str) -> None:
    """Refuse to open an account that cannot be named, or that the chain knows already."""
    check_name(name, "account")
    if draft.recorded(account=name):
        raise damaged(f"account {name!r} was opened, yet its row is gone")


def _open(draft: Draft, name: str, budget: Budget, parent: str | None) -> Account:
    account = Account(name, parent, budget, budget.zero())
    draft.append(
        "account",
        account=name,
        parent=parent,
        budget=budget.to_record(),
        limits=budget.limits(),
        spent=account.spent,
    )
    draft.accounts[name] = account
    draft.opened.add(name)
    return account


def attach(draft: Draft, dataset: str, account: str) -> None:
    """Charge a data set to an account for good; data sets about the same people share one."""
    check_name(dataset, "data set")
    known(draft, account)
    current = draft.dataset(dataset)
    if current == account:
        return
    if current is not None:
        raise ParameterError(
            "dataset_attached",
            f"Data set {dataset!r} is charged to account {current!r} and cannot move to "
            f"{account!r}: that would give it a fresh budget.",
        )
    if draft.recorded(dataset=dataset):
        raise damaged(f"data set {dataset!r} was attached, yet its row is gone")
    draft.append("dataset", dataset=dataset, root=account)
    draft.datasets[dataset] = account


def set_limit(
    draft: Draft, name: str, budget: Budget, operator: str, seen: Iterable[tuple[Event, int]]
) -> Account:
    """Give an account another budget, charged with every event that it has already seen."""
    check_name(operator, "operator")
    return write_limit(draft, *planned_limit(draft, name, budget, seen), operator=operator)


def planned_limit(
    draft: Draft, name: str, budget: Budget, seen: Iterable[tuple[Event, int]]
) -> tuple[Account, Budget, Charge]:
    """An account, its next budget and what it has spent of that; refused where it is too small."""
    account = known(draft, name)
    if account.parent is not None:
        _check_share(name, budget, account.parent, known(draft, account.parent).budget)
    for other in draft.all_accounts():
        if other.parent == name:
            _check_share(other.name, other.budget, name, budget)
    spent = recount(budget, seen)
    if all(part is None for part in spent):
        raise ParameterError(
            "budget_out_of_range",
            f"The new limit of account {name!r} is below what was already spent from it.",
            hint="Give a higher limit.",
        )
    return account, budget, spent


def write_limit(
    draft: Draft, account: Account, budget: Budget, spent: Charge, *, operator: str
) -> Account:
    """Give an account another budget, of which so much is spent."""
    account = replace(account, budget=budget, spent=spent)
    draft.append(
        "limit",
        account=account.name,
        budget=budget.to_record(),
        limits=budget.limits(),
        operator=operator,
        spent=spent,
    )
    draft.accounts[account.name] = account
    return account


def reserve(
    draft: Draft,
    event: Event,
    record: dict[str, object],
    accounts: Iterable[str],
    *,
    principal: str,
    request_id: str,
    body_digest: str,
    mark: str | None = None,
) -> int:
    """Charge an event to accounts and all their ancestors, all or none; return the entry."""
    asked = sorted(set(accounts))
    if not asked:
        raise ParameterError("parameter_missing", "A charge must name at least one account.")
    earlier = draft.request((principal, request_id))
    if earlier is not None:
        raise _refuse_repetition(earlier, body_digest)
    charges: dict[str, Charge] = {}
    charged: dict[str, Account] = {}
    for account in _with_ancestors(draft, asked):
        charge = cost(account.budget, event)
        spent = account.budget.add(account.spent, charge)
        if all(part is None for part in spent):
            raise exhausted(account, event, own=account.name in asked)
        charges[account.name] = charge
        charged[account.name] = replace(account, spent=spent)
    flight = {} if mark is None else {"flight": mark}
    seq = draft.append(
        "charge",
        **flight,
        body=body_digest,
        charges=charges,
        event=record,
        principal=principal,
        request=request_id,
    )
    draft.accounts.update(charged)
    draft.requests[principal, request_id] = ChargeRequest(principal, request_id, body_digest, seq)
    return seq


def void(draft: Draft, request: ChargeRequest) -> None:
    """Give a charge back, if it is still the open charge that its holder reserved."""
    _check_open(draft, request)
    charges = charges_of(draft, request.charge)
    draft.append("void", charge=request.charge)
    for name, charge in charges.items():
        account = known(draft, name)
        draft.accounts[name] = replace(account, spent=give_back(account.spent, charge))
    draft.requests[request.key] = None


def store(
    draft: Draft, request: ChargeRequest, answer: bytes, row: bytes, consent: Mapping[str, int]
) -> None:
    """Keep the answer of an open charge, so that the same request gets it again for nothing.

    `row` is the answer itself, or a reference to its file.

    `consent` is by which version of each registry people were seen: the owner's to know. Whoever
    holds the receipts before and after could try versions until the hashes fit, but for the salt.
    """
    _check_open(draft, request)
    seen = {"consent": {"salt": token_hex(16), "versions": dict(consent)}} if consent else {}
    seq = draft.append("answer", charge=request.charge, digest=digest(answer), **seen)
    draft.requests[request.key] = request._replace(answered=seq)
    draft.keep_answer(request, row, len(answer))


def acknowledge(
    draft: Draft,
    lost: Position | None,
    operator: str,
    declared: Mapping[str, Budget],
    seen: Mapping[str, Iterable[tuple[Event, int]]],
) -> None:
    """Charge every account, kept or declared, with its whole guarantee.

    Nobody knows what the lost entries spent, nor which accounts they opened; whatever they did, the
    filters kept it within the guarantee. A declared budget other than the one kept was perhaps set
    by a lost entry: it takes its place, and the larger of both is burnt.
    """
    check_name(operator, "operator")
    record = None if lost is None else {"seq": lost.seq, "hash": lost.hash}
    draft.append("rollback", lost=record, operator=operator)
    kept = {account.name: account for account in draft.all_accounts()}
    for name in declared.keys() - kept.keys():
        check_opening(draft, name)
    for name in sorted(kept.keys() | declared.keys()):
        account = kept.get(name) or _open(draft, name, declared[name], None)
        before, budget = account.budget, declared.get(name, account.budget)
        if budget != before:
            spent = recount(budget, seen.get(name, ()))
            account = write_limit(draft, account, budget, spent, operator=operator)
        _burn(draft, account, [before, budget])


def _burn(draft: Draft, account: Account, guarantees: Iterable[Budget]) -> Account:
    """Charge an account with the largest of some guarantees, whatever is left of it."""
    losses = [budget.loss() for budget in guarantees]
    epsilon = max(loss.epsilon for loss in losses)
    deltas = [loss.delta for loss in losses if isinstance(loss, Approx)]
    event: Event = (
        ApproxEvent(epsilon=epsilon, delta=max(deltas)) if deltas else PureEvent(epsilon=epsilon)
    )
    charge = cost(account.budget, event)
    draft.append("burn", charges={account.name: charge}, event=to_record(event))
    spent = account.budget.add(account.spent, charge)
    draft.accounts[account.name] = replace(account, spent=spent)
    return draft.accounts[account.name]


def recount(budget: Budget, events: Iterable[tuple[Event, int]]) -> Charge:
    """What a budget has spent after events, each so many times."""
    spent = budget.zero()
    for event, times in events:
        charge = tuple(
            None if part is None else tuple(times * units for units in part)
            for part in cost(budget, event)
        )
        spent = budget.add(spent, charge)
    return spent


@lru_cache(maxsize=4096)
def cost(budget: Budget, event: Event) -> Charge:
    """What an event costs; the same few questions come again and again."""
    return budget.charge(event)


def give_back(spent: Charge, charge: Charge) -> Charge:
    """Take a charge out again; a filter that it broke stays broken."""
    return tuple(
        None
        if total is None or part is None
        else tuple(have - take for have, take in zip(total, part, strict=True))
        for total, part in zip(spent, charge, strict=True)
    )


def charges_of(draft: Draft, seq: int) -> dict[str, Charge]:
    """What an entry charged."""
    charges = json.loads(linked(draft, seq).body)["charges"]
    return {name: charge_from_record(charge) for name, charge in charges.items()}


def linked(book: Draft | Reader, seq: int) -> Entry:
    """An entry, read from the chain and checked against its hash."""
    entry, before = book.entry(seq), book.entry(seq - 1)
    if entry is None or before is None or link(before.hash, entry.body) != entry.hash:
        raise damaged(f"entry {seq} is missing or changed")
    return entry


def known(draft: Draft, name: str) -> Account:
    """An account that must exist."""
    check_name(name, "account")
    account = draft.account(name)
    if account is None:
        raise ParameterError(
            "account_unknown", f"There is no account {name!r}.", hint="Open it with a budget first."
        )
    return account


def check_name(name: str, what: str) -> None:
    """Refuse names that cannot be stored, compared or shown."""
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ParameterError(
            "name_invalid",
            f"The {what} must be 1 to {_LONGEST_NAME} printable characters, not "
            f"{len(name)} characters of which some are not printable or too many.",
        )


def damaged(what: str) -> LedgerError:
    """The error for a book that contradicts itself."""
    return LedgerError(
        "ledger_damaged",
        f"The ledger is damaged: {what}. No answer is given.",
        hint="Restore a backup and acknowledge the loss, or compare with an export.",
    )


def refused_reuse(request_id: str) -> CallerError:
    """The error for a request id that already stands for another question."""
    return CallerError(
        "request_reused",
        f"Request id {request_id!r} was already used for another question.",
        hint="Take a new one.",
    )


def answer_lost(request_id: str) -> LedgerError:
    """The error for a charge whose answer was never stored: it is never computed again."""
    return LedgerError(
        "answer_lost",
        f"Request {request_id!r} was charged but has no stored answer: it failed, or still runs. "
        "Its charge stays spent and it is never computed again; ask with a new request id.",
    )


def _refuse_repetition(earlier: ChargeRequest, body_digest: str) -> CallerError | LedgerError:
    if earlier.body_digest != body_digest:
        return refused_reuse(earlier.request_id)
    if earlier.answered is None:
        return answer_lost(earlier.request_id)
    return CallerError(
        "request_answered",
        f"Request {earlier.request_id!r} was already answered.",
        hint="Fetch its stored answer.",
    )


def _check_open(draft: Draft, request: ChargeRequest) -> None:
    if draft.request(request.key) != request:
        raise LedgerError(
            "receipt_invalid",
            f"Request {request.request_id!r} is no longer open under this receipt. "
            "A charge is answered or voided once.",
        )


def check_request(principal: str, request_id: str, body_digest: str) -> None:
    """Refuse a request that cannot be looked up, before it reaches any transaction."""
    check_name(principal, "principal")
    check_name(request_id, "request id")
    if len(body_digest) != 64 or not set(body_digest) <= set("0123456789abcdef"):
        raise ParameterError(
            "request_id_invalid", "The body of a request is given by its SHA-256 in hexadecimal."
        )


def _check_share(child: str, share: Budget, parent: str, whole: Budget) -> None:
    part, total = share.loss(), whole.loss()
    part_delta = part.delta if isinstance(part, Approx) else 0
    total_delta = total.delta if isinstance(total, Approx) else 0
    if part.epsilon > total.epsilon or part_delta > total_delta:
        raise ParameterError(
            "budget_out_of_range",
            f"The budget of account {child!r} may not exceed that of its parent {parent!r}. "
            "Lower the one or raise the other first.",
        )


def _with_ancestors(draft: Draft, names: Iterable[str]) -> list[Account]:
    found: dict[str, Account] = {}
    for name in names:
        current: str | None = name
        while current is not None and current not in found:
            found[current] = known(draft, current)
            current = found[current].parent
    return list(found.values())


def exhausted(account: Account, event: Event, *, own: bool) -> BudgetError:
    """The error for a charge that is more than is left."""
    # What others spent of a shared budget is not this principal's to know.
    told = (
        explain_shortage(account.budget, account.spent, event)
        if own
        else "ask its owner for budget."
    )
    return BudgetError(
        "budget_exhausted", f"Account {account.name!r} has too little budget left: {told}"
    )
