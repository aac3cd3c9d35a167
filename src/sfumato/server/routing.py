"""A route: who may take it, what it takes, what it gives. Routing, permission and OpenAPI follow.

A door is a module of `gate.doors` with a tuple `ROUTES`, listed in `gate.routes`. What stands
behind a route is a plain function that may block: it is run in a thread and given a `Call`, whose
values were checked against the route's form, by a caller who was admitted. Decision `operations`.
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
    from sfumato.server.request_schemas import Input
    from sfumato.vault.vault import Vault

JSON = "application/json"


@dataclass(frozen=True)
class Call:
    """One request that was admitted: to which vault, by whom, and what it says."""

    vault: Vault
    caller: Caller
    path: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that have a name, as {name}."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """What its body says, or its query string where it has none: only what the form knows."""
    request_id: str | None = None
    """The Idempotency-Key, where one was given."""
    accept: str = "*/*"
    data: Path | None = None
    """The folder of the server from which an owner may add data sets, if any."""
    count_reports: Callable[[str, str, int], None] = lambda _peer, _round, _count: None
    """Refuses survey reports of a peer for a round where that peer has sent too many."""

    @property
    def operator(self) -> str:
        """In whose name a change is made: the token says it, not the request."""
        return f"{self.caller.principal} by token {self.caller.token}"

    def wants(self, media: str) -> bool:
        """Whether the caller names a media type among those that it takes."""
        return media in {one.partition(";")[0].strip().lower() for one in self.accept.split(",")}


@dataclass(frozen=True)
class Reply:
    """What is sent back: JSON-able data, or bytes or a `Path` to a file of another media type."""

    body: object
    media: str = JSON
    status: int | None = None
    """Where it is not the route's own."""
    file_name: str | None = None
    """Under which a browser is to save it, instead of showing it."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Route:
    """One line of the table of routes."""

    method: str
    path: str
    """Below /v1, such as /datasets/{name}; a part {file:path} takes slashes too."""
    told: str
    """One line for people."""
    handler: Callable[[Call], Reply]
    scope: str | None
    """What a token must be good for; None where no token is asked for."""
    open: bool = False
    """Whether who shows no token may take it in the name of the vault's public principal."""
    shape: str | None = None
    """What a principal must be permitted to do, one of the shapes of `vault.principals`."""
    owner: bool = False
    """Whether only the vault's owner may."""
    takes: tuple[Input, ...] = ()
    """What a body says, or, of a GET or DELETE, a query string."""
    request: type[Request] | None = None
    """The request that the handler reads; else the values are checked against `takes` before."""
    never_waits: bool = False
    """Whether it is answered at once, whatever else is worked on; its handler must not block."""
    keyed: bool = False
    """Whether an Idempotency-Key makes it safe to repeat."""
    status: int = 200
    gives: Mapping[str, Any] = field(default_factory=dict)
    """What it answers, as JSON Schema; of other media types only the name is told."""
    media: tuple[str, ...] = (JSON,)
    refusals: tuple[int, ...] = ()
    """With which statuses it may refuse, besides those that every route has."""
    example: Mapping[str, Any] | None = None
    """Values of its form that could be asked."""
    answer_example: Any = None

    @property
    def has_body(self) -> bool:
        """Whether its form comes as a body."""
        return self.method in {"POST", "PUT"}

    @property
    def name(self) -> str:
        """What programs call it: its method and its path in one word."""
        parts = [re.sub(r"[{}]|:\w+", "", part) for part in self.path.split("/")]
        return "-".join([self.method.lower(), *filter(None, parts)])
