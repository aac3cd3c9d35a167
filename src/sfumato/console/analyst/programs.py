"""Programs: tried on synthetic rows, then run as a job whose answer is a release."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from sfumato.console.analyst.questions import LONGEST_ID, purposes_of, refusal_of
from sfumato.console.home import gauges
from sfumato.console.page_request import Page, Redirect, Visit, member_page
from sfumato.errors import ParameterError, SfumatoError
from sfumato.methods.programs.catalogue import LANGUAGES
from sfumato.methods.programs.language import PYTHON, language_of
from sfumato.methods.programs.source import LONGEST, check_length
from sfumato.methods.programs.templates import NAMES, template
from sfumato.operations.operation import Context
from sfumato.operations.private_methods import METHODS, plan, submit
from sfumato.server import problem_json
from sfumato.vault.session import OwnRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_RUN = METHODS["run"]
_FIELDS = (
    *("dataset", "program", "language", "function", "output", "epsilon", "blocks", "seconds"),
    "purpose",
)
_UPLOAD = "file"


def program_page(visit: Visit) -> Page:
    """Show the form for a program, with an example in it if the address names one."""
    fields = {name: visit.text(name) for name in _FIELDS}
    example = visit.text("template")
    if example in NAMES:
        path = template(example)
        text, language = path.read_text(encoding="utf-8"), language_of(path)
        fields |= {"program": text, "language": language, "function": example}
    return _program_form(visit, fields)


def run_program(visit: Visit) -> Page | Redirect:
    """Try a program on synthetic rows, or submit it as a job, depending on the button."""
    fields = {name: visit.text(name) for name in _FIELDS}
    # A form that is sent twice is one job; without the field each submission is its own.
    request = visit.text("request")[:LONGEST_ID] or secrets.token_urlsafe(16)
    try:
        fields["program"], fields["language"] = _program_text(visit)
        asked = _RUN.read({name: value for name, value in fields.items() if value}, text=True)
        context = Context(
            visit.vault,
            principal=visit.principal,
            request_id=OwnRequest(f"console/{request}"),
        )
        if visit.text("do") != "run":
            _, prepared = plan(_RUN, context, asked)
            explanation = prepared.explain().text().splitlines()
            return _program_form(visit, fields, request, explanation=explanation)
        job = submit(_RUN.family.name, context, asked)
    except SfumatoError as error:
        refusal = refusal_of(error, charging=True)
        status = problem_json.status_of(error)
        return _program_form(visit, fields, refusal=refusal, status=status)
    return Redirect("/console/jobs", f"The program was submitted as job {job.job}.")


def _program_text(visit: Visit) -> tuple[str, str]:
    """The text and language of the program, from the form or from an uploaded file."""
    upload = visit.files.get(_UPLOAD)
    if upload is None or not upload.size:
        text = visit.values.get("program", "").replace("\r\n", "\n")
        return text, visit.text("language") or PYTHON
    check_length(upload.size)  # before it is read into memory
    try:
        return upload.file.read().decode(), language_of(PurePath(upload.name))
    except UnicodeDecodeError:
        raise ParameterError(
            "program_invalid", "The file is not UTF-8 text. Give a .py or .star file."
        ) from None


def _program_form(
    visit: Visit,
    fields: Mapping[str, str],
    request: str | None = None,
    *,
    explanation: list[str] | None = None,
    refusal: str | None = None,
    status: int = 200,
) -> Page:
    catalogue = visit.vault.questions(principal=visit.principal).catalogue
    names = [name for name, declared in catalogue.items() if hasattr(declared, "population")]
    facts = {
        "fields": fields,
        "request": request or secrets.token_urlsafe(16),
        "datasets": names,
        "purposes": purposes_of(visit, names),
        "templates": NAMES,
        "languages": LANGUAGES,
        "explanation": explanation or [],
        "refusal": refusal,
        "accounts": gauges(visit),
        "longest": LONGEST,
    }
    return Page(facts, status)


_page = partial(
    member_page,
    path="/console/code",
    title="Send a program",
    template="code.html",
    shape="code",
)
PAGES = (
    _page("GET", handler=program_page, nav="Program"),
    _page("POST", handler=run_program, uploads=2 * LONGEST, charging=True),
)
