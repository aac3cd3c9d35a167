"""Forms generated from operations without a page of their own, and the list of these forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.console.forms import field_errors
from sfumato.console.page_request import (
    Audience,
    Page,
    PageRoute,
    Visit,
    owner_page,
)
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
    """The list of forms, and for each operation a page with its form and a handler of it."""
    listed = tuple(
        operation
        # Operations with a page of their own, such as `principal add`, need no form here.
        for operation in (all_operations() if operations is None else operations)
        if "console" in operation.doors and operation.page is None
    )
    pages = [
        owner_page(
            "GET", LIST, "More", partial(_list_page, listed), "owner/operations.html", nav="More"
        )
    ]
    for operation in listed:
        page = partial(
            PageRoute,
            path=path_of(operation),
            title=operation.name.capitalize(),
            audience=Audience.OWNER if operation.allowed.owner else Audience.SIGNED_IN,
            shape=operation.allowed.shape,
            template=_TEMPLATE,
        )
        pages.append(page(method="GET", handler=partial(_form_page, operation)))
        pages.append(page(method="POST", handler=partial(_do, operation)))
    return tuple(pages)


def path_of(operation: Operation) -> str:
    """The address of an operation's form."""
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
        "list": LIST,
        "rows": rows,
    }
    return Page(facts, status, values=values, errors=errors)


def _do(operation: Operation, visit: Visit) -> Page:
    """Run the operation; errors are shown beside their fields."""
    # An empty field, or a box that is not ticked, is not part of the request.
    names = [field.name for field in operation.fields]
    context = Context(
        visit.vault,
        principal=visit.principal,
        operator=visit.operator,
        find_source=partial(source_below, visit.data),
    )
    try:
        # `remote`: files of the server cannot be named here.
        request = read(operation.request, visit.filled(*names), text=True, remote=True)
        result = operation.run(context, request)
    except SfumatoError as error:
        errors = field_errors(error, names)
        return _form_page(operation, visit, visit.values, errors, status=422)
    return _form_page(operation, visit, rows=_rows(result.to_json()))


def _rows(value: Any, name: str = "") -> list[tuple[str, str]]:
    """A record as lines: the path to each plain value, and the value."""
    if isinstance(value, dict):
        items = [(f"{name} {key}".strip(), item) for key, item in value.items()]
    elif isinstance(value, list):
        items = [(f"{name} {number}", item) for number, item in enumerate(value, start=1)]
    else:
        return [(name, "" if value is None else str(value))]
    return [row for path, item in items for row in _rows(item, path)]
