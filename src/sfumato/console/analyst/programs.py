"""Programs: tried on made-up rows, priced, and handed in as a job whose answer is a release."""

from __future__ import annotations

import secrets
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from sfumato.console.home import gauges
from sfumato.console.page_request import Page, PageRoute, Redirect, Visit, Who
from sfumato.errors import ParameterError, SfumatoError
from sfumato.methods.programs.catalogue import LANGUAGES
from sfumato.methods.programs.language import PYTHON, language_of
from sfumato.methods.programs.source import LONGEST, check_length
from sfumato.methods.programs.templates import NAMES, template
from sfumato.server import problem_json
from sfumato.vault.families import FAMILIES
from sfumato.vault.session import OwnRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_RUN = FAMILIES["run"]
_FIELDS = (
    *("dataset", "program", "language", "function", "output", "epsilon", "blocks", "seconds"),
    "purpose",
)
_NUMBERS = ("epsilon", "seconds")
_LONGEST_ID = 64
_UPLOAD = "file"


def code_page(visit: Visit) -> Page:
    """Where programs are put; with one to begin with, where its name is given."""
    said = {name: visit.said(name) for name in _FIELDS}
    begun = visit.said("template")
    if begun in NAMES:
        path = template(begun)
        text, language = path.read_text(encoding="utf-8"), language_of(path)
        said |= {"program": text, "language": language, "function": begun}
    return _shown(visit, said)


def code(visit: Visit) -> Page | Redirect:
    """A dry run, or a job, as the button says."""
    said = {name: visit.said(name) for name in _FIELDS}
    request = visit.said("request")[:_LONGEST_ID] or None
    try:
        said["program"], said["language"] = _program(visit)
        asked = _asked(said)
        if visit.said("do") != "run":
            private = visit.vault.private(
                said["dataset"], principal=visit.principal, purpose=said["purpose"] or None
            )
            told = private.prepare(_RUN, **asked).explain().text()
            return _shown(visit, said, request, told=told.splitlines())
        job = visit.vault.jobs.submit(
            _RUN.name,
            said["dataset"],
            principal=visit.principal,
            purpose=said["purpose"] or None,
            request_id=OwnRequest(f"console/{request}"),
            **asked,
        )
    except SfumatoError as error:
        refusal = str(problem_json.told(error, charging=True)["detail"])
        return _shown(visit, said, refusal=refusal, status=problem_json.status_of(error))
    return Redirect("/console/jobs", f"The program is handed in as job {job.id}.")


def _program(visit: Visit) -> tuple[str, str]:
    """The text and language of the form, or of the file that came with it."""
    sent = visit.files.get(_UPLOAD)
    if sent is None or not sent.size:
        text = visit.values.get("program", "").replace("\r\n", "\n")
        return text, visit.said("language") or PYTHON
    check_length(sent.size)
    try:
        return sent.file.read().decode(), language_of(PurePath(sent.name))
    except UnicodeDecodeError:
        raise ParameterError(
            "program_invalid", "The file is not UTF-8 text. Give a .py or .star file."
        ) from None


def _asked(said: Mapping[str, str]) -> dict[str, Any]:
    """What the family is asked; what was left out keeps its usual value."""
    asked: dict[str, Any] = {name: said[name] for name in ("program", "language", "output")}
    asked["function"] = said["function"] or None
    asked |= {name: said[name] for name in _NUMBERS if said[name]}
    if said["blocks"]:
        if not (said["blocks"].isascii() and said["blocks"].isdigit()):
            raise ParameterError(
                "parameter_out_of_range", "blocks must be a whole number of at least 2."
            )
        asked["blocks"] = int(said["blocks"][:9])
    return asked


def _shown(
    visit: Visit,
    said: Mapping[str, str],
    request: str | None = None,
    *,
    told: list[str] | None = None,
    refusal: str | None = None,
    status: int = 200,
) -> Page:
    seen = visit.vault.questions(principal=visit.principal).catalogue
    names = [name for name, one in seen.items() if hasattr(one, "population")]
    facts = {
        "said": said,
        "request": request or secrets.token_urlsafe(16),
        "datasets": names,
        "purposes": sorted({one for name in names for one in visit.vault.purposes(name)}),
        "templates": NAMES,
        "languages": LANGUAGES,
        "told": told or [],
        "refusal": refusal,
        "accounts": gauges(visit),
        "longest": LONGEST,
    }
    return Page(facts, status)


_COMMON: dict[str, Any] = {
    "path": "/console/code",
    "title": "Send a program",
    "who": Who.SIGNED_IN,
    "template": "code.html",
    "shape": "code",
}
PAGES = (
    PageRoute(method="GET", handler=code_page, nav="Program", **_COMMON),
    PageRoute(method="POST", handler=code, uploads=2 * LONGEST, charging=True, **_COMMON),
)
