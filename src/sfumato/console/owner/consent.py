"""Consent: who of a population agreed to what; given, withdrawn, imported and shown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.console.forms import Filled, wrong
from sfumato.console.page_request import Download, Page, PageRoute, Redirect, Visit, Who
from sfumato.data.schema.column import Kind
from sfumato.errors import SfumatoError
from sfumato.filesystem import Scratch, temporary_folder
from sfumato.server.problem_json import not_found

if TYPE_CHECKING:
    from sfumato.vault.consent.registry import ConsentRegistry

CONSENT = "/console/owner/consent"
MOST_BYTES = 32 * 1024**2
_EVERY = "every purpose"


def listed(visit: Visit) -> Page:
    """All registries, by how many agree."""
    found = [visit.vault.consent(one).show() for one in visit.vault.consents]
    return Page({"registries": found, "here": CONSENT})


def registry_page(visit: Visit) -> Page:
    """One registry: how many agree, and where somebody's word is written down."""
    return _page(visit)


def looked_up(visit: Visit) -> Page:
    """How one person stands, and all that they said; no address names them."""
    registry = _registry(visit)
    try:
        found = registry.show(_who(registry, visit.said("person")))
    except (SfumatoError, ValueError) as error:
        return _page(visit, errors=_beside("look", error), status=422)
    return _page(visit, found=found, whom=visit.said("person"))


def said(visit: Visit) -> Page | Redirect:
    """A person's yes or no, written down."""
    registry, purpose = _registry(visit), visit.said("purpose")
    gives = visit.said("answer") == "yes"
    try:
        who = _who(registry, visit.said("person"))
        if gives:
            registry.give(who, purpose, operator=visit.operator)
        else:
            one = None if purpose == _EVERY else purpose
            registry.withdraw(who, one, operator=visit.operator)
    except (SfumatoError, ValueError) as error:
        return _page(visit, errors=_beside("say", error), said=visit.values, status=422)
    words = "Their yes is written down." if gives else "It is withdrawn, from the next answer on."
    return Redirect(_here(registry), words)


def imported(visit: Visit) -> Page | Redirect:
    """What many people said, from a file: all of it or nothing."""
    registry, sent = _registry(visit), visit.files.get("file")
    if sent is None or not sent.size:
        return _page(visit, errors={"file.": "Choose a file first."}, status=422)
    with Scratch(temporary_folder(), "sfumato-") as folder:
        place = folder / "consent.csv"
        place.write_bytes(sent.file.read(MOST_BYTES))
        try:
            found = registry.import_file(place, operator=visit.operator)
        except SfumatoError as error:
            problem = {one: text.replace(str(place), "the file")
                       for one, text in _beside("file", error).items()}  # fmt: skip
            return _page(visit, errors=problem, status=422)
    words = f"{found['changed']:,} changed, {found['unchanged']:,} stood so already."
    return Redirect(_here(registry), words)


def exported(visit: Visit) -> Download:
    """All that stands, as a file that can be imported."""
    registry = _registry(visit)
    name = f"consent-{registry.population}.csv"
    return Download(registry.to_csv().encode(), "text/csv", name)


def _beside(form: str, error: Exception) -> dict[str, str]:
    if not isinstance(error, SfumatoError):
        return {f"{form}.person": "People are numbers here: write one such as 1042."}
    return {f"{form}.{name}": one for name, one in wrong(error, ("person", "purpose")).items()}


def _who(registry: ConsentRegistry, text: str) -> str | int:
    return int(text) if registry.kind is Kind.INTEGER else text


def _page(visit: Visit, *, status: int = 200, **facts: Any) -> Page:
    registry = _registry(visit)
    told = {
        "registry": registry.show(), "purposes": registry.purposes, "every": _EVERY,
        "here": _here(registry), "found": None, "whom": "", "errors": {}, "said": {}, **facts,
    }  # fmt: skip
    return Page(told | {name: Filled(told[name]) for name in ("errors", "said")}, status)


def _registry(visit: Visit) -> ConsentRegistry:
    name = visit.path["population"]
    if name not in visit.vault.consents:
        raise not_found()
    return visit.vault.consent(name)


def _here(registry: ConsentRegistry) -> str:
    return f"{CONSENT}/{quote(registry.population)}"


_ROUTE = partial(PageRoute, who=Who.OWNER, title="Consent", template="owner/registry.html")
_ONE = f"{CONSENT}/{{population}}"
PAGES = (
    PageRoute(
        method="GET", path=CONSENT, title="Consent", who=Who.OWNER, handler=listed,
        template="owner/consent.html", nav="Consent",
    ),
    _ROUTE(method="GET", path=_ONE, handler=registry_page),
    _ROUTE(method="POST", path=f"{_ONE}/person", handler=looked_up),
    _ROUTE(method="POST", path=_ONE, handler=said),
    _ROUTE(method="POST", path=f"{_ONE}/import", handler=imported, uploads=MOST_BYTES),
    _ROUTE(method="GET", path=f"{_ONE}/file", handler=exported),
)  # fmt: skip
