"""An operation: one thing that a person can ask of the system, declared once for every door.

A module of `operations` holds the operations of one noun: their requests, the functions that run
them, and the records that these return. The doors make sub-commands, HTTP routes with OpenAPI,
calls of the client and console forms from them; `docs/guide/operations.md` shows how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, get_type_hints

import msgspec

from sfumato import arguments
from sfumato.data.schema.names import suggestion
from sfumato.errors import ParameterError
from sfumato.operations.fields import Request, fields, schema_of
from sfumato.text import dumps
from sfumato.vault.principals import OWNER

if TYPE_CHECKING:
    from pathlib import Path

    from rich.text import Text

    from sfumato.operations.field import Field

JSON = "application/json"
DOORS = ("command", "http", "console")
"""Where an operation can be reached, besides Python. The client reaches what HTTP does."""


@dataclass(frozen=True)
class Permission:
    """Who may run an operation through a server or a console."""

    scope: str
    """The scope that a token must have, one of `vault.tokens.SCOPES`."""
    owner: bool = False
    """Whether only the vault's owner may."""
    shape: str | None = None
    """The shape of answers that a principal must be permitted, one of `vault.principals.SHAPES`."""
    without_token: bool = False
    """Whether a request without a token is accepted; it acts as the principal of kind public."""


OWNERS = Permission("admin", owner=True)
"""Only owners of the vault; others get `not_found`."""


@dataclass(frozen=True)
class Context:
    """The vault of an operation and its caller. Nothing else is passed beside the request."""

    vault: Any
    """A `Vault`; a `LedgerAccess` for an operation that needs no more; None for a local one."""
    principal: str = OWNER
    operator: str = OWNER
    """The name that the ledger records with a change."""
    request_id: str | None = None
    """The id under which a repeated request is charged once: an Idempotency-Key, or of a form."""
    find_source: Callable[[str], str] | None = None
    """On a server: resolves the source of data that a caller names, or refuses it. Elsewhere None:
    the caller may read every file that the process may."""
    wants: Callable[[str], bool] = lambda _media: False
    """Whether the caller names a media type among those that it accepts."""


class Result(msgspec.Struct):
    """What an operation returns: a record that every door can send, print or read back."""

    media: ClassVar[str] = JSON
    """The media type in HTTP. A result of another type than JSON has `to_text`."""

    @property
    def file_name(self) -> str | None:
        """The name under which a browser saves it instead of showing it."""
        return None

    def to_json(self) -> dict[str, Any]:
        """The record as JSON-able data, which HTTP sends."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    def body(self) -> object:
        """The record as HTTP sends it: JSON-able data, or its JSON text in bytes."""
        return self.to_json()

    @property
    def location(self) -> str | None:
        """The address of a record that was made; HTTP sends it as `Location`."""
        return None

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read what `to_json` wrote."""
        return msgspec.convert(data, cls)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of what `to_json` returns."""
        return schema_of(cls)

    def to_text(self) -> str:
        """The record as HTTP sends it, where its `media` is not JSON."""
        raise TypeError(f"{type(self).__name__} is sent as JSON")

    @classmethod
    def from_text(cls, text: str) -> Self:  # noqa: ARG003
        """Read what `to_text` wrote."""
        raise TypeError(f"{cls.__name__} is sent as JSON")

    def rest(self, request: Any) -> Request | None:  # noqa: ARG002
        """The request for the next part of a long result; None after the last part."""
        return None

    def save(self, path: Path, *, overwrite: bool, private: bool) -> dict[str, Any]:
        """Write the record as the file that the ending of its path names.

        Returns what the command prints with --json: the files that were written.
        """
        from sfumato.filesystem import whole

        # The content first: a file that cannot be made leaves no empty one behind.
        _, content = self.file(path.suffix.lower().removeprefix("."))
        with whole(path, overwrite=overwrite, private=private) as new:
            new.write_bytes(content)
        return {"written": [str(path)]}

    def in_form(self, media: str) -> bytes | None:  # noqa: ARG002
        """The record in another media type that `Accept` names; None if it has no such form."""
        return None

    def file(self, ending: str, address: str = "") -> tuple[str, bytes]:  # noqa: ARG002
        """The record as a file of this ending: its media type and content.

        Only results of operations with `formats` have files. A file may refer to its own
        `address`.
        """
        raise TypeError(f"{type(self).__name__} has no files of ending {ending!r}")

    def print(self, *, as_json: bool) -> None:
        """Print the record on standard output, for programs or for people."""
        if as_json:
            print(dumps(self.command_json()))  # noqa: T201
        else:
            self.show()

    def command_json(self) -> dict[str, Any]:
        """What the command prints with --json."""
        return self.to_json()

    def show(self) -> None:
        """Print the record for people on standard output."""
        for name, value in self.to_json().items():
            print(f"{name.replace('_', ' ')}: {'' if value is None else value}")  # noqa: T201


class TextReport(Result):
    """Data for programs, and a text for people."""

    data: dict[str, Any]
    text: str

    def to_json(self) -> dict[str, Any]:
        """The data alone."""
        return self.data

    def show(self) -> None:
        """Print the text."""
        print(self.text)  # noqa: T201


def print_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    empty: str,
    *,
    unbroken: str = "",
    numbers: Sequence[str] = (),
) -> None:
    """Print rows under their titles, or one sentence where there are none.

    The column of the `unbroken` title holds names that people copy, so no line of it is broken.
    Columns of `numbers` are aligned to the right. A `Text` is printed without markup.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(
            title,
            overflow="fold",
            no_wrap=title == unbroken,
            justify="right" if title in numbers else "left",
        )
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table if rows else empty)


class Call(Protocol):
    """Runs a request, here or on a server. The facades of Python are made from it."""

    def __call__(self, request: type[Request], operator: str = ..., /, **values: Any) -> Any:
        """Run a request of this type; `values` are its fields by name."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One line of the table of operations."""

    name: str
    """Noun and verb, such as 'principal add'."""
    request: type[Request]
    run: Callable[[Context, Any], Any]
    allowed: Permission
    examples: tuple[Mapping[str, Any], ...]
    """Values that can be sent: the lines of help, and the example of the body."""
    path: str
    """Below /v1; a part in braces is a field of the request."""
    description: str = ""
    """What it does, where the docstring of the request is about more than one operation."""
    command_examples: tuple[Mapping[str, Any], ...] = ()
    """The lines of help, where they differ because the command takes a file."""
    doors: tuple[str, ...] = DOORS
    method: str = "POST"
    status: int = 200
    repeatable: bool = True
    """Whether running it twice has the effect of running it once: a client may then retry it."""
    keyed: bool = False
    """Whether an Idempotency-Key makes a retry safe, because it is charged once."""
    recorded: bool = False
    """Whether the ledger records it, with the name of an operator."""
    whole_vault: bool = False
    """Whether it opens the data sets too. Others work while a database is out of reach."""
    local: bool = False
    """Whether it works on files of this machine instead of a vault, for the command alone."""
    page: str | None = None
    """The path of a console page of its own; without one the console makes a form."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """The files that its result can become: media types by ending. The command writes one with
    --out, and HTTP sends one where the path ends in its ending. A result that
    is not sent as JSON has no second path."""
    forms: tuple[str, ...] = ()
    """Media types that HTTP sends instead of JSON if `Accept` names them."""
    refusals: tuple[int, ...] = ()
    """Statuses of refusals, besides those that every route has."""
    kind_requests: Callable[[], Mapping[str, type[Request]]] | None = None
    """Returns the request type of each kind, where the `kind` in the body decides its fields. A
    function, because the types of all kinds are slow to make."""

    def request_for(self, values: Mapping[str, Any]) -> type[Request]:
        """The type of request for these values: that of the kind that they name, if any.

        Raises
        ------
        ParameterError
            `choice_unknown` if the kind is unknown.
        """
        if self.kind_requests is None or "kind" not in values:
            return self.request
        requests, kind = self.kind_requests(), values["kind"]
        if not isinstance(kind, str) or kind not in requests:
            # A kind from HTTP may be a megabyte long: the message quotes its beginning.
            raise ParameterError(
                "choice_unknown",
                f"kind cannot be {arguments.shown(kind)}; "
                f"{suggestion(str(kind)[:60], list(requests))}",
                parameter="kind",
            )
        return requests[kind]

    @property
    def noun(self) -> str:
        """The command that it belongs to."""
        return self.name.partition(" ")[0]

    @property
    def verb(self) -> str:
        """Its word below the noun."""
        return self.name.partition(" ")[2]

    @property
    def help(self) -> str:
        """What it does, in one paragraph or more."""
        return cleandoc(self.description or self.request.__doc__ or "")

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return " ".join(self.help.partition("\n\n")[0].split())

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of its request."""
        return fields(self.request)

    @cached_property
    def path_fields(self) -> tuple[str, ...]:
        """The fields that are parts of the path of the HTTP route."""
        return tuple(field.name for field in self.fields if f"{{{field.name}}}" in self.path)

    @cached_property
    def result(self) -> type[Result]:
        """The type of the record that it returns."""
        # Methods share one function, bound to each method by `partial`.
        function = self.run.func if isinstance(self.run, partial) else self.run
        returned: type[Result] = get_type_hints(function)["return"]
        return returned


OPERATIONS: dict[type[Request], Operation] = {}
"""Every operation of the modules that are loaded; `table.all_operations` loads all."""


def operation(
    name: str,
    *,
    examples: Sequence[Mapping[str, Any]],
    path: str | None = None,
    local: bool = False,
    **attributes: Any,
) -> Callable[[Callable[[Context, Any], Any]], Callable[[Context, Any], Any]]:
    """Declare an operation; the function below does it and names its request and result by type.

    The parameters are the attributes of `Operation`. Without a path the route is
    POST /admin/NOUN/VERB.
    """

    def declare(run: Callable[[Context, Any], Any]) -> Callable[[Context, Any], Any]:
        request: type[Request] = get_type_hints(run)["request"]
        if local:
            # A server must not work on files of its machine for a caller.
            attributes["doors"] = ("command",)
        OPERATIONS[request] = Operation(
            name=name,
            request=request,
            run=run,
            examples=tuple(examples),
            path=path or f"/admin/{name.replace(' ', '/')}",
            local=local,
            **attributes,
        )
        return run

    return declare
