"""Forms made from operations that have no page of their own, and the list of these forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.console.forms import Filled, wrong
from sfumato.console.page_request import Page, PageRoute, Visit, Who
from sfumato.errors import SfumatoError
from sfumato.operations.datasets import source_below
from sfumato.operations.fields import read
from sfumato.operations.operation import Context
from sfumato.operations.table import all_operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.operations.operation import Operation

LIST = "/console/owner/operations"
_TEMPLATE = "owner/operation.html"


def pages_of(operations: Iterable[Operation] | None = None) -> tuple[PageRoute, ...]:
    """The list of forms, and for each operation a form that asks and one that is sent."""
    listed = tuple(
        operation
        for operation in (all_operations() if operations is None else operations)
        if "console" in operation.doors and operation.page is None
    )
    pages = [
        PageRoute(
            method="GET",
            path=LIST,
            title="More",
            who=Who.OWNER,
            handler=partial(_list_page, listed),
            template="owner/operations.html",
            nav="More",
        )
    ]
    for operation in listed:
        page = partial(
            PageRoute,
            path=path_of(operation),
            title=operation.name.capitalize(),
            who=Who.OWNER if operation.allowed.owner else Who.SIGNED_IN,
            shape=operation.allowed.shape,
            template=_TEMPLATE,
        )
        pages.append(page(method="GET", handler=partial(_form_page, operation)))
        pages.append(page(method="POST", handler=partial(_do, operation)))
    return tuple(pages)


def path_of(operation: Operation) -> str:
    """Where the form of an operation is."""
    return f"{LIST}/{operation.name.replace(' ', '/')}"


def _list_page(operations: tuple[Operation, ...], _visit: Visit) -> Page:
    forms = [
        {"name": operation.name.capitalize(), "path": path_of(operation), "help": operation.summary}
        for operation in operations
    ]
    return Page({"forms": forms})


def _form_page(
    operation: Operation,
    _visit: Visit,
    values: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    rows: Any = (),
    status: int = 200,
) -> Page:
    facts = {
        "help": operation.help,
        "fields": operation.fields,
        "here": path_of(operation),
        "list": LIST,
        "said": Filled(values or {}),
        "errors": Filled(errors or {}),
        "rows": rows,
    }
    return Page(facts, status)


def _do(operation: Operation, visit: Visit) -> Page:
    """Do what the form asks; what is wrong stands beside its field."""
    # A field that is left empty, or a box that is not ticked, is not part of the request.
    values = {field.name: visit.said(field.name) for field in operation.fields}
    given = {name: value for name, value in values.items() if value}
    context = Context(
        visit.vault,
        principal=visit.principal,
        operator=visit.operator,
        find_source=partial(source_below, visit.data),
    )
    try:
        result = operation.run(context, read(operation.request, given, text=True, remote=True))
    except SfumatoError as error:
        problems = wrong(error, values)
        return _form_page(operation, visit, visit.values, problems, status=422)
    return _form_page(operation, visit, rows=_rows(result.to_json()))


def _rows(value: Any, name: str = "") -> list[tuple[str, str]]:
    """A record as lines: the path to each plain value, and the value."""
    if isinstance(value, dict):
        pairs = [(f"{name} {key}".strip(), each) for key, each in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{name} {number}", each) for number, each in enumerate(value, start=1)]
    else:
        return [(name, "" if value is None else str(value))]
    return [row for key, each in pairs for row in _rows(each, key)]
