"""Questions: what they would cost, told before anything is spent; their answers; those before.

A form carries a request id that was made with the page, so that a reload or a second click is the
same question and is paid for once. An answer is a page of its own, which can be looked at again.
"""

from __future__ import annotations

import secrets
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.console.home import gauges
from sfumato.console.page_request import Page, PageRoute, Redirect, Visit, Who
from sfumato.errors import SfumatoError
from sfumato.exact_numbers import decimal_of
from sfumato.methods.query.page import show_answer
from sfumato.privacy.accounting.price import amounts_in_words
from sfumato.release.plots import pictures_of
from sfumato.report.blocks import PageTable
from sfumato.server import problem_json
from sfumato.server.problem_json import RequestError, not_found
from sfumato.server.request_schemas import LONGEST_SQL
from sfumato.text import minute
from sfumato.vault.families import FAMILIES
from sfumato.vault.session import OwnRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.method import Plan
    from sfumato.vault.answer import Answer
    from sfumato.vault.private import Questions

_QUERY = FAMILIES["query"]
_FIELDS = ("sql", "epsilon", "delta", "purpose")
_MOST_ROWS = 1000
_LONGEST_ID = 64


def ask_page(visit: Visit) -> Page:
    """Where questions are put."""
    return _asked(visit, {name: visit.said(name) for name in _FIELDS})


def ask(visit: Visit) -> Page | Redirect:
    """The answer to a question, or what it would cost, as the button says."""
    said = {name: visit.said(name) for name in _FIELDS}
    request = _request(visit)
    if visit.said("do") != "ask":
        return _asked(visit, said, request, {"explained": _explained(visit, said)})
    try:
        _check_same(visit, request, said)
        questions, prepared = _planned(visit, said)
        answer = questions.answer(_QUERY, prepared, request_id=OwnRequest(f"console/{request}"))
    except SfumatoError as error:
        told = _refusal(error, charging=True)
        # A new request: what was refused for good under this one must not stand in the way.
        return _asked(visit, said, None, {"refusal": told}, problem_json.status_of(error))
    kept = visit.vault.history.add(visit.principal, request, said, answer, prepared.datasets)
    return Redirect(f"/console/answers/{kept}")


def explained(visit: Visit) -> Page:
    """What a question would cost, for the script of the page."""
    said = {name: visit.said(name) for name in _FIELDS}
    return Page({"explained": _explained(visit, said)})


def answered(visit: Visit) -> Page:
    """An answer that was paid for, as a table and a picture; to look at it costs nothing."""
    before = visit.vault.history.get(visit.principal, visit.path["request"])
    if before is None:
        raise not_found()
    answer = visit.vault.history.answer(visit.principal, before)
    table, notes = answer_table(answer)
    return Page(
        {
            "before": before,
            "table": table,
            "more": max(answer.table.num_rows - len(table.rows), 0),
            "pictures": pictures_of(answer) if table.rows else [],
            "notes": notes,
            "cost": answer.cost_in_words if answer.charged else "nothing: it was paid for before",
            "balance": answer.balance,
            "guarantee": answer.guarantee.statement,
            "receipt": answer.receipt,
            "python": _python(visit, before.asked, answer),
            "clause": _clause(before.asked, answer),
        }
    )


def answer_table(answer: Answer) -> tuple[PageTable, list[str]]:
    """An answer as a table of a page, and what is to be said of it."""
    told = show_answer(answer, _MOST_ROWS)
    titles: list[str] = []
    for column in told.columns:
        titles += [column.name, *([] if column.bars is None else [column.bar_title])]
    notes = [*told.notes, *answer.guarantee.parameters.get("notes", ())]
    return PageTable("The answer", titles, list(told.rows)), notes


def history(visit: Visit) -> Page:
    """The visitor's questions, the last first."""
    found = visit.vault.history.list(visit.principal)
    return Page({"questions": [(one, minute(one.time.isoformat())) for one in found]})


def _asked(
    visit: Visit,
    said: Mapping[str, str],
    request: str | None = None,
    more: Mapping[str, Any] | None = None,
    status: int = 200,
) -> Page:
    seen = visit.vault.questions(principal=visit.principal).catalogue
    purposes = sorted({one for name in seen for one in visit.vault.purposes(name)})
    facts = {
        "said": said,
        "request": request or secrets.token_urlsafe(16),
        "datasets": {
            name: [one.name for one in declared.schema.columns] for name, declared in seen.items()
        },
        "purposes": purposes,
        "accounts": [one for one in gauges(visit) if _pays(visit, one["account"])],
        "explained": None,
        "refusal": None,
        "may_ask": "query" in (visit.person.shapes if visit.person else ()),
        "longest": LONGEST_SQL,
    }
    return Page({**facts, **(more or {})}, status)


def _pays(visit: Visit, account: str) -> bool:
    """Whether the visitor's questions are paid from an account: an owner sees those of others."""
    return visit.person is None or not visit.person.is_owner or "/" not in account


def _explained(visit: Visit, said: Mapping[str, str]) -> Mapping[str, Any]:
    """What a question would cost and how far off it would be, or why it would be refused."""
    try:
        questions, prepared = _planned(visit, said)
        told = prepared.explain().to_json()
        _, balance = questions.left_after(prepared)
    except SfumatoError as error:
        return {"refusal": _refusal(error)}
    rows = [
        (
            row["column"],
            ", ".join(row.get("grouped_by", ())) or "all rows",
            _off(row),
        )
        for row in told["expected"]
    ]
    return {
        "refusal": None,
        "cost": amounts_in_words(told["cost"]),
        "balance": balance,
        "table": PageTable(
            "How far off each figure would be", ("Figure", "By", "95 % interval"), rows
        ),
        "notes": [*told["notes"], *told["improve"]],
    }


def _off(row: Mapping[str, Any]) -> str:
    if "ranks95" in row:
        return f"rank ± {row['ranks95']:,.4g}"
    if "sizes" in row:
        sizes = row["sizes"].items()
        told = [f"{int(size):,} rows ± {one['bound95']:.4g}" for size, one in sizes]
        return f"in groups of {', '.join(told)}"
    return f"± {row['bound95']:,.4g}"


def _planned(visit: Visit, said: Mapping[str, str]) -> tuple[Questions, Plan]:
    if len(said["sql"]) > LONGEST_SQL:
        raise RequestError(
            422,
            "field_invalid",
            f"A question may have {LONGEST_SQL:,} characters. Ask less at once.",
        )
    questions = visit.vault.questions(principal=visit.principal, purpose=said["purpose"] or None)
    cost = {name: said[name] for name in ("epsilon", "delta") if said[name]}
    return questions, questions.prepare(_QUERY, said["sql"], **cost)


def _refusal(error: SfumatoError, *, charging: bool = False) -> str:
    return str(problem_json.told(error, charging=charging)["detail"])


def _request(visit: Visit) -> str:
    found = visit.said("request")
    if not 1 <= len(found) <= _LONGEST_ID or not set(found) <= _LETTERS:
        raise RequestError(
            422, "request_id_invalid", "This form is not from the page of questions. Load it again."
        )
    return found


def _check_same(visit: Visit, request: str, said: Mapping[str, str]) -> None:
    """Refuse another question under a request that was answered, also where that cost nothing."""
    before = visit.vault.history.get(visit.principal, request)
    if before is not None and before.asked != said:
        raise RequestError(
            409,
            "request_reused",
            "This form was sent before with another question. Nothing was charged. This is a new "
            "form: send it again to ask.",
        )


_LETTERS = {*"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"}


def _python(visit: Visit, asked: Mapping[str, str], answer: Answer) -> str:
    """The question as lines of Python; the same words under the same account cost nothing more."""
    lines = [f"    {asked['sql']!r},", *(f"    {name}={one!r}," for name, one in _paid(answer))]
    if asked.get("purpose"):
        lines.append(f"    purpose={asked['purpose']!r},")
    head = ["import sfumato as sf", "", f'vault = sf.connect("{visit.host}", token)']
    return "\n".join([*head, "answer = vault.query(", *lines, ")"])


def _clause(asked: Mapping[str, str], answer: Answer) -> str:
    """The question as SQL that says itself what it may cost."""
    options = ", ".join(f"{name} = {one}" for name, one in _paid(answer))
    sql = asked["sql"]
    if sql[:6].upper() != "SELECT" or " WITH " in sql[:12].upper():
        return sql
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}){sql[6:]}"


def _paid(answer: Answer) -> list[tuple[str, str]]:
    promised = answer.guarantee.parameters
    named = [one for one in ("epsilon", "delta") if promised.get(one)]
    return [(one, decimal_of(Fraction(promised[one]))) for one in named]


PAGES = (
    PageRoute(
        method="GET",
        path="/console/ask",
        title="Ask a question",
        who=Who.SIGNED_IN,
        handler=ask_page,
        template="ask.html",
        shape="explain",
        nav="Ask",
    ),
    PageRoute(
        method="POST",
        path="/console/ask",
        title="Ask a question",
        who=Who.SIGNED_IN,
        handler=ask,
        template="ask.html",
        shape="explain",
        charging=True,
    ),
    PageRoute(
        method="POST",
        path="/console/explain",
        title="What it would cost",
        who=Who.SIGNED_IN,
        handler=explained,
        template="explained.html",
        shape="explain",
    ),
    PageRoute(
        method="GET",
        path="/console/answers/{request}",
        title="Answer",
        who=Who.SIGNED_IN,
        handler=answered,
        template="answer.html",
        shape="query",
    ),
    PageRoute(
        method="GET",
        path="/console/history",
        title="Questions before",
        who=Who.SIGNED_IN,
        handler=history,
        template="history.html",
        shape="query",
        nav="History",
    ),
)
