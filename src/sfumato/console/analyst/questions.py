"""Questions in SQL: their cost before anything is charged, their answers, and past questions.

A form carries a request id that was made with the page, so a reload or a second click repeats the
same request and is charged once. Each answer has its own page and stays available for free.
"""

from __future__ import annotations

import secrets
import string
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.console.home import gauges
from sfumato.console.page_request import Page, Redirect, Visit, member_page
from sfumato.errors import SfumatoError
from sfumato.exact_numbers import decimal_of
from sfumato.methods.query.page import show_answer
from sfumato.operations.operation import Context
from sfumato.operations.private_methods import LONGEST_SQL, METHODS, plan
from sfumato.privacy.accounting.price import amounts_in_words
from sfumato.release.plots import pictures_of
from sfumato.report.blocks import PageTable
from sfumato.server import problem_json
from sfumato.server.problem_json import RequestError, not_found
from sfumato.text import minute
from sfumato.vault.session import OwnRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.methods.method import Plan
    from sfumato.vault.answer import Answer
    from sfumato.vault.private import Questions

_QUERY = METHODS["query"]
_FIELDS = ("sql", "epsilon", "delta", "purpose")
_MOST_ROWS = 1000
LONGEST_ID = 64
_ID_LETTERS = {*string.ascii_letters, *string.digits, "_", "-"}


def question_page(visit: Visit) -> Page:
    """Show the form for a question."""
    return _question_form(visit, _question(visit))


def ask(visit: Visit) -> Page | Redirect:
    """Answer a question, or show its cost, depending on the button."""
    question, request = _question(visit), _request_id(visit)
    if visit.text("do") != "ask":
        return _question_form(visit, question, request, explained=_explain(visit, question))
    try:
        # Checked before anything is charged.
        _check_same_question(visit, request, question)
        questions, prepared = _prepare(visit, question)
        answer = questions.answer(
            _QUERY.family, prepared, request_id=OwnRequest(f"console/{request}")
        )
    except SfumatoError as error:
        refusal = refusal_of(error, charging=True)
        # A refusal may be stored under this request id permanently, so the form gets a new one.
        status = problem_json.status_of(error)
        return _question_form(visit, question, refusal=refusal, status=status)
    # After a redirect, a reload of the page repeats a GET and never the question.
    entry = visit.vault.history.add(visit.principal, request, question, answer, prepared.datasets)
    return Redirect(f"/console/answers/{entry}")


def explain(visit: Visit) -> Page:
    """Show the cost of a question, for the script that asks while the visitor types."""
    return Page({"explained": _explain(visit, _question(visit))})


def answer_page(visit: Visit) -> Page:
    """Show a stored answer as a table and a picture. This costs nothing."""
    entry = visit.vault.history.get(visit.principal, visit.path["request"])
    if entry is None:
        raise not_found()
    answer = visit.vault.history.answer(visit.principal, entry)
    table, notes = answer_table(answer)
    return Page(
        {
            "entry": entry,
            "table": table,
            "hidden_rows": max(answer.table.num_rows - len(table.rows), 0),
            "pictures": pictures_of(answer) if table.rows else [],
            "notes": notes,
            "cost": answer.cost_in_words if answer.charged else "nothing: the answer was stored",
            "balance": answer.balance,
            "guarantee": answer.guarantee.statement,
            "receipt": answer.receipt,
            "python": _as_python(visit, entry.asked, answer),
            "clause": _with_privacy_clause(entry.asked, answer),
        }
    )


def answer_table(answer: Answer) -> tuple[PageTable, list[str]]:
    """An answer as a table with the error beside each number, and notes about it."""
    shown = show_answer(answer, _MOST_ROWS)
    titles: list[str] = []
    for column in shown.columns:
        titles += [column.name, *([] if column.bars is None else [column.bar_title])]
    notes = [*shown.notes, *answer.guarantee.parameters.get("notes", ())]
    return PageTable("The answer", titles, list(shown.rows)), notes


def history_page(visit: Visit) -> Page:
    """List the visitor's questions, the newest first."""
    entries = visit.vault.history.list(visit.principal)
    return Page({"questions": [(entry, minute(entry.time.isoformat())) for entry in entries]})


def purposes_of(visit: Visit, names: Iterable[str]) -> list[str]:
    """The purposes that people of these data sets were asked to agree to."""
    return sorted({purpose for name in names for purpose in visit.vault.purposes(name)})


def refusal_of(error: SfumatoError, *, charging: bool = False) -> str:
    """The message of an error, with the warning that a charge may stand if that is possible."""
    return str(problem_json.problem_of(error, charging=charging)["detail"])


def _question(visit: Visit) -> dict[str, str]:
    return {name: visit.text(name) for name in _FIELDS}


def _question_form(
    visit: Visit,
    question: Mapping[str, str],
    request: str | None = None,
    *,
    explained: Mapping[str, Any] | None = None,
    refusal: str | None = None,
    status: int = 200,
) -> Page:
    catalogue = visit.vault.questions(principal=visit.principal).catalogue
    facts = {
        "question": question,
        "request": request or secrets.token_urlsafe(16),
        "datasets": {
            name: [column.name for column in declared.schema.columns]
            for name, declared in catalogue.items()
        },
        "purposes": purposes_of(visit, catalogue),
        "accounts": [account for account in gauges(visit) if _pays(visit, account["account"])],
        "explained": explained,
        "refusal": refusal,
        "may_ask": "query" in (visit.person.shapes if visit.person else ()),
        "longest": LONGEST_SQL,
    }
    return Page(facts, status)


def _pays(visit: Visit, account: str) -> bool:
    """Whether an account pays the visitor's questions; owners see those of others as well."""
    return visit.person is None or not visit.person.is_owner or "/" not in account


def _explain(visit: Visit, question: Mapping[str, str]) -> Mapping[str, Any]:
    """The cost and expected error of a question, or the reason why it would be refused."""
    try:
        questions, prepared = _prepare(visit, question)
        explanation = prepared.explain().to_json()
        _, balance = questions.left_after(prepared)
    except SfumatoError as error:
        return {"refusal": refusal_of(error)}
    rows = [
        (row["column"], ", ".join(row.get("grouped_by", ())) or "all rows", _expected_error(row))
        for row in explanation["expected"]
    ]
    return {
        "refusal": None,
        "cost": amounts_in_words(explanation["cost"]),
        "balance": balance,
        "table": PageTable("Expected error of each figure", ("Figure", "By", "95 % bound"), rows),
        "notes": [*explanation["notes"], *explanation["improve"]],
    }


def _expected_error(row: Mapping[str, Any]) -> str:
    if "ranks95" in row:
        return f"rank ± {row['ranks95']:,.4g}"
    if "sizes" in row:
        sizes = [
            f"{int(row_count):,} rows ± {error['bound95']:.4g}"
            for row_count, error in row["sizes"].items()
        ]
        return f"in groups of {', '.join(sizes)}"
    return f"± {row['bound95']:,.4g}"


def _prepare(visit: Visit, question: Mapping[str, str]) -> tuple[Questions, Plan]:
    typed = {name: value for name, value in question.items() if value or name == "sql"}
    context = Context(visit.vault, principal=visit.principal)
    return plan(_QUERY, context, _QUERY.read(typed, text=True))


def _request_id(visit: Visit) -> str:
    request = visit.text("request")
    if not 1 <= len(request) <= LONGEST_ID or not set(request) <= _ID_LETTERS:
        raise RequestError(
            422, "name_invalid", "This form is incomplete. Load the page of questions again."
        )
    return request


def _check_same_question(visit: Visit, request: str, question: Mapping[str, str]) -> None:
    """Refuse another question under the id of an answered request, even if that one was free."""
    entry = visit.vault.history.get(visit.principal, request)
    if entry is not None and entry.asked != question:
        raise RequestError(
            409,
            "request_reused",
            "This form was already sent with another question. Nothing was charged. Here is a new "
            "form: send it again to ask.",
        )


def _as_python(visit: Visit, question: Mapping[str, str], answer: Answer) -> str:
    """The question in Python. The same text with the same account is answered from the store."""
    arguments = [f"    {question['sql']!r},"]
    arguments += [f"    {name}={amount!r}," for name, amount in _amounts(answer)]
    if question.get("purpose"):
        arguments.append(f"    purpose={question['purpose']!r},")
    head = ["import sfumato as sf", "", f'vault = sf.connect("{visit.host}", token)']
    return "\n".join([*head, "answer = vault.query(", *arguments, ")"])


def _with_privacy_clause(question: Mapping[str, str], answer: Answer) -> str:
    """The question as SQL that states its own budget."""
    options = ", ".join(f"{name} = {amount}" for name, amount in _amounts(answer))
    sql = question["sql"]
    # A common table expression or an own clause stays as it is: only a plain SELECT is extended.
    if sql[:6].upper() != "SELECT" or " WITH " in sql[:12].upper():
        return sql
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}){sql[6:]}"


def _amounts(answer: Answer) -> list[tuple[str, str]]:
    parameters = answer.guarantee.parameters
    names = [name for name in ("epsilon", "delta") if parameters.get(name)]
    return [(name, decimal_of(Fraction(parameters[name]))) for name in names]


_ASK = "/console/ask"
PAGES = (
    member_page(
        "GET", _ASK, "Ask a question", question_page, "ask.html", shape="explain", nav="Ask"
    ),
    member_page(
        "POST", _ASK, "Ask a question", ask, "ask.html", shape="explain", charging=True
    ),
    member_page(
        "POST", "/console/explain", "Cost of a question", explain, "explained.html",
        shape="explain",
    ),
    member_page(
        "GET", "/console/answers/{request}", "Answer", answer_page, "answer.html", shape="query"
    ),
    member_page(
        "GET", "/console/history", "Past questions", history_page, "history.html",
        shape="query", nav="History",
    ),
)  # fmt: skip
