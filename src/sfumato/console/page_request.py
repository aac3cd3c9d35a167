"""What a page is given and what it gives: a visit, and a page, a way to go on, or a download.

A chapter of the console is a module with a tuple `PAGES`, listed in `gate.console.pages`. What
stands behind a page is a plain function that may block: it is run in a thread, for somebody who
may have it, and calls the same methods of the vault as the doors of programs do. Decision
`console`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import IO, TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.vault.logins import STRANGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sfumato.console.sessions import VisitSession
    from sfumato.server.settings import Setting
    from sfumato.vault.logins import Guesser
    from sfumato.vault.principals import Principal
    from sfumato.vault.vault import Vault

FORM = "form"
"""The field of every form that proves that the page it stands on was ours."""


class Who(Enum):
    """Who may have a page."""

    PUBLIC = "public"
    SIGNED_IN = "signed in"
    OWNER = "owner"


@dataclass(frozen=True)
class Upload:
    """A file that came with a form: under which name, and its bytes, from the first on."""

    name: str
    file: IO[bytes] = field(compare=False)
    size: int


@dataclass(frozen=True)
class Visit:
    """One request for a page, by somebody who may have it."""

    vault: Vault
    session: VisitSession
    setting: Setting
    host: str
    """The address under which the visitor came, as https://data.example.org."""
    path: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that have a name, as {name}."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What the form says, or what stands behind the '?': each name once, as text."""
    several: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same with every value of a name, for boxes that may all be ticked."""
    files: Mapping[str, Upload] = field(default_factory=dict)
    peer: str = ""
    """The address that the request came from, see `gate.peers`."""
    device: str = ""
    """The secret by which the visitor's browser says that it has signed in before."""
    guesser: Guesser = STRANGER
    """Who tries or sets a password, on a page that computes a hash."""

    @property
    def person(self) -> Principal | None:
        """Who visits, with their rights; nobody who is known, where they are not signed in."""
        return self.session.person

    @property
    def principal(self) -> str:
        """The name of who visits, on a page for those who are signed in."""
        if self.person is None:
            raise PolicyError("sign_in_needed", "This is for people who have signed in. Sign in.")
        return self.person.name

    @property
    def operator(self) -> str:
        """In whose name a change is made: the session says it, nobody else."""
        return f"{self.principal} by console"

    @property
    def data(self) -> Path | None:
        """The folder of the server from which an owner may add data sets, if any."""
        return self.setting.data

    def said(self, name: str) -> str:
        """What a field says, without blanks around it; nothing where it is not there."""
        return self.values.get(name, "").strip()


@dataclass(frozen=True)
class Page:
    """Facts for the template of the page; every one of them is escaped there."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    template: str | None = None
    """Where it is not the one of the table."""


@dataclass(frozen=True)
class Redirect:
    """Where to go on with GET, with words for the page there."""

    to: str
    words: str | None = None
    session: str | None = None
    """The id of a session that begins here; "" where the one there was is over."""
    device: str | None = None
    """The secret by which the browser is known from now on."""


@dataclass(frozen=True)
class Download:
    """A file to be saved, never shown: a page in it could not do anything as one of ours."""

    content: bytes | Path
    media: str
    name: str


@dataclass(frozen=True, kw_only=True)
class PageRoute:
    """One line of the table of pages."""

    method: str
    path: str
    """The whole path, such as /console/datasets/{name}."""
    title: str
    """What the page is called, in a browser's tab and above it."""
    who: Who
    handler: Callable[[Visit], Page | Redirect | Download]
    template: str = ""
    """Of `templates`; a POST that only leads on needs none."""
    shape: str | None = None
    """What a principal must be permitted to do, one of the shapes of `vault.principals`."""
    nav: str | None = None
    """Its word in the navigation, for everybody who may have it."""
    uploads: int = 0
    """How many bytes may come with its form, where files may."""
    hashing: bool = False
    """Whether it computes the hash of a password, of which few are computed at a time."""
    charging: bool = False
    """Whether something may be charged."""

    def is_for(self, person: Principal | None) -> bool:
        """Whether somebody may have it."""
        if person is None:
            return self.who is Who.PUBLIC
        if self.who is Who.OWNER and not person.is_owner:
            return False
        return self.shape is None or person.is_owner or self.shape in person.shapes
