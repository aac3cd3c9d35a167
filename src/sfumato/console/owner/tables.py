"""The owner's tables: data sets and drafts with their schemas and re-identification risk."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from sfumato.attack.inspection_pages import stands_out, uniqueness
from sfumato.console.analyst.datasets import PUBLIC_TABLE
from sfumato.console.forms import YES, FormValues, field_errors
from sfumato.console.owner import schema_form
from sfumato.console.owner.drafts import ENDINGS, MOST_BYTES, TableDrafts, server_sources
from sfumato.console.owner.schema_form import EditedSchema, edit_schema, fields_of
from sfumato.console.page_request import Page, Redirect, Visit, owner_page
from sfumato.data.schema.schema_file import load
from sfumato.errors import SfumatoError
from sfumato.operations.datasets import AddDataset, AddedDataset
from sfumato.operations.local_calls import call_locally
from sfumato.release.open_table import read
from sfumato.server.problem_json import not_found
from sfumato.vault.config import PrivateSet
from sfumato.vault.jobs.anonymize_job import owners_table
from sfumato.vault.registration import redeclare, schema_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sfumato.console.owner.drafts import TableDraft
    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Table

TABLES, DRAFTS = "/console/owner/tables", "/console/owner/drafts"
_BUDGET_FIELDS = ("epsilon", "delta", "population", "purposes", "consent")


def list_tables(visit: Visit, errors: Mapping[str, str] | None = None, status: int = 200) -> Page:
    """List all tables, with the forms that add another."""
    vault = visit.vault
    accounts = vault.accounts(principal=visit.principal)
    balances = {account["account"]: account["balance"] for account in accounts}
    datasets = [
        {
            "name": name,
            "private": isinstance(dataset, PrivateSet),
            "unit": dataset.unit.sentence() if isinstance(dataset, PrivateSet) else PUBLIC_TABLE,
            "balance": (
                balances.get(dataset.population, "") if isinstance(dataset, PrivateSet) else ""
            ),
        }
        for name, dataset in vault.config.datasets.items()
    ]
    errors = dict(errors or {})
    # A broken connections file must not hide the tables themselves.
    try:
        sources = server_sources(visit.data)
    except SfumatoError as error:
        sources, errors = [], {**field_errors(error, ("source",)), **errors}
    facts = {
        "datasets": datasets,
        "drafts": _drafts(visit).list(),
        "sources": sources,
        "endings": ",".join(ENDINGS),
        "most_mebibytes": MOST_BYTES // 1024**2,
    }
    return Page(facts, status, errors=errors)


def upload_table(visit: Visit) -> Page | Redirect:
    """Begin a draft with an uploaded table."""
    upload = visit.files.get("file")
    if upload is None or not upload.name:
        return list_tables(visit, {"file": "Choose a file first."}, 422)
    return _begin_draft(visit, "file", lambda: _drafts(visit).from_upload(upload.file, upload.name))


def name_table(visit: Visit) -> Page | Redirect:
    """Begin a draft with a table of the server."""
    source = visit.text("source")
    return _begin_draft(visit, "source", lambda: _drafts(visit).from_server(source, visit.data))


def draft_page(visit: Visit) -> Page:
    """Show the schema of a draft as a form."""
    draft = _draft(visit)
    schema = draft.schema
    return _schema_page(visit, schema, EditedSchema(fields_of(schema)), draft)


def declare_draft(visit: Visit) -> Page | Redirect:
    """Save the schema of a draft."""
    draft = _draft(visit)
    schema = draft.schema
    edited = edit_schema(schema, visit.values, draft.folder, seen=draft.seen)
    if edited.schema is None:
        return _schema_page(visit, schema, edited, draft, 422)
    draft.declare(edited.schema)
    return Redirect(f"{DRAFTS}/{draft.id}", "The schema is saved.")


def drop_draft(visit: Visit) -> Redirect:
    """Delete a draft."""
    draft = _draft(visit)
    _drafts(visit).drop(draft)
    return Redirect(TABLES, f"{draft.name} is deleted.")


def draft_risk(visit: Visit) -> Page:
    """Show how many people of a draft are unique."""
    draft = _draft(visit)
    with read(draft.source, draft.schema) as table:
        return _risk_page(table, draft.name, f"{DRAFTS}/{draft.id}")


def add_page(visit: Visit) -> Page:
    """Show the form that adds a draft to the vault: its name and budget."""
    draft = _draft(visit)
    return _add_form(draft, visit, {"name": draft.name, "epsilon": "", "delta": ""})


def add_table(visit: Visit) -> Page | Redirect:
    """Add a draft to the vault as a data set."""
    draft, name = _draft(visit), visit.text("name")
    # A public table has no budget; fields that were filled before it was ticked do not count.
    is_public = visit.text("public") == YES
    budget = {} if is_public else visit.filled(*_BUDGET_FIELDS)
    try:
        added: AddedDataset = call_locally(
            visit.vault, AddDataset, name=name, source=draft.source, schema=draft.schema_file,
            public=is_public, **budget,
        )  # fmt: skip
    except SfumatoError as error:
        errors = field_errors(error, ("name", *_BUDGET_FIELDS, "schema"))
        return _add_form(draft, visit, visit.values, errors, 422)
    draft.finish()  # only now: a refused table stays a draft
    notice = " ".join([f"{name} is in the vault.", *added.warnings])
    return Redirect(f"{TABLES}/{quote(name)}", notice)


def table_page(visit: Visit) -> Page:
    """Show the schema of a data set as a form."""
    schema = load(_schema_file(visit))
    return _schema_page(visit, schema, EditedSchema(fields_of(schema)))


def declare_table(visit: Visit) -> Page | Redirect:
    """Change the schema of a data set."""
    name, file = visit.path["name"], _schema_file(visit)
    schema = load(file)
    # Its people have a guarantee for the current unit, so the unit stays.
    edited = edit_schema(schema, visit.values, file.parent, with_unit=False)
    if edited.schema is not None:
        try:
            redeclare(visit.vault, name, edited.schema)
        except SfumatoError as error:
            edited = EditedSchema(edited.fields, errors=field_errors(error))
        else:
            notice = "The new schema holds from now on. Past answers stay as they are."
            return Redirect(f"{TABLES}/{quote(name)}", notice)
    return _schema_page(visit, schema, edited, status=422)


def table_risk(visit: Visit) -> Page:
    """Show how many people of a data set are unique, among those who consented if it asks them."""
    name = visit.path["name"]
    if not isinstance(visit.vault.config.datasets.get(name), PrivateSet):
        raise not_found()
    purposes = visit.vault.purposes(name)
    purpose = visit.text("purpose") or (purposes[0] if purposes else None)
    private = visit.vault.private(name, principal=visit.principal, purpose=purpose)
    # As the owner sees it, which is not private: the page is for the owner alone.
    with owners_table(private) as table:
        return _risk_page(table, name, f"{TABLES}/{name}")


def _begin_draft(visit: Visit, field: str, begin: Callable[[], TableDraft]) -> Page | Redirect:
    try:
        draft = begin()
    except SfumatoError as error:
        return list_tables(visit, {field: field_errors(error)[""]}, 422)
    notice = "The table was read. Nothing of it is public yet: check the guessed schema."
    return Redirect(f"{DRAFTS}/{draft.id}", notice)


def _schema_page(
    visit: Visit,
    schema: Schema,
    edited: EditedSchema,
    draft: TableDraft | None = None,
    status: int = 200,
) -> Page:
    # Only a draft has observed domains: those of a data set of the vault are private.
    seen = None if draft is None else draft.seen
    columns = [
        {
            "id": f"c{number}",
            "name": column.name,
            "seen": _seen_domain(seen, column.name) if seen and column.domain is None else "",
        }
        for number, column in enumerate(schema.columns)
    ]
    dataset = None if draft is not None else visit.vault.config.datasets[visit.path["name"]]
    facts = {
        "name": visit.path["name"] if draft is None else draft.name,
        "draft": draft,
        "unit": dataset.unit.sentence() if isinstance(dataset, PrivateSet) else "",
        "public_table": PUBLIC_TABLE,
        "columns": columns,
        "fields": FormValues(edited.fields),
        "kinds": schema_form.KINDS,
        "roles": schema_form.ROLES,
        "hierarchies": schema_form.HIERARCHIES,
    }
    return Page(facts, status, errors=edited.errors)


def _seen_domain(seen: Schema, name: str) -> str:
    """The observed domain of a column in a few words."""
    column = seen.column(name)
    return "" if column.domain is None else column.describe()[3]


def _risk_page(table: Table, name: str, back: str) -> Page:
    inspection = table.inspect()
    guesses = [
        (guess.column.name, str(guess.column.kind), str(guess.column.role), guess.reason)
        for guess in inspection.guesses
    ]
    facts = {
        "name": name, "back": back, "summary": stands_out(inspection), "rows": inspection.rows,
        "guesses": guesses, "blocks": uniqueness(inspection),
    }  # fmt: skip
    return Page(facts)


def _add_form(
    draft: TableDraft,
    visit: Visit,
    values: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Page:
    facts = {
        "draft": draft,
        "unit": draft.schema.unit.sentence(),
        "populations": list(visit.vault.config.budgets),
    }
    return Page(facts, status, values=values, errors=errors)


def _drafts(visit: Visit) -> TableDrafts:
    return TableDrafts(visit.vault.config.folder)


def _draft(visit: Visit) -> TableDraft:
    draft = _drafts(visit).get(visit.path["draft"])
    if draft is None:
        raise not_found()
    return draft


def _schema_file(visit: Visit) -> Path:
    name = visit.path["name"]
    if name not in visit.vault.config.datasets:
        raise not_found()
    return schema_file(visit.vault.config, name)


_TABLE, _DRAFT = f"{TABLES}/{{name}}", f"{DRAFTS}/{{draft}}"
_LIST, _SCHEMA, _ADD, _RISK = (f"owner/{name}.html" for name in ("tables", "schema", "add", "risk"))
PAGES = (
    owner_page("GET", TABLES, "Tables", list_tables, _LIST, nav="Tables"),
    owner_page("POST", f"{TABLES}/upload", "Tables", upload_table, _LIST, uploads=MOST_BYTES),
    owner_page("POST", TABLES, "Tables", name_table, _LIST),
    owner_page("GET", _DRAFT, "A new table", draft_page, _SCHEMA),
    owner_page("POST", _DRAFT, "A new table", declare_draft, _SCHEMA),
    owner_page("POST", f"{_DRAFT}/drop", "A new table", drop_draft),
    owner_page("GET", f"{_DRAFT}/risk", "Re-identification risk", draft_risk, _RISK),
    owner_page("GET", f"{_DRAFT}/add", "Add a table to the vault", add_page, _ADD),
    owner_page("POST", f"{_DRAFT}/add", "Add a table to the vault", add_table, _ADD),
    owner_page("GET", _TABLE, "A table", table_page, _SCHEMA),
    owner_page("POST", _TABLE, "A table", declare_table, _SCHEMA),
    owner_page("GET", f"{_TABLE}/risk", "Re-identification risk", table_risk, _RISK),
)
