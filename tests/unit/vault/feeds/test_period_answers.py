"""Whose answer a period's is: the feed's own, whatever else was charged under its request id."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.ledgers import code_of

from sfumato.vault.families import FAMILIES

if TYPE_CHECKING:
    import sfumato as sf

SQL = "SELECT COUNT(*) AS n FROM visits"
SHOWN = f"{SQL} WHERE city = 'north'"


def add(vault: sf.Vault) -> None:
    told = {"column": "day", "every": "year", "epsilon": "0.5", "principal": "ann"}
    vault.feed_registry.add("years", SQL, **told, operator="Ann")


def forge(vault: sf.Vault) -> None:
    """Charge another question under a period's id, as no door lets anybody."""
    who, query = partial(vault.asker, "ann", None), FAMILIES["query"]
    facts = vault.session.facts(who, "")
    prepared = vault.session.prepare(query, {"asked": SHOWN, "epsilon": "0.1"}, facts)
    vault.session.answer(prepared, who, request_id="feed/years/2024")


@pytest.mark.parametrize("request_id", ["feed/years/2024", "feed/years", "console/x"])
def test_nobody_asks_under_the_id_of_a_period(vault: sf.Vault, request_id: str) -> None:
    said = {"principal": "ann", "epsilon": "0.1", "request_id": request_id}
    assert code_of(vault.query, SHOWN, **said) == "name_invalid"
    asked = {"kind": "histogram", "columns": ["city"], **said}
    assert code_of(vault.jobs.submit, "publish", "visits", **asked) == "name_invalid"
    private = vault.private("visits", principal="ann")
    asked.pop("principal")
    assert code_of(private.publish, **asked) == "name_invalid"
    assert vault.accounts(principal="ann")[0]["spent"] == "epsilon 0"


@pytest.mark.parametrize("before", [True, False])
def test_an_answer_to_something_else_is_none_of_the_feed(vault: sf.Vault, before: bool) -> None:
    if before:
        forge(vault)
        add(vault)
    else:
        add(vault)
        forge(vault)
    feed = vault.feed_registry.get("years")
    registry = vault.feed_registry
    assert (registry.read("years"), registry.state(feed)["answered"]) == ([], 0)
    registry.work()
    assert (registry.read("years"), registry.state(feed)["lost"]) == ([], ["2024"])


def test_what_was_told_stays_told_when_who_paid_has_left(
    vault: sf.Vault,
) -> None:
    add(vault)
    assert vault.feed_registry.work() == 1
    [told] = vault.feed_registry.read("years")
    vault.people.expire("ann", operator="me")
    [still] = vault.feed_registry.read("years")
    assert still.table == told.table
