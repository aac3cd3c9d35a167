"""The rules of the ledger: which entries may be appended in which state.

Each rule checks everything before it writes anything, so that a refused operation leaves the draft
unchanged and the other operations of the same group commit succeed.

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
    """Open an account, or return the existing one: opening it again never resets its charges."""
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
        _check_within_parent(name, budget, parent, known(draft, parent).budget)
    account = _open(draft, name, budget, parent)
    # After a rollback, the lost entries may have opened this account and charged it.
    return _burn(draft, account, [budget]) if draft.recorded(kind="rollback") else account


def check_opening(draft: Draft, name: str) -> None:
    """Refuse an invalid name, and an account that the chain has opened before."""
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
    """Attach a data set to an account for good; data sets about the same people share one."""
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
    # Attached for good: moving a data set to another account would give it a fresh budget.
    draft.append("dataset", dataset=dataset, root=account)
    draft.datasets[dataset] = account


def set_limit(
    draft: Draft,
    name: str,
    budget: Budget,
    operator: str,
    earlier_events: Iterable[tuple[Event, int]],
) -> Account:
    """Give an account another budget, charged again with every earlier event."""
    check_name(operator, "operator")
    return write_limit(
        draft, *planned_limit(draft, name, budget, earlier_events), operator=operator
    )


def planned_limit(
    draft: Draft, name: str, budget: Budget, earlier_events: Iterable[tuple[Event, int]]
) -> tuple[Account, Budget, Charge]:
    """Check a new budget; return the account, the budget and what earlier events spend of it.

    Raises
    ------
    ParameterError
        If the budget is below what was spent, below a child's budget or above the parent's.
    """
    account = known(draft, name)
    if account.parent is not None:
        _check_within_parent(name, budget, account.parent, known(draft, account.parent).budget)
    # A child's budget may never exceed its parent's, also after the parent is lowered.
    for child in draft.all_accounts():
        if child.parent == name:
            _check_within_parent(child.name, child.budget, name, budget)
    spent = recount(budget, earlier_events)
    if all(units is None for units in spent):
        raise ParameterError(
            "budget_out_of_range",
            f"The new limit of account {name!r} is below what was already spent from it.",
            hint="Give a higher limit.",
        )
    return account, budget, spent


def write_limit(
    draft: Draft, account: Account, budget: Budget, spent: Charge, *, operator: str
) -> Account:
    """Give an account another budget, of which `spent` is spent."""
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
    """Charge an event to accounts and all their ancestors, all or none; return the entry number."""
    names = sorted(set(accounts))
    if not names:
        raise ParameterError("parameter_missing", "A charge must name at least one account.")
    # One request id is charged once: repeating a question must not draw fresh noise.
    earlier = draft.request((principal, request_id))
    if earlier is not None:
        raise _refuse_repetition(earlier, body_digest)
    # All accounts are checked before the entry is written: all are charged, or none.
    charges: dict[str, Charge] = {}
    charged: dict[str, Account] = {}
    for account in _with_ancestors(draft, names):
        charge = cost(account.budget, event)
        spent = account.budget.add(account.spent, charge)
        if all(units is None for units in spent):
            raise exhausted(account, event, own=account.name in names)
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
    """Return a charge to its accounts, if it is still the open charge that its holder reserved."""
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
    """Store the answer of an open charge, so that the same request gets it again without a charge.

    Parameters
    ----------
    row : bytes
        The answer itself, or a reference to its file.
    consent : mapping of str to int
        The version of each consent registry that was applied. Only the owner may know it. The salt
        stops an asker who holds the hashes before and after from guessing it: without a salt, they
        could try versions until the hash fits.
    """
    _check_open(draft, request)
    consent_fields = (
        {"consent": {"salt": token_hex(16), "versions": dict(consent)}} if consent else {}
    )
    seq = draft.append("answer", charge=request.charge, digest=digest(answer), **consent_fields)
    draft.requests[request.key] = request._replace(answered=seq)
    draft.keep_answer(request, row, len(answer))


def acknowledge(
    draft: Draft,
    lost: Position | None,
    operator: str,
    declared: Mapping[str, Budget],
    earlier_events: Mapping[str, Iterable[tuple[Event, int]]],
) -> None:
    """Charge every account, stored or declared, with its whole guarantee.

    It is unknown what the lost entries spent and which accounts they opened, but the filters kept
    all of it within the guarantee. A declared budget that differs from the stored one may have been
    set by a lost entry: it replaces the stored one, and the larger of both is burnt.
    """
    check_name(operator, "operator")
    record = None if lost is None else {"seq": lost.seq, "hash": lost.hash}
    draft.append("rollback", lost=record, operator=operator)
    stored_accounts = {account.name: account for account in draft.all_accounts()}
    for name in declared.keys() - stored_accounts.keys():
        check_opening(draft, name)
    for name in sorted(stored_accounts.keys() | declared.keys()):
        account = stored_accounts.get(name) or _open(draft, name, declared[name], None)
        stored_budget, budget = account.budget, declared.get(name, account.budget)
        if budget != stored_budget:
            spent = recount(budget, earlier_events.get(name, ()))
            account = write_limit(draft, account, budget, spent, operator=operator)
        _burn(draft, account, [stored_budget, budget])


def _burn(draft: Draft, account: Account, guarantees: Iterable[Budget]) -> Account:
    """Charge an account with the largest of some guarantees, also beyond its budget."""
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
    """Compute what events, each with its number of repetitions, spend of a budget."""
    spent = budget.zero()
    for event, times in events:
        charge = tuple(
            None if units is None else tuple(times * unit_count for unit_count in units)
            for units in cost(budget, event)
        )
        spent = budget.add(spent, charge)
    return spent


@lru_cache(maxsize=4096)
def cost(budget: Budget, event: Event) -> Charge:
    """The cost of an event, cached: the same few questions repeat."""
    return budget.charge(event)


def give_back(spent: Charge, charge: Charge) -> Charge:
    """Subtract a charge; a filter that it broke stays broken."""
    return tuple(
        None
        if total is None or units is None
        else tuple(before - returned for before, returned in zip(total, units, strict=True))
        for total, units in zip(spent, charge, strict=True)
    )


def charges_of(draft: Draft, seq: int) -> dict[str, Charge]:
    """The charges of an entry, by account."""
    charges = json.loads(linked(draft, seq).body)["charges"]
    return {name: charge_from_record(charge) for name, charge in charges.items()}


def linked(book: Draft | Reader, seq: int) -> Entry:
    """An entry, read from the chain and checked against its hash."""
    entry, before = book.entry(seq), book.entry(seq - 1)
    if entry is None or before is None or link(before.hash, entry.body) != entry.hash:
        raise damaged(f"entry {seq} is missing or changed")
    return entry


def known(draft: Draft, name: str) -> Account:
    """One account, which must exist."""
    check_name(name, "account")
    account = draft.account(name)
    if account is None:
        raise ParameterError(
            "account_unknown", f"There is no account {name!r}.", hint="Open it with a budget first."
        )
    return account


def check_name(name: str, kind: str) -> None:
    """Refuse names that cannot be stored, compared or shown."""
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ParameterError(
            "name_invalid",
            f"The {kind} must be 1 to {_LONGEST_NAME} printable characters, not "
            f"{len(name)} characters of which some are not printable or too many.",
        )


def damaged(reason: str) -> LedgerError:
    """The error for a ledger that contradicts itself."""
    return LedgerError(
        "ledger_damaged",
        f"The ledger is damaged: {reason}. No answer is given.",
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


def _check_within_parent(
    child: str, child_budget: Budget, parent: str, parent_budget: Budget
) -> None:
    child_loss, parent_loss = child_budget.loss(), parent_budget.loss()
    child_delta = child_loss.delta if isinstance(child_loss, Approx) else 0
    parent_delta = parent_loss.delta if isinstance(parent_loss, Approx) else 0
    if child_loss.epsilon > parent_loss.epsilon or child_delta > parent_delta:
        raise ParameterError(
            "budget_out_of_range",
            f"The budget of account {child!r} may not exceed that of its parent {parent!r}. "
            "Lower the one or raise the other first.",
        )


def _with_ancestors(draft: Draft, names: Iterable[str]) -> list[Account]:
    accounts: dict[str, Account] = {}
    for name in names:
        current: str | None = name
        while current is not None and current not in accounts:
            accounts[current] = known(draft, current)
            current = accounts[current].parent
    return list(accounts.values())


def exhausted(account: Account, event: Event, *, own: bool) -> BudgetError:
    """The error for a charge that exceeds the remaining budget."""
    # The balance of a shared budget would reveal what other principals spent.
    remedy = (
        explain_shortage(account.budget, account.spent, event)
        if own
        else "ask its owner for budget."
    )
    return BudgetError(
        "budget_exhausted", f"Account {account.name!r} has too little budget left: {remedy}"
    )
