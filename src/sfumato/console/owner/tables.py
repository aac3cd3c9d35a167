"""Tables: those of the vault and those in the making, their risk, and what is declared of each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.attack.inspection_pages import stands_out, uniqueness
from sfumato.console.forms import Filled, wrong
from sfumato.console.owner import schema_form
from sfumato.console.owner.drafts import ENDINGS, MOST_BYTES, TableDraft, TableDrafts, offered
from sfumato.console.page_request import Page, PageRoute, Redirect, Visit, Who
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
    from pathlib import Path

    from sfumato.console.owner.schema_form import EditedSchema
    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Table

TABLES, DRAFTS = "/console/owner/tables", "/console/owner/drafts"
_ADDING = ("name", "epsilon", "delta", "population", "purposes", "consent", "schema")


def listed(visit: Visit) -> Page:
    """All tables, and where another can be added."""
    return Page(_listed(visit))


def uploaded(visit: Visit) -> Page | Redirect:
    """A table that came with the form, to be declared next."""
    sent = visit.files.get("file")
    if sent is None or not sent.name:
        return Page(_listed(visit, {"file": "Choose a file first."}), status=422)
    return _begun(visit, "file", lambda: _drafts(visit).from_upload(sent.file, sent.name))


def named(visit: Visit) -> Page | Redirect:
    """A table on the server, to be declared next."""
    source = visit.said("source")
    return _begun(visit, "source", lambda: _drafts(visit).from_server(source, visit.data))


def draft_page(visit: Visit) -> Page:
    """What is declared of a table in the making, as a form."""
    one = _draft(visit)
    schema = one.schema
    return _editing(visit, schema, schema_form.EditedSchema(schema_form.fields_of(schema)), one)


def declare_draft(visit: Visit) -> Page | Redirect:
    """A table in the making, declared so far as the form says."""
    one = _draft(visit)
    schema = one.schema
    found = schema_form.edited(schema, visit.values, one.folder, seen=one.seen)
    if found.schema is None:
        return _editing(visit, schema, found, one, status=422)
    one.declare(found.schema)
    return Redirect(f"{DRAFTS}/{one.id}", "What you declared is saved.")


def drop_draft(visit: Visit) -> Redirect:
    """No such table any more."""
    one = _draft(visit)
    _drafts(visit).drop(one)
    return Redirect(TABLES, f"{one.name} was thrown away.")


def draft_risk(visit: Visit) -> Page:
    """Who stands out in a table in the making."""
    one = _draft(visit)
    with read(one.source, one.schema) as table:
        return _risk(table, one.name, f"{DRAFTS}/{one.id}")


def adding_page(visit: Visit) -> Page:
    """What else must be said before a table is in the vault."""
    one = _draft(visit)
    return _adding(visit, one, {"name": one.name, "epsilon": "", "delta": ""})


def add(visit: Visit) -> Page | Redirect:
    """A table in the making, as a data set of the vault, with a budget for its people."""
    one, name = _draft(visit), visit.said("name")
    public = visit.said("public") == schema_form.YES
    asked = [] if public else [field for field in _ADDING if field not in ("name", "schema")]
    given = {field: visit.said(field) for field in asked if visit.said(field)}
    try:
        added: AddedDataset = call_locally(
            visit.vault, AddDataset, name=name, source=one.source, schema=one.schema_file,
            public=public, **given,
        )  # fmt: skip
    except SfumatoError as error:
        return _adding(visit, one, visit.values, wrong(error, _ADDING), status=422)
    one.settle()
    told = " ".join([f"{name} is in the vault.", *added.warnings])
    return Redirect(f"{TABLES}/{quote(name)}", told)


def table_page(visit: Visit) -> Page:
    """What is declared of a data set, as a form, and what is left of its budget."""
    schema = load(_declared_in(visit))
    return _editing(visit, schema, schema_form.EditedSchema(schema_form.fields_of(schema)))


def declare_table(visit: Visit) -> Page | Redirect:
    """A data set, declared as the form says from now on."""
    name, file = visit.path["name"], _declared_in(visit)
    schema = load(file)
    found = schema_form.edited(schema, visit.values, file.parent, with_unit=False)
    if found.schema is not None:
        try:
            redeclare(visit.vault, name, found.schema)
        except SfumatoError as error:
            found = schema_form.EditedSchema(found.fields, errors=wrong(error, ()))
        else:
            words = "What you declared holds from now on. Answers given before stay as they are."
            return Redirect(f"{TABLES}/{quote(name)}", words)
    return _editing(visit, schema, found, status=422)


def table_risk(visit: Visit) -> Page:
    """Who stands out in a data set of the vault: its people who agreed, where they are asked."""
    name = visit.path["name"]
    if not isinstance(visit.vault.config.datasets.get(name), PrivateSet):
        raise not_found()
    purposes = visit.vault.purposes(name)
    purpose = visit.said("purpose") or (purposes[0] if purposes else None)
    private = visit.vault.private(name, principal=visit.principal, purpose=purpose)
    with owners_table(private) as table:
        return _risk(table, name, f"{TABLES}/{name}")


def _begun(visit: Visit, field: str, begin: Any) -> Page | Redirect:
    try:
        made: TableDraft = begin()
    except SfumatoError as error:
        found = wrong(error, ())
        return Page(_listed(visit, {field: found[""]}), status=422)
    words = "The table was read. Nothing of it is public yet: look at what was guessed."
    return Redirect(f"{DRAFTS}/{made.id}", words)


def _listed(visit: Visit, errors: dict[str, str] | None = None) -> dict[str, Any]:
    vault = visit.vault
    left = {one["account"]: one["balance"] for one in vault.accounts(principal=visit.principal)}
    sets = [
        {
            "name": name,
            "hides": one.unit.sentence() if isinstance(one, PrivateSet) else "",
            "population": one.population if isinstance(one, PrivateSet) else "",
            "left": left.get(one.population, "") if isinstance(one, PrivateSet) else "",
        }
        for name, one in vault.config.datasets.items()
    ]
    problems = dict(errors or {})
    try:
        sources = offered(visit.data)
    except SfumatoError as error:
        sources, problems = [], {**wrong(error, ("source",)), **problems}
    return {
        "sets": sets,
        "drafts": _drafts(visit).list(),
        "sources": sources,
        "endings": ",".join(ENDINGS),
        "most": MOST_BYTES // 1024**2,
        "errors": Filled(problems),
    }


def _editing(
    visit: Visit,
    schema: Schema,
    found: EditedSchema,
    draft: TableDraft | None = None,
    status: int = 200,
) -> Page:
    """The form of a schema."""
    seen = None if draft is None else draft.seen
    columns = [
        {
            "place": f"c{place}",
            "name": one.name,
            "seen": "" if seen is None else _seen(seen, one.name, declared=one.domain is not None),
        }
        for place, one in enumerate(schema.columns)
    ]
    held = None if draft is not None else visit.vault.config.datasets[visit.path["name"]]
    private = isinstance(held, PrivateSet)
    facts = {
        "name": visit.path["name"] if draft is None else draft.name,
        "draft": draft,
        "private": private,
        "promise": held.unit.sentence() if isinstance(held, PrivateSet) else "",
        "columns": columns,
        "fields": Filled(found.fields),
        "errors": Filled(found.errors),
        "kinds": schema_form.KINDS,
        "roles": schema_form.ROLES,
        "hierarchies": schema_form.HIERARCHIES,
        "here": TABLES,
    }
    return Page(facts, status)


def _seen(schema: Schema, name: str, *, declared: bool) -> str:
    """What was seen of a column of which nothing is declared, in a few words."""
    column = schema.column(name)
    return "" if declared or column.domain is None else column.describe()[3]


def _risk(table: Table, name: str, back: str) -> Page:
    found = table.inspect()
    guesses = [
        (one.column.name, str(one.column.kind), str(one.column.role), one.reason)
        for one in found.guesses
    ]
    facts = {
        "name": name, "back": back, "said": stands_out(found), "rows": found.rows,
        "guesses": guesses, "blocks": uniqueness(found),
    }  # fmt: skip
    return Page(facts)


def _adding(
    visit: Visit, one: TableDraft, said: Any, errors: Any = None, status: int = 200
) -> Page:
    facts = {
        "draft": one,
        "said": Filled(said),
        "errors": Filled(errors or {}),
        "unit": one.schema.unit.sentence(),
        "populations": list(visit.vault.config.budgets),
        "here": DRAFTS,
    }
    return Page(facts, status)


def _drafts(visit: Visit) -> TableDrafts:
    return TableDrafts(visit.vault.config.folder)


def _draft(visit: Visit) -> TableDraft:
    found = _drafts(visit).get(visit.path["draft"])
    if found is None:
        raise not_found()
    return found


def _declared_in(visit: Visit) -> Path:
    name = visit.path["name"]
    if name not in visit.vault.config.datasets:
        raise not_found()
    return schema_file(visit.vault.config, name)


_ROUTE = partial(PageRoute, who=Who.OWNER)
_TABLE, _DRAFT = f"{TABLES}/{{name}}", f"{DRAFTS}/{{draft}}"
_LIST, _EDIT = "owner/tables.html", "owner/schema.html"
PAGES = (
    _ROUTE(method="GET", path=TABLES, title="Tables", handler=listed, template=_LIST, nav="Tables"),
    _ROUTE(
        method="POST", path=f"{TABLES}/upload", title="Tables", handler=uploaded, template=_LIST,
        uploads=MOST_BYTES,
    ),
    _ROUTE(method="POST", path=TABLES, title="Tables", handler=named, template=_LIST),
    _ROUTE(method="GET", path=_DRAFT, title="A new table", handler=draft_page, template=_EDIT),
    _ROUTE(method="POST", path=_DRAFT, title="A new table", handler=declare_draft, template=_EDIT),
    _ROUTE(method="POST", path=f"{_DRAFT}/drop", title="A new table", handler=drop_draft),
    _ROUTE(
        method="GET", path=f"{_DRAFT}/risk", title="Who stands out", handler=draft_risk,
        template="owner/risk.html",
    ),
    _ROUTE(
        method="GET", path=f"{_DRAFT}/add", title="Add it to the vault", handler=adding_page,
        template="owner/add.html",
    ),
    _ROUTE(
        method="POST", path=f"{_DRAFT}/add", title="Add it to the vault", handler=add,
        template="owner/add.html",
    ),
    _ROUTE(method="GET", path=_TABLE, title="A table", handler=table_page, template=_EDIT),
    _ROUTE(method="POST", path=_TABLE, title="A table", handler=declare_table, template=_EDIT),
    _ROUTE(
        method="GET", path=f"{_TABLE}/risk", title="Who stands out", handler=table_risk,
        template="owner/risk.html",
    ),
)  # fmt: skip
