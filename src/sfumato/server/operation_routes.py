"""The HTTP routes of operations, made from their declarations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.operations.fields import read, schema_of, schemas
from sfumato.operations.operation import Context
from sfumato.operations.table import all_operations
from sfumato.server.request_schemas import Input
from sfumato.server.routing import Call, Reply, Route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.operations.operation import Operation

_GIVEN_IN_TEXT = {"GET", "DELETE"}


def route_of(operation: Operation) -> Route:
    """The route of an operation: its form, its permission and what it answers."""
    written = schemas(operation.request)
    takes = tuple(
        Input(field.name, field.help, written[field.name], field.required)
        for field in operation.fields
        if field.name not in operation.path_fields
    )
    example = {
        name: value
        for name, value in operation.examples[0].items()
        if name not in operation.path_fields
    }
    has_body = operation.method not in _GIVEN_IN_TEXT
    return Route(
        method=operation.method,
        path=operation.path,
        told=operation.help,
        handler=partial(answer, operation),
        scope=operation.allowed.scope,
        owner=operation.allowed.owner,
        shape=operation.allowed.shape,
        takes=takes,
        request=operation.request,
        status=operation.status,
        gives=schema_of(operation.result),
        # Owners learn that a principal or token does not exist; others that the route does not.
        refusals=(404,),
        example=example if has_body else None,
    )


def answer(operation: Operation, call: Call) -> Reply:
    """Read the request, do the operation and send its record."""
    in_text = operation.method in _GIVEN_IN_TEXT
    for name in call.path:
        if name in call.values:
            raise ParameterError(
                "field_unknown",
                f"{quoted(name)} stands in the path of this route and cannot be given again.",
                parameter=name,
            )
    values = {**call.values, **call.path}
    request = read(operation.request, values, text=in_text)
    context = Context(
        call.vault,
        principal=call.caller.principal,
        operator=call.operator,
        request_id=call.request_id,
    )
    return Reply(operation.run(context, request).to_json())


def operation_routes(operations: Iterable[Operation] | None = None) -> tuple[Route, ...]:
    """The routes of all operations that HTTP offers."""
    listed = all_operations() if operations is None else operations
    return tuple(route_of(operation) for operation in listed if "http" in operation.doors)
