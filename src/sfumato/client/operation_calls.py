"""Run operations on a server: send the request to its route, read the record."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from sfumato.client.admin import owners_only, reading
from sfumato.errors import ParameterError
from sfumato.operations.fields import read, to_json
from sfumato.operations.operation import JSON, OPERATIONS
from sfumato.vault.principals import OWNER

if TYPE_CHECKING:
    from sfumato.client.admin import Office
    from sfumato.operations.fields import Request


def call_remotely(
    office: Office, request: type[Request], operator: str = OWNER, /, **values: Any
) -> Any:
    """Have the server run a request, in the name of the token's holder."""
    operation = OPERATIONS[request]
    if "http" not in operation.doors:
        raise ParameterError(
            "choice_unknown",
            f"Only a vault's own machine offers 'sfumato {operation.name}'. Run the command there.",
        )
    if operation.recorded:
        office.check(operator)
    # Checked here with the errors of a local vault.
    data = to_json(read(request, values))
    # No character of a name may end its part of the path.
    in_path = {name: quote(str(data.pop(name)), safe="") for name in operation.path_fields}
    path = operation.path.format(**in_path).removeprefix("/")
    body = data if operation.method == "POST" else None
    if body is None and data:
        path = f"{path}?{urlencode(data)}"
    # An operation that must not run twice is sent once, also if its response is lost.
    connection = office.connection if operation.repeatable else office.once_connection()
    with owners_only() if operation.allowed.owner else nullcontext():
        received = connection.send(operation.method, path, body, accept=operation.result.media)
    with reading("an answer"):
        if operation.result.media == JSON:
            return operation.result.from_json(received.json())
        return operation.result.from_text(received.body.decode())
