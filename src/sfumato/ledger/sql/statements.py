"""The statements of the book, built once: building them costs more than running them."""

from __future__ import annotations

from sqlalchemy import and_, bindparam, delete, func, insert, select, tuple_, update

from sfumato.ledger.sql.tables import (
    accounts,
    answers,
    balances,
    datasets,
    entries,
    requests,
    turn,
)

PAGE = 1000
"""Long readings go page by page: no cursor stays open when a reader stops half-way."""

_one_request = and_(
    requests.c.principal == bindparam("of_principal"), requests.c.request == bindparam("of_request")
)

LOCK_TURN = select(turn.c.id).with_for_update()
ADD_TURN = insert(turn)

LAST_ENTRY = select(entries.c.seq, entries.c.hash).order_by(entries.c.seq.desc()).limit(1)
ONE_ENTRY = select(entries).where(entries.c.seq == bindparam("of_seq"))
NEXT_ENTRIES = (
    select(entries).where(entries.c.seq > bindparam("after")).order_by(entries.c.seq).limit(PAGE)
)
ENTRY_STARTING = (
    select(entries.c.seq)
    .where(func.substr(entries.c.body, 1, func.length(bindparam("prefix"))) == bindparam("prefix"))
    .limit(1)
)
ADD_ENTRIES = insert(entries)

ONE_ACCOUNT = select(accounts).where(accounts.c.name == bindparam("of_account"))
ALL_ACCOUNTS = select(accounts).order_by(accounts.c.name)
ADD_ACCOUNTS = insert(accounts)
CHANGE_ACCOUNTS = (
    update(accounts)
    .where(accounts.c.name == bindparam("of_account"))
    .values(budget=bindparam("budget"), seal=bindparam("seal"))
)

BALANCE = (
    select(balances.c.filter, balances.c.spent)
    .where(balances.c.account == bindparam("of_account"))
    .order_by(balances.c.filter, balances.c.part)
)
DROP_BALANCES = delete(balances).where(balances.c.account == bindparam("of_account"))
ADD_BALANCES = insert(balances)

ONE_DATASET = select(datasets.c.account).where(datasets.c.name == bindparam("of_dataset"))
ADD_DATASETS = insert(datasets)

SOME_REQUESTS = select(requests).where(
    tuple_(requests.c.principal, requests.c.request).in_(bindparam("keys", expanding=True))
)
NEXT_REQUESTS = (
    select(requests, answers.c.answer)
    .outerjoin(answers, answers.c.charge == requests.c.charge)
    .where(
        tuple_(requests.c.principal, requests.c.request)
        > tuple_(bindparam("after_principal"), bindparam("after_request"))
    )
    .order_by(requests.c.principal, requests.c.request)
    .limit(PAGE)
)
DROP_REQUESTS = delete(requests).where(_one_request)
ADD_REQUESTS = insert(requests)

ONE_ANSWER = select(answers.c.answer).where(answers.c.charge == bindparam("of_charge"))
ADD_ANSWERS = insert(answers)
