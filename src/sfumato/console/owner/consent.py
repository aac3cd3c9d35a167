"""Consent of the people in a population: recorded, withdrawn, imported, exported and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.console.forms import YES, field_errors
from sfumato.console.page_request import Download, Page, Redirect, Visit, owner_page
from sfumato.data.schema.column import Kind
from sfumato.errors import SfumatoError
from sfumato.filesystem import Scratch, temporary_folder
from sfumato.server.problem_json import not_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.vault.consent.registry import ConsentRegistry

CONSENT = "/console/owner/consent"
MOST_BYTES = 32 * 1024**2
_ALL_PURPOSES = "every purpose"


def list_registries(visit: Visit) -> Page:
    """List the consent registries with the number of people who agree."""
    registries = [visit.vault.consent(population).show() for population in visit.vault.consents]
    return Page({"registries": registries, "list": CONSENT})


def registry_page(
    visit: Visit,
    *,
    record: Mapping[str, Any] | None = None,
    person: str = "",
    values: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Page:
    """Show one registry with its forms; `record` is what was looked up about a person."""
    registry = _registry(visit)
    facts = {
        "registry": registry.show(),
        "purposes": registry.purposes,
        "all_purposes": _ALL_PURPOSES,
        "page": _page_of(registry),
        "record": record,
        "person_id": person,
    }
    return Page(facts, status, values=values, errors=errors)


def look_up_person(visit: Visit) -> Page:
    """Show the consent of one person. A POST: addresses, and so logs, never name people."""
    registry = _registry(visit)
    try:
        record = registry.show(_person_id(registry, visit.text("person")))
    except (SfumatoError, ValueError) as error:
        return registry_page(visit, errors=_errors("look", error), status=422)
    return registry_page(visit, record=record, person=visit.text("person"))


def record_answer(visit: Visit) -> Page | Redirect:
    """Record that a person consents, or withdraws consent."""
    registry, purpose = _registry(visit), visit.text("purpose")
    # Anything but a clear yes withdraws.
    agrees = visit.text("answer") == YES
    try:
        person = _person_id(registry, visit.text("person"))
        if agrees:
            registry.give(person, purpose, operator=visit.operator)
        else:
            withdrawn = None if purpose == _ALL_PURPOSES else purpose
            registry.withdraw(person, withdrawn, operator=visit.operator)
    except (SfumatoError, ValueError) as error:
        errors = _errors("say", error)
        return registry_page(visit, values=visit.values, errors=errors, status=422)
    notice = (
        "The consent is recorded."
        if agrees
        else "The consent is withdrawn, beginning with the next answer."
    )
    return Redirect(_page_of(registry), notice)


def import_answers(visit: Visit) -> Page | Redirect:
    """Record the answers of many people from a file, all or none of them."""
    registry, upload = _registry(visit), visit.files.get("file")
    if upload is None or not upload.size:
        return registry_page(visit, errors={"file.": "Choose a file first."}, status=422)
    # A file of our own name in a folder that is removed: no name of the sender becomes a path.
    with Scratch(temporary_folder(), "sfumato-") as folder:
        path = folder / "consent.csv"
        path.write_bytes(upload.file.read(MOST_BYTES))
        try:
            counts = registry.import_file(path, operator=visit.operator)
        except SfumatoError as error:
            errors = {
                name: problem.replace(str(path), "the file")
                for name, problem in _errors("file", error).items()
            }
            return registry_page(visit, errors=errors, status=422)
    notice = f"{counts['changed']:,} answers changed, {counts['unchanged']:,} were known already."
    return Redirect(_page_of(registry), notice)


def export_answers(visit: Visit) -> Download:
    """Download all current answers as a file that can be imported."""
    registry = _registry(visit)
    name = f"consent-{registry.population}.csv"
    return Download(registry.to_csv().encode(), "text/csv", name)


def _errors(form: str, error: Exception) -> dict[str, str]:
    if not isinstance(error, SfumatoError):
        return {f"{form}.person": "People are numbers here: write one such as 1042."}
    return field_errors(error, ("person", "purpose"), form)


def _person_id(registry: ConsentRegistry, text: str) -> str | int:
    # "7" and 7 are different people to the registry: the kind of its column decides.
    return int(text) if registry.kind is Kind.INTEGER else text


def _registry(visit: Visit) -> ConsentRegistry:
    name = visit.path["population"]
    if name not in visit.vault.consents:
        raise not_found()
    return visit.vault.consent(name)


def _page_of(registry: ConsentRegistry) -> str:
    return f"{CONSENT}/{quote(registry.population)}"


_POPULATION, _TEMPLATE = f"{CONSENT}/{{population}}", "owner/registry.html"
PAGES = (
    owner_page("GET", CONSENT, "Consent", list_registries, "owner/consent.html", nav="Consent"),
    owner_page("GET", _POPULATION, "Consent", registry_page, _TEMPLATE),
    owner_page("POST", f"{_POPULATION}/person", "Consent", look_up_person, _TEMPLATE),
    owner_page("POST", _POPULATION, "Consent", record_answer, _TEMPLATE),
    owner_page(
        "POST", f"{_POPULATION}/import", "Consent", import_answers, _TEMPLATE, uploads=MOST_BYTES
    ),
    owner_page("GET", f"{_POPULATION}/file", "Consent", export_answers, _TEMPLATE),
)
