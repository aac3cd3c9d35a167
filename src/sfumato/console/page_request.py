"""Requests for console pages, the results of their handlers, and the routes that join both.

Each module of pages has a table `PAGES` of routes. A handler is a plain function that may block: it
runs in a thread, after the console has checked that the visitor may have the page. It calls the
same methods of the vault as commands and HTTP routes do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.vault.console_store import STRANGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sfumato.console.sessions import VisitSession
    from sfumato.server.settings import Setting
    from sfumato.vault.console_store import Guesser
    from sfumato.vault.principals import Principal
    from sfumato.vault.vault import Vault

HOME = "/console"
FORM = "form"
"""The hidden field with the token that proves that a form stood on a page of this session."""
# No "//host" and no "\\", which browsers take for another server.
_PATH = re.compile(r"/console(/[A-Za-z0-9_.~%:-]+)*", re.ASCII)


class Audience(Enum):
    """The visitors who may have a page."""

    PUBLIC = "public"
    SIGNED_IN = "signed in"
    OWNER = "owner"


@dataclass(frozen=True)
class Upload:
    """A file that was sent with a form."""

    name: str
    file: IO[bytes] = field(compare=False)
    size: int


@dataclass(frozen=True)
class Visit:
    """One request for a page, by a visitor who may have it."""

    vault: Vault
    session: VisitSession
    setting: Setting
    host: str
    """The address of this server as the visitor typed it, such as https://data.example.org."""
    path: Mapping[str, str] = field(default_factory=dict)
    """The named parts of the path, such as {name}."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The fields of the form or query string. Of a repeated field only the last value counts."""
    several: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same fields with all their values, for groups of check boxes."""
    files: Mapping[str, Upload] = field(default_factory=dict)
    peer: str = ""
    """The address that the request came from, see `server.authorization`."""
    device: str = ""
    """The secret of a browser that has signed in before."""
    guesser: Guesser = STRANGER
    """The source of a password that this request tries or sets."""

    @property
    def person(self) -> Principal | None:
        """The visitor with their permissions; None before they sign in."""
        return self.session.person

    @property
    def principal(self) -> str:
        """The name of the visitor, on a page for visitors who have signed in."""
        if self.person is None:
            raise PolicyError("sign_in_needed", "This page is for signed-in visitors. Sign in.")
        return self.person.name

    @property
    def operator(self) -> str:
        """The name that the ledger notes for a change. It comes from the session, never a form."""
        return f"{self.principal} by console"

    @property
    def data(self) -> Path | None:
        """The server's folder from which an owner may add data sets, if it has one."""
        return self.setting.data

    def text(self, name: str) -> str:
        """The value of a field without surrounding blanks; empty where the field is missing."""
        return self.values.get(name, "").strip()

    def filled(self, *names: str) -> dict[str, str]:
        """Those of the fields that are not empty."""
        return {name: self.text(name) for name in names if self.text(name)}


@dataclass(frozen=True)
class Page:
    """The facts that a template shows. The template escapes each of them."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    template: str | None = None
    """A template other than that of the route."""
    values: Mapping[str, str] | None = None
    """The texts in the fields of its forms, by field."""
    errors: Mapping[str, str] | None = None
    """Errors to show beside the fields; the error under "" is about the whole form."""


@dataclass(frozen=True)
class Redirect:
    """The address of the next page, with a notice to show there."""

    to: str
    notice: str | None = None
    session: str | None = None
    """The id of a session that begins here; empty where the current one ends."""
    device: str | None = None
    """The secret by which this browser is recognized from now on."""


@dataclass(frozen=True)
class Download:
    """A file to save. A browser never shows it, so no page inside it can act as one of ours."""

    content: bytes | Path
    media: str
    name: str


@dataclass(frozen=True)
class PageRoute:
    """One page: its path, its audience and the function behind it."""

    method: str
    path: str
    """The full path, such as /console/datasets/{name}."""
    title: str
    """The title in the browser's tab and above the page."""
    handler: Callable[[Visit], Page | Redirect | Download]
    template: str = ""
    """A file of `templates`; a POST that always redirects needs none."""
    audience: Audience = Audience.OWNER
    shape: str | None = None
    """The permission that a principal needs, one of `vault.principals.SHAPES`."""
    nav: str | None = None
    """The label in the navigation, for visitors who may have the page."""
    uploads: int = 0
    """The largest size in bytes of the files in its form; 0 where the form has no files."""
    hashing: bool = False
    """Whether it computes a password hash. Only a few of these run at a time."""
    charging: bool = False
    """Whether it may charge a budget."""

    def is_for(self, person: Principal | None) -> bool:
        """Whether a visitor may have this page."""
        if person is None:
            return self.audience is Audience.PUBLIC
        # An owner may have every page; others also need the permission of the page.
        if self.audience is Audience.OWNER and not person.is_owner:
            return False
        return self.shape is None or person.is_owner or self.shape in person.shapes


owner_page = partial(PageRoute, audience=Audience.OWNER)
member_page = partial(PageRoute, audience=Audience.SIGNED_IN)
public_page = partial(PageRoute, audience=Audience.PUBLIC)


def leads_inside(path: str) -> bool:
    """Whether a path belongs to this console.

    A sign-in page follows the path in its query string; this stops redirects to other servers.
    """
    return _PATH.fullmatch(path) is not None and "%" not in path and ".." not in path
