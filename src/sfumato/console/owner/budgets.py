"""Budgets: what each population has, and who spent what of it over time."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.console.forms import Filled, wrong
from sfumato.console.home import gauges
from sfumato.console.page_request import Page, PageRoute, Redirect, Visit, Who
from sfumato.errors import SfumatoError
from sfumato.report.points import Point, draw_lines
from sfumato.vault.spending import by_principal, of_population, spending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.report.picture import Picture
    from sfumato.vault.spending import Spent

BUDGETS = "/console/owner/budgets"
_NEWEST = 50
_DAY_SECONDS = 86_400
_NOTE = (
    "Of a question with Gaussian noise the epsilon is drawn of pure noise that takes as much; "
    "amounts in the table are as they were charged."
)


def spent_page(visit: Visit) -> Page:
    """All budgets, with who spent what of each."""
    return Page(_facts(visit))


def limited(visit: Visit) -> Page | Redirect:
    """Another budget for a population."""
    account = visit.said("account")
    amounts = {name: visit.said(name) or "0" for name in ("epsilon", "delta")}
    try:
        visit.vault.limit(account, operator=visit.operator, **amounts)
    except SfumatoError as error:
        found = {f"{account}.{name}": one for name, one in wrong(error, amounts).items()}
        return Page(_facts(visit, visit.values, found), status=422)
    return Redirect(BUDGETS, f"{account} has another budget from now on.")


def spending_picture(spent: Sequence[Spent], population: str, now: datetime) -> Picture:
    """How what each principal spent grew, up to now."""
    points = []
    begin, end = math.floor(_day(spent[0].time)), math.ceil(_day(now))  # whole days have labels
    for name in by_principal(spent):
        total = 0.0
        own = [one for one in spent if one.principal == name]
        points.append(Point(name, begin, 0.0))
        for one in own:
            total += float(one.epsilon)
            points.append(Point(name, _day(one.time), total))
        points.append(Point(name, end, total))
    return draw_lines(
        points,
        label=f"What was spent of {population}, by whom",
        x="Day", y="epsilon", series="Who", steps=True, dates=True, note=_NOTE,
    )  # fmt: skip


def _facts(visit: Visit, said: Any = None, errors: Any = None) -> dict[str, Any]:
    spent, now = spending(visit.vault.ledger), datetime.now(UTC)
    told = {one["account"]: one for one in gauges(visit)}
    found = []
    for name in visit.vault.config.budgets:
        own = of_population(spent, name)
        by_whom = [(who, often, f"{float(epsilon):.6g}")
                   for who, (often, epsilon) in by_principal(own).items()]  # fmt: skip
        newest = [(one.entry, one.time.isoformat(" ")[:16], one.principal, one.cost)
                  for one in reversed(own[-_NEWEST:])]  # fmt: skip
        found.append({
            "name": name, "account": told[name], "by_whom": by_whom, "newest": newest,
            "picture": spending_picture(own, name, now) if own else None,
        })  # fmt: skip
    return {
        "populations": found,
        "said": Filled(said or {}),
        "errors": Filled(errors or {}),
        "here": BUDGETS,
    }


def _day(time: datetime) -> float:
    return time.timestamp() / _DAY_SECONDS


_ROUTE = partial(
    PageRoute, who=Who.OWNER, path=BUDGETS, title="Budgets", template="owner/budgets.html"
)
PAGES = (
    _ROUTE(method="GET", handler=spent_page, nav="Budgets"),
    _ROUTE(method="POST", handler=limited),
)
