"""The HTTP routes of operations, made from their declarations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.operations.datasets import source_below
from sfumato.operations.fields import read
from sfumato.operations.operation import Context
from sfumato.server.problem_json import not_found
from sfumato.server.routing import JSON, Call, Reply, Route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.operations.operation import Operation

_WITHOUT_BODY = {"GET", "DELETE"}
_ENDING = "ending"
"""The part of a path that names the extension of a file."""


def routes_of(operation: Operation) -> tuple[Route, ...]:
    """The route of an operation, and a second route for its files, if it has any."""
    route = route_of(operation)
    if not operation.formats or operation.result.media != JSON:
        return (route,)
    file = replace(
        route,
        path=f"{route.path}.{{{_ENDING}}}",
        summary=f"The same as a file: {', '.join(f'.{ending}' for ending in operation.formats)}.",
        media=tuple(operation.formats.values()),
    )
    return file, route  # the more specific path first, or the other would match it too


def route_of(operation: Operation) -> Route:
    """The route of an operation: its body, its permission and its answer."""
    example = {
        name: value
        for name, value in operation.examples[0].items()
        if name not in operation.path_fields
    }
    return Route(
        method=operation.method,
        path=operation.path,
        summary=operation.summary,
        handler=partial(answer, operation),
        scope=operation.allowed.scope,
        owner=operation.allowed.owner,
        shape=operation.allowed.shape,
        request=operation.request,
        kind_requests=operation.kind_requests,
        keyed=operation.keyed,
        status=operation.status,
        answer_schema=operation.result.json_schema(),
        media=(operation.result.media, *operation.forms),
        # Owners learn that a principal or token does not exist; others that the route does not.
        refusals=(404, *operation.refusals),
        open=operation.allowed.without_token,
        example=None if operation.method in _WITHOUT_BODY else example,
    )


def answer(operation: Operation, call: Call) -> Reply:
    """Read the request, run the operation and send its record.

    The caller was authorized before. Principal and operator come from the token alone, never from
    the request.
    """
    path = dict(call.path)
    ending = path.pop(_ENDING, None)
    if ending is not None and ending not in operation.formats:
        raise not_found()
    # One value for each field: a log shows the path, so the body must not override it.
    for name in path:
        if name in call.values:
            raise ParameterError(
                "option_unknown",
                f"{quoted(name)} stands in the path of this route and cannot be given again.",
                parameter=name,
            )
    values = {**call.values, **path}
    in_text = operation.method in _WITHOUT_BODY
    request: Any = read(operation.request_for(values), values, text=in_text, remote=True)
    context = Context(
        call.vault,
        principal=call.caller.principal,
        operator=call.operator,
        request_id=call.request_id,
        find_source=partial(source_below, call.data),
        wants=call.wants,
    )
    result = operation.run(context, request)
    for form in filter(call.wants, operation.forms):
        if (content := result.in_form(form)) is not None:
            return Reply(content, form)
    if ending is None:
        media = operation.result.media
        body = result.body() if media == JSON else result.to_text().encode()
        is_new = operation.status == 202
        headers = {"Location": result.location} if is_new and result.location else {}
        return Reply(body, media, file_name=result.file_name, headers=headers)
    address = "/v1" + operation.path.format(**path)
    media, content = result.file(ending, address)
    return Reply(content, media)


def operation_routes(operations: Iterable[Operation]) -> tuple[Route, ...]:
    """The routes of the operations that HTTP offers."""
    offered = [operation for operation in operations if "http" in operation.doors]
    return tuple(route for operation in offered for route in routes_of(operation))
