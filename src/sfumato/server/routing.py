"""A route: its permission, its request and its response. Access checks and OpenAPI follow from it.

Most routes are made from operations; a module of `server.routes` has a tuple `ROUTES` of others.
The handler of a route is a plain function that may block: it runs in a thread, after the caller
was authorized, and reads the values of its `Call` itself. Decision `operations`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sfumato.operations.fields import Request
    from sfumato.server.authorization import Caller
    from sfumato.vault.vault import Vault

JSON = "application/json"


@dataclass(frozen=True)
class Call:
    """An authorized request: the vault, the caller and the values that were sent."""

    vault: Vault
    caller: Caller
    path: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that have a name, as {name}."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The body, or the query string of a request without one; not checked yet."""
    request_id: str | None = None
    """The Idempotency-Key, where one was given."""
    accept: str = "*/*"
    data: Path | None = None
    """The folder of the server from which an owner may add data sets, if any."""
    count_reports: Callable[[str, str, int], None] = lambda _peer, _round, _count: None
    """Refuses survey reports of a peer that has sent too many for a round."""

    @property
    def operator(self) -> str:
        """The name that the ledger records with a change; from the token, not the request."""
        return f"{self.caller.principal} by token {self.caller.token}"

    def wants(self, media: str) -> bool:
        """Whether the caller names a media type among those that it accepts."""
        accepted = {kind.partition(";")[0].strip().lower() for kind in self.accept.split(",")}
        return media in accepted


@dataclass(frozen=True)
class Reply:
    """A response: JSON-able data, or bytes or the `Path` of a file of another media type."""

    body: object
    media: str = JSON
    status: int | None = None
    """Where it is not the route's own."""
    file_name: str | None = None
    """The name under which a browser saves it, instead of showing it."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Route:
    """One line of the table of routes."""

    method: str
    path: str
    """Below /v1, such as /datasets/{name}; a part {file:path} takes slashes too."""
    summary: str
    """One line for people."""
    handler: Callable[[Call], Reply]
    scope: str | None
    """The scope that a token must have; None if no token is required."""
    open: bool = False
    """Whether a caller without a token may take it in the name of the public principal."""
    shape: str | None = None
    """The shape of answers that a principal must be permitted, one of `vault.principals.SHAPES`."""
    owner: bool = False
    """Whether only the vault's owner may."""
    request: type[Request] | None = None
    """The fields of the body or, for GET and DELETE, of the query string; the handler reads it."""
    kind_requests: Callable[[], Mapping[str, type[Request]]] | None = None
    """Returns the request type of each kind, if the `kind` in the body decides its fields."""
    never_waits: bool = False
    """Whether it is answered at once, whatever else is running; its handler must not block."""
    keyed: bool = False
    """Whether an Idempotency-Key makes a retry safe, because it is charged once."""
    status: int = 200
    answer_schema: Mapping[str, Any] = field(default_factory=dict)
    """The JSON schema of the answer; of other media types OpenAPI has only the name."""
    media: tuple[str, ...] = (JSON,)
    refusals: tuple[int, ...] = ()
    """The statuses of refusals, besides those that every route has."""
    example: Mapping[str, Any] | None = None
    """A body that could be sent."""

    @property
    def has_body(self) -> bool:
        """Whether its values come as a body."""
        return self.method in {"POST", "PUT"}

    @property
    def path_parts(self) -> tuple[str, ...]:
        """The names of the parts of its path."""
        return tuple(re.findall(r"\{(\w+)(?::\w+)?\}", self.path))

    @property
    def name(self) -> str:
        """The name in OpenAPI: its method and its path in one word."""
        segments = [re.sub(r"[{}]|:\w+", "", segment) for segment in self.path.split("/")]
        return "-".join([self.method.lower(), *filter(None, segments)])
