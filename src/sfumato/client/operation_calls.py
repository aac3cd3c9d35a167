"""Operations of a vault behind a server: a request goes to its route, the record comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from sfumato.client.admin import reading
from sfumato.operations.fields import read, to_json
from sfumato.operations.operation import OPERATIONS
from sfumato.vault.principals import OWNER

if TYPE_CHECKING:
    from sfumato.client.admin import Office
    from sfumato.operations.fields import Request


def call_remotely(
    office: Office, request: type[Request], operator: str = OWNER, /, **values: Any
) -> Any:
    """Have the server do what a request asks, in the name of the token's holder."""
    operation = OPERATIONS[request]
    if operation.recorded:
        office.check(operator)
    data = to_json(read(request, values))
    in_path = {name: quote(str(data.pop(name)), safe="") for name in operation.path_fields}
    path = operation.path.format(**in_path).removeprefix("/admin/")
    body = data if operation.method == "POST" else None
    if body is None and data:
        path = f"{path}?{urlencode(data)}"
    if operation.method == "GET":
        answer = office.get(path)
    elif operation.repeatable:
        answer = office.send(path, body or {}, operation.method)
    else:
        answer = office.once(path, body, operation.method)
    with reading("an answer"):
        return operation.result.from_json(answer)
