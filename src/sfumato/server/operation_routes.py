"""The HTTP routes of operations, made from their declarations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.operations.datasets import source_below
from sfumato.operations.fields import read, schemas
from sfumato.operations.operation import Context
from sfumato.operations.table import all_operations
from sfumato.server.problem_json import not_found
from sfumato.server.request_schemas import Input
from sfumato.server.routing import JSON, Call, Reply, Route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.operations.operation import Operation

_GIVEN_IN_TEXT = {"GET", "DELETE"}
_ENDING = "ending"
"""The part of a path that asks for a file."""


def routes_of(operation: Operation) -> tuple[Route, ...]:
    """The route of an operation, and a second route for its files, if it has any."""
    route = route_of(operation)
    if not operation.formats or operation.result.media != JSON:
        return (route,)
    file = replace(
        route,
        path=f"{route.path}.{{{_ENDING}}}",
        told=f"The same as a file: {', '.join(f'.{ending}' for ending in operation.formats)}.",
        media=tuple(operation.formats.values()),
    )
    return file, route  # the more special path first


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
        told=operation.summary,
        handler=partial(answer, operation),
        scope=operation.allowed.scope,
        owner=operation.allowed.owner,
        shape=operation.allowed.shape,
        takes=takes,
        request=operation.request,
        status=operation.status,
        gives=operation.result.json_schema(),
        media=(operation.result.media, *operation.forms),
        # Owners learn that a principal or token does not exist; others that the route does not.
        refusals=(404, *operation.refusals),
        open=operation.allowed.without_token,
        example=example if has_body else None,
    )


def answer(operation: Operation, call: Call) -> Reply:
    """Read the request, do the operation and send its record."""
    in_text = operation.method in _GIVEN_IN_TEXT
    path = dict(call.path)
    ending = path.pop(_ENDING, None)
    if ending is not None and ending not in operation.formats:
        raise not_found()
    for name in path:
        if name in call.values:
            raise ParameterError(
                "option_unknown",
                f"{quoted(name)} stands in the path of this route and cannot be given again.",
                parameter=name,
            )
    values = {**call.values, **path}
    request = read(operation.request, values, text=in_text, remote=True)
    context = Context(
        call.vault,
        principal=call.caller.principal,
        operator=call.operator,
        request_id=call.request_id,
        find_source=partial(source_below, call.data),
    )
    result = operation.run(context, request)
    for form in filter(call.wants, operation.forms):
        if (content := result.in_form(form)) is not None:
            return Reply(content, form)
    if ending is None:
        media = operation.result.media
        body = result.to_json() if media == JSON else result.to_text().encode()
        return Reply(body, media, file_name=result.file_name)
    address = "/v1" + operation.path.format(**path)
    media, content = result.file(ending, address)
    return Reply(content, media)


def operation_routes(operations: Iterable[Operation] | None = None) -> tuple[Route, ...]:
    """The routes of all operations that HTTP offers."""
    listed = all_operations() if operations is None else operations
    offered = [operation for operation in listed if "http" in operation.doors]
    return tuple(route for operation in offered for route in routes_of(operation))
