"""How people come into the console: hashes of passwords, invitations, sessions, and tries.

None of it is an entry of the ledger: a hash must be forgotten when it changes. Whatever a visitor
carries is kept as its SHA-256 alone, so that who reads the file can come in by none of it.
Decision `console`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from sfumato.release.files_in_use import CONSOLE
from sfumato.report.display import Card, Shown
from sfumato.text import dumps
from sfumato.vault.side_database import Name, SideDatabase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import ColumnElement, Connection

    from sfumato.vault.config import Config
    from sfumato.vault.principal_registry import PrincipalRegistry

INVITED_SECONDS = 3 * 24 * 3600
"""So long an invitation can be taken up."""
DEVICE_SECONDS = 90 * 24 * 3600
"""So long a device is known after somebody signed in by it."""
MOST_DEVICES = 10
"""So many devices of one name are known, the latest."""
_SEEN_EVERY = 60.0
"""When a session was last used is noted no more often than this."""

_metadata = MetaData()


def _table(name: str, *columns: Column[object]) -> Table:
    return Table(f"sfumato_console_{name}", _metadata, *columns)


_passwords = _table(
    "passwords",
    Column("principal", Name, primary_key=True),
    Column("hash", Text, nullable=False),
)
_invitations = _table(
    "invitations",
    Column("secret", Name, primary_key=True),
    Column("principal", Name, nullable=False),
    Column("until", Float(53), nullable=False),
)
_sessions = _table(
    "sessions",
    Column("id", Name, primary_key=True),
    Column("principal", Name, nullable=False, index=True),
    Column("began", Float(53), nullable=False),
    Column("seen", Float(53), nullable=False),
    # Words for the next page: what the last one did.
    Column("notices", Text, nullable=False),
)
_guesses = _table(
    "guesses",
    Column("account", Name, nullable=False, index=True),
    Column("guesser", Name, nullable=False),
    Column("known", Boolean, nullable=False),
    Column("at", Float(53), nullable=False),
)
_devices = _table(
    "devices",
    Column("device", Name, primary_key=True),
    Column("principal", Name, nullable=False, index=True),
    Column("seen", Float(53), nullable=False),
)


@dataclass(frozen=True)
class Guesser:
    """Whoever tries a password: a device or a session that its name knows, or a stranger's peer."""

    key: str
    """Tries under one key are counted together."""
    lane: str
    """Requests of one lane wait behind each other: those of a principal, or of a peer."""
    is_known: bool = False
    """Whether this guesser has shown before that the name is theirs."""


STRANGER = Guesser("stranger", "stranger")


@dataclass(frozen=True)
class TryLimits:
    """How many passwords may be tried under one name within `seconds`.

    A known device has a share of its own, which strangers cannot use up. Strangers together have
    `repeated` tries; up to `first` are kept for those who have not tried yet, so that a few
    addresses that guess do not shut out a new one.
    """

    each: int = 5
    repeated: int = 30
    first: int = 60
    seconds: float = 60.0


TRY_LIMITS = TryLimits()


@dataclass(frozen=True)
class Login:
    """A session that was found: whose it is, and the words for its next page."""

    principal: str
    notices: tuple[str, ...] = ()


class Logins(Shown):
    """Passwords, invitations and sessions of a vault's people."""

    def __init__(
        self, config: Config, principals: PrincipalRegistry, clock: Callable[[], float] = time.time
    ) -> None:
        self._principals, self._clock = principals, clock
        self._store = SideDatabase(config, CONSOLE, _metadata, "logins")

    def _card(self) -> Card:
        with self._store.reading() as connection:
            names = sorted(connection.scalars(select(_passwords.c.principal)))
        return Card(f"passwords of {', '.join(names) or 'nobody'}", {})

    def invite(self, principal: str) -> str:
        """A secret, good once and for three days, by which somebody sets their own password.

        A later invitation ends those before.
        """
        name, secret = self._principals.admitted(principal).name, secrets.token_urlsafe(32)
        row = {
            "secret": _hash(secret),
            "principal": name,
            "until": self._clock() + INVITED_SECONDS,
        }
        with self._store.writing() as connection:
            connection.execute(delete(_invitations).where(_invitations.c.principal == name))
            connection.execute(insert(_invitations).values(row))
        return secret

    def invited(self, secret: str) -> str | None:
        """Who is invited by a secret, if it is still good."""
        good = _invitations.c.secret == _hash(secret), _invitations.c.until > self._clock()
        with self._store.reading() as connection:
            return connection.scalar(select(_invitations.c.principal).where(*good))

    def accept(self, secret: str, password_hash: str) -> str | None:
        """Take an invitation up: the password is theirs from now on, and the secret no more."""
        good = _invitations.c.secret == _hash(secret), _invitations.c.until > self._clock()
        with self._store.writing() as connection:
            name = connection.scalar(select(_invitations.c.principal).where(*good))
            if name is not None:
                connection.execute(delete(_invitations).where(_invitations.c.principal == name))
                connection.execute(delete(_passwords).where(_passwords.c.principal == name))
                row = {"principal": name, "hash": password_hash}
                connection.execute(insert(_passwords).values(row))
                _forget_browsers(connection, name)
        return name

    def hash_of(self, principal: str) -> str | None:
        """The hash of somebody's password, if they have one."""
        with self._store.reading() as connection:
            return connection.scalar(
                select(_passwords.c.hash).where(_passwords.c.principal == principal)
            )

    def rehash(self, principal: str, before: str, after: str) -> None:
        """Keep another hash of the same password."""
        same = _passwords.c.principal == principal, _passwords.c.hash == before
        with self._store.writing() as connection:
            connection.execute(update(_passwords).where(*same).values(hash=after))

    def change(self, principal: str, password_hash: str) -> None:
        """Give somebody another password; all sessions of theirs are over."""
        with self._store.writing() as connection:
            connection.execute(delete(_passwords).where(_passwords.c.principal == principal))
            row = {"principal": principal, "hash": password_hash}
            connection.execute(insert(_passwords).values(row))
            _forget_browsers(connection, principal)

    def may_try(self, account: str, guesser: Guesser, limits: TryLimits = TRY_LIMITS) -> bool:
        """Count a try to come in under a name, whether or not anybody has it; False for too many.

        Tries that were refused are not counted: who waits may try again.
        """
        now, name, by = self._clock(), _hash(account), _hash(f"{guesser.key} {account}")
        of_name = _guesses.c.account == name
        with self._store.writing() as connection:
            self._store.lock(connection, f"tries {name}")
            connection.execute(delete(_guesses).where(_guesses.c.at <= now - limits.seconds))

            def count(*conditions: ColumnElement[bool]) -> int:
                counted = select(func.count()).select_from(_guesses).where(of_name, *conditions)
                return connection.scalar(counted) or 0

            own = count(_guesses.c.guesser == by)
            if own >= limits.each:
                return False
            if not guesser.is_known:
                most = limits.repeated if own else limits.first
                if count(_guesses.c.known.is_(False)) >= most:
                    return False
            row = {"account": name, "guesser": by, "known": guesser.is_known, "at": now}
            connection.execute(insert(_guesses).values(row))
        return True

    def forget_tries(self, account: str, guesser: Guesser) -> None:
        """Begin to count the tries of one guesser anew: they have shown that the name is theirs.

        The tries of others stay counted: they may be those of somebody who guesses.
        """
        by = _hash(f"{guesser.key} {account}")
        with self._store.writing() as connection:
            connection.execute(delete(_guesses).where(_guesses.c.guesser == by))

    def knows_device(self, principal: str, device: str) -> bool:
        """Whether somebody signed in under this name by this device not long ago."""
        same = _devices.c.device == _hash(device), _devices.c.principal == principal
        young = _devices.c.seen > self._clock() - DEVICE_SECONDS
        with self._store.reading() as connection:
            return connection.scalar(select(_devices.c.seen).where(*same, young)) is not None

    def remember_device(self, principal: str, device: str) -> str:
        """A new secret by which the device of somebody who has just signed in is known again.

        It takes the place of `device`, the one that was shown. The secret lets nobody in: who
        shows it has tries that strangers cannot use up. A name has few, so guessing stays bounded.
        """
        made, now = secrets.token_urlsafe(32), self._clock()
        own = _devices.c.principal == principal
        with self._store.writing() as connection:
            over = (own & (_devices.c.device == _hash(device))) | (
                _devices.c.seen <= now - DEVICE_SECONDS
            )
            connection.execute(delete(_devices).where(over))
            latest = select(_devices.c.device).where(own).order_by(_devices.c.seen.desc())
            oldest = list(connection.scalars(latest))[MOST_DEVICES - 1 :]
            connection.execute(delete(_devices).where(_devices.c.device.in_(oldest)))
            row = {"device": _hash(made), "principal": principal, "seen": now}
            connection.execute(insert(_devices).values(row))
        return made

    def begin(self, principal: str) -> str:
        """Begin a session, under an id that nobody had before."""
        made, now = secrets.token_urlsafe(32), self._clock()
        row = {"id": _hash(made), "principal": principal, "began": now, "seen": now}
        with self._store.writing() as connection:
            connection.execute(insert(_sessions).values(row | {"notices": "[]"}))
        return made

    def find(self, session: str, *, idle: float, absolute: float) -> Login | None:
        """The session of an id, unless it lay idle or has lasted too long; its words are said."""
        name, now = _hash(session), self._clock()
        with self._store.reading() as connection:
            row = connection.execute(select(_sessions).where(_sessions.c.id == name)).first()
        if row is None or row.seen <= now - idle or row.began <= now - absolute:
            return None
        return Login(row.principal, tuple(json.loads(row.notices)))

    def seen(self, session: str, *, said: bool) -> None:
        """Note that a session is used, and where its words were `said`, forget them."""
        now, same = self._clock(), _sessions.c.id == _hash(session)
        values: dict[str, object] = {"seen": now} | ({"notices": "[]"} if said else {})
        with self._store.reading() as connection:
            before = connection.scalar(select(_sessions.c.seen).where(same))
        if said or (before is not None and before <= now - _SEEN_EVERY):
            with self._store.writing() as connection:
                connection.execute(update(_sessions).where(same).values(values))

    def tell(self, session: str, words: Sequence[str]) -> None:
        """Leave words for a session's next page."""
        same = _sessions.c.id == _hash(session)
        with self._store.writing() as connection:
            connection.execute(update(_sessions).where(same).values(notices=dumps(list(words))))

    def end(self, session: str, *, began_before: float) -> None:
        """End a session, and forget all that are over by their age."""
        over = (_sessions.c.id == _hash(session)) | (_sessions.c.began <= began_before)
        with self._store.writing() as connection:
            connection.execute(delete(_sessions).where(over))

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()


def invitation_path(secret: str) -> str:
    """The path of the page where somebody who was invited sets their password."""
    return f"/console/invitation/{secret}"


def _forget_browsers(connection: Connection, principal: str) -> None:
    """End all sessions of somebody whose password is new, and know none of their devices."""
    for table in (_sessions, _devices):
        connection.execute(delete(table).where(table.c.principal == principal))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
