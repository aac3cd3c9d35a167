"""What the console stores: logins (passwords, invitations, sessions, devices) and past questions.

None of it is an entry of the ledger: a hash must be forgotten when it changes. Every secret that a
visitor carries is kept as its SHA-256 alone, so that nobody who reads the file can sign in with
what it holds. The ledger keeps answers and costs, but not the text of a question: the history keeps
that, with the receipt under which its answer is read again, free. Decision `console`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Integer,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from sfumato.privacy.ledger.chain import utc_now
from sfumato.release.files_in_use import CONSOLE
from sfumato.report.display import Card, Shown
from sfumato.text import dumps
from sfumato.vault.config import PrivateSet
from sfumato.vault.side_database import Name, SideDatabase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from sfumato.vault.answer import Answer
    from sfumato.vault.config import Config
    from sfumato.vault.principal_registry import PrincipalRegistry
    from sfumato.vault.vault import Vault


INVITED_SECONDS = 3 * 24 * 3600
"""How long an invitation can be accepted."""
DEVICE_SECONDS = 90 * 24 * 3600
"""How long a device is known after the last sign-in with it."""
MOST_DEVICES = 10
"""The most devices that are known of one name, the latest."""
_USE_SECONDS = 60.0
"""The use of a session is noted no more often than this: a note is a write."""

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
    # Messages for the next page, about what the last form did.
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
    """Whoever tries a password: a known device, a session, or the address of a stranger."""

    key: str
    """Tries under one key are counted together."""
    lane: str
    """Requests of one lane wait behind each other: those of a principal, or of an address."""
    is_known: bool = False
    """Whether this guesser has shown before that the name is theirs."""


STRANGER = Guesser("stranger", "stranger")


@dataclass(frozen=True)
class TryLimits:
    """How many passwords may be tried under one name within `seconds`.

    A known device has tries of its own, which strangers cannot use up. Strangers together have
    `repeated` tries; up to `first` are kept for those who have not tried yet, so that a few
    guessing addresses do not lock out a new one.
    """

    per_guesser: int = 5
    repeated: int = 30
    first: int = 60
    seconds: float = 60.0


TRY_LIMITS = TryLimits()


@dataclass(frozen=True)
class Login:
    """A valid session: its principal, and the messages for its next page."""

    principal: str
    notices: tuple[str, ...] = ()


class Logins(Shown):
    """The passwords, invitations, sessions and devices of a vault's principals."""

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
        """Invite a principal: return a secret that sets a password, once and within three days.

        A later invitation ends those before.
        """
        name, secret = self._principals.admitted(principal).name, secrets.token_urlsafe(32)
        row = {
            "secret": _hash(secret),
            "principal": name,
            "until": self._clock() + INVITED_SECONDS,
        }
        with self._store.writing() as connection:
            # Of two invitations at once neither would see and end the other.
            self._store.lock(connection, f"password {name}")
            connection.execute(delete(_invitations).where(_invitations.c.principal == name))
            connection.execute(insert(_invitations).values(row))
        return secret

    def invited(self, secret: str) -> str | None:
        """The principal that a secret invites, if it is still valid."""
        good = _invitations.c.secret == _hash(secret), _invitations.c.until > self._clock()
        with self._store.reading() as connection:
            return connection.scalar(select(_invitations.c.principal).where(*good))

    def accept(self, secret: str, password_hash: str) -> str | None:
        """Accept an invitation: set the password, and end the secret; return the principal.

        None if the secret is not valid. Two requests with one secret cannot both set a password.
        """
        good = _invitations.c.secret == _hash(secret), _invitations.c.until > self._clock()
        with self._store.writing() as connection:
            # The deletion decides, not a look before it: of two requests at once the second one
            # waits for the first in PostgreSQL, and then deletes nothing. So whoever has found the
            # link, in a mailbox or a log, sets no second password.
            accepted = delete(_invitations).where(*good).returning(_invitations.c.principal)
            name: str | None = connection.execute(accepted).scalar()
            if name is not None:
                connection.execute(delete(_invitations).where(_invitations.c.principal == name))
                self._set_password(connection, name, password_hash)
        return name

    def hash_of(self, principal: str) -> str | None:
        """The hash of a principal's password, if there is one."""
        with self._store.reading() as connection:
            return connection.scalar(
                select(_passwords.c.hash).where(_passwords.c.principal == principal)
            )

    def rehash(self, principal: str, before: str, after: str) -> None:
        """Replace the hash of a password by a stronger hash of the same password.

        Only if it is still the one that was checked: the password may have been changed meanwhile.
        """
        is_unchanged = _passwords.c.principal == principal, _passwords.c.hash == before
        with self._store.writing() as connection:
            connection.execute(update(_passwords).where(*is_unchanged).values(hash=after))

    def change(self, principal: str, password_hash: str) -> None:
        """Change a password; all sessions of the principal end."""
        with self._store.writing() as connection:
            self._set_password(connection, principal, password_hash)

    def _set_password(self, connection: Connection, principal: str, password_hash: str) -> None:
        """Replace a password; end all sessions and forget all devices of the principal."""
        # Two changes at once would both insert a row, and one would fail on the other's.
        self._store.lock(connection, f"password {principal}")
        connection.execute(delete(_passwords).where(_passwords.c.principal == principal))
        row = {"principal": principal, "hash": password_hash}
        connection.execute(insert(_passwords).values(row))
        # Whoever changes a password may do so because somebody else knew it.
        for table in (_sessions, _devices):
            connection.execute(delete(table).where(table.c.principal == principal))

    def may_try(self, account: str, guesser: Guesser, limits: TryLimits = TRY_LIMITS) -> bool:
        """Count a try to sign in under a name; False if there were too many.

        Names that nobody has are counted alike, or a refusal would tell which names exist. Tries
        that were refused are not counted: whoever waits may try again.
        """
        time, name = self._clock(), _hash(account)
        # Hashed, because people type passwords into the field of the name.
        tried_by = _hash(f"{guesser.key} {account}")
        is_name = _guesses.c.account == name
        with self._store.writing() as connection:
            self._store.lock(connection, f"tries {name}")
            # Old tries go at each new one, so the table stays as large as one minute's tries.
            connection.execute(delete(_guesses).where(_guesses.c.at <= time - limits.seconds))

            def count(*conditions: ColumnElement[bool]) -> int:
                counted = select(func.count()).select_from(_guesses).where(is_name, *conditions)
                return connection.scalar(counted) or 0

            own = count(_guesses.c.guesser == tried_by)
            if own >= limits.per_guesser:
                return False
            if not guesser.is_known:
                most = limits.repeated if own else limits.first
                if count(_guesses.c.known.is_(False)) >= most:
                    return False
            row = {"account": name, "guesser": tried_by, "known": guesser.is_known, "at": time}
            connection.execute(insert(_guesses).values(row))
        return True

    def forget_tries(self, account: str, guesser: Guesser) -> None:
        """Forget the tries of one guesser, who has shown that the name is theirs.

        The tries of others stay counted: they may be guesses.
        """
        tried_by = _hash(f"{guesser.key} {account}")
        with self._store.writing() as connection:
            connection.execute(delete(_guesses).where(_guesses.c.guesser == tried_by))

    def knows_device(self, principal: str, device: str) -> bool:
        """Whether somebody signed in under this name with this device not long ago."""
        is_pair = _devices.c.device == _hash(device), _devices.c.principal == principal
        young = _devices.c.seen > self._clock() - DEVICE_SECONDS
        with self._store.reading() as connection:
            return connection.scalar(select(_devices.c.seen).where(*is_pair, young)) is not None

    def remember_device(self, principal: str, device: str) -> str:
        """Remember the device of somebody who has just signed in; return its new secret.

        It replaces `device`, the secret that was shown. The secret signs nobody in: whoever shows
        it has tries that strangers cannot use up. A name has few, so guessing stays bounded.
        """
        secret, time = secrets.token_urlsafe(32), self._clock()
        own = _devices.c.principal == principal
        with self._store.writing() as connection:
            # The old secret ends: one that was stolen works until the next sign-in at most.
            over = (own & (_devices.c.device == _hash(device))) | (
                _devices.c.seen <= time - DEVICE_SECONDS
            )
            connection.execute(delete(_devices).where(over))
            latest = select(_devices.c.device).where(own).order_by(_devices.c.seen.desc())
            oldest = list(connection.scalars(latest))[MOST_DEVICES - 1 :]
            connection.execute(delete(_devices).where(_devices.c.device.in_(oldest)))
            row = {"device": _hash(secret), "principal": principal, "seen": time}
            connection.execute(insert(_devices).values(row))
        return secret

    def begin(self, principal: str) -> str:
        """Begin a session; its id is new, so that no id from before the sign-in is of use."""
        session, time = secrets.token_urlsafe(32), self._clock()
        row = {"id": _hash(session), "principal": principal, "began": time, "seen": time}
        with self._store.writing() as connection:
            connection.execute(insert(_sessions).values(row | {"notices": "[]"}))
        return session

    def look_up(self, session: str, *, idle: float, absolute: float) -> Login | None:
        """A session by its id, unless it was unused for `idle` seconds or lasted `absolute`."""
        name, time = _hash(session), self._clock()
        with self._store.reading() as connection:
            row = connection.execute(select(_sessions).where(_sessions.c.id == name)).first()
        if row is None or row.seen <= time - idle or row.began <= time - absolute:
            return None
        return Login(row.principal, tuple(json.loads(row.notices)))

    def note_use(self, session: str, *, shown: bool) -> None:
        """Note that a session is used; if its notices were `shown`, forget them."""
        time, is_session = self._clock(), _sessions.c.id == _hash(session)
        values: dict[str, object] = {"seen": time} | ({"notices": "[]"} if shown else {})
        with self._store.reading() as connection:
            before = connection.scalar(select(_sessions.c.seen).where(is_session))
        if shown or (before is not None and before <= time - _USE_SECONDS):
            with self._store.writing() as connection:
                connection.execute(update(_sessions).where(is_session).values(values))

    def set_notices(self, session: str, notices: Sequence[str]) -> None:
        """Leave messages for a session's next page."""
        is_session, text = _sessions.c.id == _hash(session), dumps(list(notices))
        with self._store.writing() as connection:
            connection.execute(update(_sessions).where(is_session).values(notices=text))

    def end(self, session: str, *, began_before: float) -> None:
        """End a session, and forget all that are too old."""
        over = (_sessions.c.id == _hash(session)) | (_sessions.c.began <= began_before)
        with self._store.writing() as connection:
            connection.execute(delete(_sessions).where(over))

    def close(self) -> None:
        """Close the database."""
        self._store.close()


def invitation_path(secret: str) -> str:
    """The path of the page where an invited principal sets the password."""
    return f"/console/invitation/{secret}"


def _hash(text: str) -> str:
    # Fast and without salt, which is right for secrets of 32 random bytes; passwords are hashed
    # elsewhere. A form may send half a surrogate pair, which is hashed like any text rather than
    # refused.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_questions = _table(
    "questions",
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("principal", Name, nullable=False, index=True),
    Column("request", Name, nullable=False),
    Column("asked", Text, nullable=False),
    Column("datasets", Text, nullable=False),
    Column("entry", Name, nullable=False),
    Column("charged", Integer, nullable=False),
    Column("time", Name, nullable=False),
)


@dataclass(frozen=True)
class AskedBefore:
    """A past question: its request id, its text and options, and the time of its answer."""

    request: str
    asked: Mapping[str, str]
    time: datetime
    datasets: tuple[str, ...]
    entry: str
    charged: bool
    """Whether it was charged then, and not before."""


class History(Shown):
    """The questions of a vault's principals, as they asked them in the console."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._store = SideDatabase(vault.config, CONSOLE, _metadata, "questions")

    def _card(self) -> Card:
        return Card("questions of the console", {})

    def add(
        self, principal: str, request: str, asked: Mapping[str, str], answer: Answer,
        datasets: Sequence[str],
    ) -> str:  # fmt: skip
        """Add an answered question, once, however often it was sent; return its request id.

        If the id stands for another question already, a new id is made.
        """
        row = {
            "principal": principal,
            "request": request,
            "asked": dumps(dict(asked)),
            "datasets": dumps(list(datasets)),
            "entry": answer.entry,
            "charged": int(answer.charged),
            "time": utc_now().isoformat(timespec="seconds"),
        }
        with self._store.writing() as connection:
            # A form that was sent twice, by a reload or a double click, is one line of the
            # history. Without the lock both would look before either has added its line.
            self._store.lock(connection, f"questions {principal}")
            held = connection.execute(_of(principal, request)).first()
            if held is not None and json.loads(held.asked) == asked:
                return request
            stored_request = request if held is None else token_urlsafe(16)
            connection.execute(insert(_questions).values({**row, "request": stored_request}))
        return stored_request

    def list(self, principal: str, most: int = 100) -> list[AskedBefore]:
        """A principal's questions, the last first."""
        newest = select(_questions).where(_questions.c.principal == principal)
        ordered = newest.order_by(_questions.c.number.desc()).limit(most)
        with self._store.reading() as connection:
            return [_read(row) for row in connection.execute(ordered)]

    def get(self, principal: str, request: str) -> AskedBefore | None:
        """A question of a principal, or None."""
        with self._store.reading() as connection:
            row = connection.execute(_of(principal, request)).first()
        return None if row is None else _read(row)

    def answer(self, principal: str, question: AskedBefore) -> Answer:
        """The stored answer to a question, with the balance of today."""
        held = [self._vault.config.datasets.get(name) for name in question.datasets]
        # The data set may have been removed since; its answer is still readable.
        populations = {dataset.population for dataset in held if isinstance(dataset, PrivateSet)}
        purpose = question.asked.get("purpose") or None
        asker = self._vault.principal_registry.asker(principal, purpose, tuple(sorted(populations)))
        # Here alone: who only signs people in or invites them starts without jobs and releases.
        from sfumato.vault.releases import stored_answer

        stored = stored_answer(self._vault.ledger, question.entry)
        return self._vault.gatekeeper.read(stored, asker, charged=question.charged)

    def close(self) -> None:
        """Close the database."""
        self._store.close()


def _of(principal: str, request: str) -> Any:
    same_request = _questions.c.principal == principal, _questions.c.request == request
    return select(_questions).where(*same_request)


def _read(row: Row[Any]) -> AskedBefore:
    when = datetime.fromisoformat(row.time).astimezone(UTC)
    datasets = tuple(json.loads(row.datasets))
    asked, charged = json.loads(row.asked), bool(row.charged)
    return AskedBefore(row.request, asked, when, datasets, row.entry, charged)
