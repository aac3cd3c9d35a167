"""The rules of the ledger: which entries may be appended in which state.

Each rule checks everything before it writes anything, so that a refused operation leaves the draft
unchanged and the other operations of the same group commit succeed.

Decision `ledger`. Decision `ledger`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from secrets import token_hex
from typing import TYPE_CHECKING

from sfumato.errors import BudgetError, CallerError, LedgerError, ParameterError
from sfumato.privacy.accounting.balance import explain_shortage
from sfumato.privacy.accounting.event_records import from_record, to_record
from sfumato.privacy.accounting.events import ApproxEvent, Event, PureEvent
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
    from collections.abc import Callable, Iterable, Mapping

    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.ledger.chain import Reader

_LONGEST_NAME = 200


def open_account(draft: Draft, name: str, budget: Budget, parent: str | None) -> Account:
    """Open an account, or return the existing one: opening it again never resets its charges."""
    check_name(name, "account")
    account = draft.account(name)
    if account is not None:
        # By the guarantee: the share of sums may differ, and an account may count sums only.
        if (account.parent, account.budget.loss()) != (parent, budget.loss()):
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
    """Attach a data set to an account permanently; data sets about the same people share one."""
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
    # Attached permanently: moving a data set to another account would give it a fresh budget.
    draft.append("dataset", dataset=dataset, root=account)
    draft.datasets[dataset] = account


def set_limit(
    draft: Draft,
    name: str,
    budget: Budget,
    operator: str,
    earlier_charges: Iterable[tuple[Charged, int]],
) -> Account:
    """Give an account another budget, charged again with every standing charge."""
    check_name(operator, "operator")
    return write_limit(
        draft, *planned_limit(draft, name, budget, earlier_charges), operator=operator
    )


def planned_limit(
    draft: Draft, name: str, budget: Budget, earlier_charges: Iterable[tuple[Charged, int]]
) -> tuple[Account, Budget, Charge]:
    """Check a new budget; return the account, the budget and what earlier charges spend of it.

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
    spent = recount(budget, earlier_charges)
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
    event: Charged,
    record: dict[str, object],
    accounts: Iterable[str],
    *,
    principal: str,
    request_id: str,
    body_digest: str,
    mark: str | None = None,
) -> int:
    """Charge accounts and all their ancestors, all or none; return the entry number."""
    names = sorted(set(accounts))
    if not names:
        raise ParameterError(
            "parameter_missing", "A charge must name at least one account.", parameter="accounts"
        )
    # One request id is charged once: repeating a question must not draw fresh noise.
    earlier = draft.request((principal, request_id))
    if earlier is not None:
        raise _refuse_repetition(earlier, body_digest)
    # All accounts are checked before any entry is written: all are charged, or none.
    before = with_ancestors(names, lambda name: known(draft, name))
    after: dict[str, Account] = {}
    for account in before:
        charged = charge_account(account, event)
        if charged is None:
            raise exhausted(account, event, own=account.name in names)
        after[account.name] = charged
    for account in before:
        charged = after[account.name]
        if charged.budget != account.budget:
            _write_sums(draft, charged)
    charges = {name: cost(charged.budget, event) for name, charged in after.items()}
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
    draft.accounts.update(after)
    draft.requests[principal, request_id] = ChargeRequest(principal, request_id, body_digest, seq)
    return seq


def charge_account(account: Account, charged: Charged) -> Account | None:
    """The account after a charge, or None if its budget does not hold it.

    One decision for every preview and for the charge itself. An account from which nothing was
    spent gives its whole delta to sums where its usual budget would refuse the charge: that choice
    comes before every output, so that no two filters share the delta.
    """
    budget = account.budget
    spent = budget.add(account.spent, cost(budget, charged))
    if any(units is not None for units in spent):
        return replace(account, spent=spent)
    sums = budget.sums_only()
    if sums is not None and account.spent == budget.zero():
        spent = sums.add(sums.zero(), cost(sums, charged))
        if any(units is not None for units in spent):
            return replace(account, budget=sums, spent=spent)
    return None


def _write_sums(draft: Draft, account: Account) -> None:
    """Note that an account from which nothing was spent counts by sums only from now on."""
    budget = account.budget
    draft.append(
        "sums",
        account=account.name,
        budget=budget.to_record(),
        limits=budget.limits(),
        spent=budget.zero(),
    )


def void(
    draft: Draft,
    request: ChargeRequest,
    standing_charges: Callable[[], Mapping[str, Iterable[tuple[Charged, int]]]],
) -> None:
    """Return a charge to its accounts, if it is still the open charge that its holder reserved.

    `standing_charges` reads every account's charges from the whole chain. It is called only where
    a filter is broken: without this charge, the others may be within its limit again.
    """
    _check_open(draft, request)
    charges = charges_of(draft, request.charge)
    accounts = [known(draft, name) for name in charges]
    is_broken = any(None in account.spent for account in accounts)
    standing = standing_charges() if is_broken else {}
    voided = from_record(json.loads(linked(draft, request.charge).body)["event"])
    spent: dict[str, Charge] = {}
    for account in accounts:
        if None in account.spent:
            remaining_charges = _without(standing[account.name], voided)
            spent[account.name] = recount(account.budget, remaining_charges)
        else:
            spent[account.name] = give_back(account.spent, charges[account.name])
    draft.append("void", charge=request.charge, spent=spent)
    for account in accounts:
        draft.accounts[account.name] = replace(account, spent=spent[account.name])
    draft.requests[request.key] = None


def _without(
    charges: Iterable[tuple[Charged, int]], voided: Charged
) -> Iterable[tuple[Charged, int]]:
    """The charges, one time fewer for the voided one."""
    return ((charged, times - (charged == voided)) for charged, times in charges)


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
    earlier_charges: Mapping[str, Iterable[tuple[Charged, int]]],
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
            spent = recount(budget, earlier_charges.get(name, ()))
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


def recount(budget: Budget, charges: Iterable[tuple[Charged, int]]) -> Charge:
    """Compute what charges, each with its number of repetitions, spend of a budget."""
    spent = budget.zero()
    for charged, times in charges:
        if times == 0:  # it would still break a filter that cannot express it
            continue
        charge = tuple(
            None if units is None else tuple(times * unit_count for unit_count in units)
            for units in cost(budget, charged)
        )
        spent = budget.add(spent, charge)
    return spent


@lru_cache(maxsize=4096)
def cost(budget: Budget, charged: Charged) -> Charge:
    """The cost of a charge, cached: the same few questions repeat."""
    return budget.charge(charged)


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
            "name_invalid", "The body of a request is given by its SHA-256 in hexadecimal."
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


def with_ancestors(names: Iterable[str], read_account: Callable[[str], Account]) -> list[Account]:
    """The named accounts and every account above them, each once: all of them pay."""
    accounts: dict[str, Account] = {}
    for name in names:
        current: str | None = name
        while current is not None and current not in accounts:
            accounts[current] = read_account(current)
            current = accounts[current].parent
    return list(accounts.values())


def exhausted(account: Account, charged: Charged, *, own: bool) -> BudgetError:
    """The error for a charge that exceeds the remaining budget."""
    # The balance of a shared budget would reveal what other principals spent.
    remedy = (
        explain_shortage(account.budget, account.spent, charged)
        if own
        else "ask its owner for budget."
    )
    return BudgetError(
        "budget_exhausted", f"Account {account.name!r} has too little budget left: {remedy}"
    )
