"""Access tokens: a server recognizes a principal by its token."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from sfumato.arguments import text
from sfumato.operations.fields import (
    FIELD_TYPES,
    FieldType,
    PrincipalName,
    Request,
    When,
    Words,
    arg,
)
from sfumato.operations.operation import (
    OWNERS,
    Call,
    Context,
    Result,
    operation,
    print_table,
)
from sfumato.report.display import Card, CardTable, Shown
from sfumato.text import minute
from sfumato.vault.principals import OWNER
from sfumato.vault.tokens import SCOPES, Token, id_of, unknown_token

PAGE = "/console/owner/people"


class TokenId(str):
    """The id of a token: eight letters and digits. Read from the id or from the whole token."""

    __slots__ = ()


def _read_token(value: object, name: str) -> str:
    # Only the id goes into the address of a request: logs of proxies store addresses.
    # A whole token is accepted and cut here, before it can be sent or logged.
    token = id_of(text(value, name))
    if not token.isalnum() or not token.isascii():
        raise unknown_token(token, ())
    return token


FIELD_TYPES[TokenId] = FieldType(
    "TOKEN", {"type": "string", "minLength": 1, "maxLength": 200}, _read_token
)


class TokenRecord(Result):
    """A token without its secret."""

    id: str
    principal: str
    scopes: tuple[str, ...]
    expires: str | None
    used: str | None
    """When it was last used, to the hour."""


class NewToken(Result):
    """A new token with its secret, which is shown this once."""

    token: str
    id: str
    principal: str
    scopes: tuple[str, ...]
    expires: str | None
    used: str | None

    def show(self) -> None:
        """Print the token alone on standard output, for scripts; its facts go to standard error."""
        import sys

        print(self.token)  # noqa: T201
        facts = f"{self.id}, for {self.principal}: {', '.join(self.scopes)}"
        print(f"sfumato: {facts}. It is not shown again.", file=sys.stderr)  # noqa: T201


class TokenList(Result):
    """Tokens that are not revoked, by principal."""

    tokens: tuple[TokenRecord, ...]

    def show(self) -> None:
        """Print a table."""
        rows = [
            (
                token.id,
                token.principal,
                ", ".join(token.scopes),
                minute(token.expires),
                minute(token.used),
            )
            for token in self.tokens
        ]
        titles = ("Token", "Principal", "For", "Expires", "Last used")
        print_table(titles, rows, "There are no tokens.")


class RevokedToken(Result):
    """The id of a token that is revoked."""

    revoked: str

    def show(self) -> None:
        """Print the id."""
        print(f"Revoked {self.revoked}.")  # noqa: T201


class MakeToken(Request):
    """Create a token for a principal and show it once."""

    principal: Annotated[PrincipalName, arg("The principal of the token.", positional=True)]
    scopes: Annotated[
        Words | None,
        arg("The scopes of the token; by default all of its principal.", words=SCOPES),
    ] = None
    expires: Annotated[When | None, arg("A day such as 2031-01-31, a time, or 90d.")] = None


class ListTokens(Request):
    """List the tokens that are not revoked, and when each was last used, to the hour."""

    principal: Annotated[PrincipalName | None, arg("Only of this one.", positional=True)] = None


class RevokeToken(Request):
    """Revoke a token at every server, from now on."""

    token: Annotated[TokenId, arg("The eight letters of the token.", positional=True)]


@operation(
    "token new",
    allowed=OWNERS,
    examples=[{"principal": "owner", "scopes": ["plan", "query"], "expires": "30d"}],
    path="/admin/tokens",
    status=201,
    repeatable=False,
    recorded=True,
    page=PAGE,
)
def make_token(context: Context, request: MakeToken) -> NewToken:
    """Write the hash of a new token into the ledger; the secret is stored nowhere."""
    registry = context.vault.token_registry
    secret = registry.new(
        request.principal,
        scopes=request.scopes,
        expires=request.expires,
        operator=context.operator,
    )
    # Read back from the ledger, which has set the scopes and the expiry.
    [token] = [token for token in registry.list() if token.id == id_of(secret)]
    return NewToken.from_json({"token": secret, **token.to_json()})


@operation(
    "token list",
    allowed=OWNERS,
    examples=[{}],
    method="GET",
    path="/admin/tokens",
    page=PAGE,
)
def list_tokens(context: Context, request: ListTokens) -> TokenList:
    """Read the tokens from the ledger."""
    tokens = [
        token.to_json()
        for token in context.vault.token_registry.list()
        if request.principal in (None, token.principal)
    ]
    return TokenList.from_json({"tokens": tokens})


@operation(
    "token revoke",
    allowed=OWNERS,
    examples=[{"token": "k7pm2x9c"}],
    method="DELETE",
    path="/admin/tokens/{token}",
    repeatable=False,
    recorded=True,
    page=PAGE,
)
def revoke_token(context: Context, request: RevokeToken) -> RevokedToken:
    """Remove the hash of a token from the ledger."""
    revoked = context.vault.token_registry.revoke(request.token, operator=context.operator)
    return RevokedToken(revoked=revoked)


class Tokens(Shown):
    """The tokens of a vault, here or behind a server."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def new(
        self,
        principal: str,
        *,
        scopes: Iterable[str] | str | None = None,
        expires: str | datetime | None = None,
        operator: str = OWNER,
    ) -> str:
        """Make a token for a principal and return its text, which is never shown again.

        Parameters
        ----------
        principal
            The principal of the token.
        scopes
            The scopes, some of 'query', 'plan', 'submit-code', 'ledger:read' and 'admin'; by
            default all that the principal may.
        expires
            A day, a time or days from now, such as "90d"; by default when the principal expires.
        operator
            Who decided it; the ledger records the name.

        Returns
        -------
        str
            The token with its secret.

        Raises
        ------
        ParameterError
            A scope is unknown or not permitted to the principal.
        PolicyError
            There is no such principal, or it has expired.
        """
        created: NewToken = self._call(
            MakeToken, operator, principal=principal, scopes=scopes, expires=expires
        )
        return created.token

    def revoke(self, token: str, *, operator: str = OWNER) -> str:
        """Revoke a token, given whole or by its id, at every server; return its id."""
        record: RevokedToken = self._call(RevokeToken, operator, token=token)
        return record.revoked

    def list(self) -> list[Token]:
        """List the tokens that are not revoked, by principal."""
        listed: TokenList = self._call(ListTokens)
        return [Token.from_json(token.to_json()) for token in listed.tokens]

    def _card(self) -> Card:
        tokens = self.list()
        rows = [
            (
                token.id,
                token.principal,
                ", ".join(token.scopes),
                "" if token.expires is None else token.expires.isoformat(),
            )
            for token in tokens
        ]
        line = ", ".join(f"{token.id} of {token.principal}" for token in tokens) or "none"
        titles = ("Token", "Principal", "For", "Expires")
        return Card(line, {}, CardTable(titles, rows) if rows else None)
