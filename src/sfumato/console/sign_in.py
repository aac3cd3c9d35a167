"""Signing in and out, invitations and passwords.

Passwords are hashed by argon2id, a few at a time. A check takes the same time for unknown names, so
its duration does not show which names exist.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from sfumato.console.page_request import (
    HOME,
    Audience,
    Page,
    Redirect,
    leads_inside,
    member_page,
    public_page,
)
from sfumato.console.sessions import begin_session, end_session
from sfumato.errors import ParameterError, SfumatoError, in_fields
from sfumato.server.problem_json import RequestError, not_found
from sfumato.vault.console_store import TRY_LIMITS, Guesser, invitation_path

if TYPE_CHECKING:
    from sfumato.console.page_request import PageRoute, Visit
    from sfumato.vault.vault import Vault

INVITATION = invitation_path("{secret}")
SHORTEST, LONGEST = 12, 1000  # characters; the limit bounds the time of a hash
HASHED_AT_A_TIME = 2
"""How many hashes run at a time. Each takes 64 MiB and half a second of a core."""
HASHES_PER_SECOND, HASHES_AT_ONCE = 0.5, 30
"""The rate and burst of hashes for one unknown address, whatever names it tries."""
_REFUSED = "No account here has that name and that password."


def sign_in_page(visit: Visit) -> Page | Redirect:
    """Show the form for name and password."""
    if visit.person is not None:
        return Redirect(HOME)
    return Page({"name": "", "to": _page_here(visit.text("to")), "problem": None})


def sign_in(visit: Visit) -> Page | Redirect:
    """Begin a session if the password is right."""
    name, to = visit.text("name"), _page_here(visit.text("to"))
    is_right = check_password(visit.vault, name, visit.values.get("password", ""), visit.guesser)
    if is_right:
        try:
            visit.vault.principal_registry.admitted(name)
        except SfumatoError:
            is_right = False
    if not is_right:
        # One refusal for unknown names, wrong passwords and expired accounts: it tells none apart.
        return Page({"name": name, "to": to, "problem": _REFUSED}, status=403)
    return _signed_in(visit, name, to or HOME)


def sign_out(visit: Visit) -> Redirect:
    """End the session."""
    end_session(visit.vault, visit.session.id)
    return Redirect(HOME, session="")


def invitation_page(visit: Visit) -> Page:
    """Show an invited person the form for their password."""
    return _password_form(_invited(visit))


def accept_invitation(visit: Visit) -> Page | Redirect:
    """Set the password of an invited person and sign them in."""
    name = _invited(visit)
    try:
        password_hash = hash_password(visit.values.get("password", ""), visit.values.get("again"))
    except ParameterError as error:
        return _password_form(name, in_fields(error), 422)
    if visit.vault.logins.accept(visit.path["secret"], password_hash) is None:
        raise not_found()  # another request used the link first
    return _signed_in(visit, name, HOME, "Your password is set, and you are signed in.")


def password_page(_visit: Visit) -> Page:
    """Show the form to change a password."""
    return _password_form(None)


def change_password(visit: Visit) -> Page | Redirect:
    """Change a password. All other sessions of this person end."""
    name = visit.principal
    if not check_password(visit.vault, name, visit.values.get("before", ""), visit.guesser):
        return _password_form(None, "This is not your current password.", 403)
    try:
        password_hash = hash_password(visit.values.get("password", ""), visit.values.get("again"))
    except ParameterError as error:
        return _password_form(None, in_fields(error), 422)
    visit.vault.logins.change(name, password_hash)
    notice = "Your password is changed. Your other sessions have ended."
    return _signed_in(visit, name, HOME, notice)


def _invited(visit: Visit) -> str:
    name = visit.vault.logins.invited(visit.path["secret"])
    if name is None:
        raise not_found()
    return name


def _signed_in(visit: Visit, name: str, to: str, notice: str | None = None) -> Redirect:
    session = begin_session(visit.vault, visit.session, name)
    return Redirect(to, notice, session, visit.vault.logins.remember_device(name, visit.device))


def _password_form(name: str | None, problem: str | None = None, status: int = 200) -> Page:
    return Page({"name": name, "problem": problem, "shortest": SHORTEST}, status)


def _page_here(to: str) -> str:
    return to if leads_inside(to) else ""


@cache
def hasher() -> PasswordHasher:
    """The hasher, with the costs that the authors of argon2-cffi recommend."""
    return PasswordHasher()


@cache
def _hash_of_nobody(by: PasswordHasher) -> str:
    """A hash to check for unknown names, so that they take as long as known ones."""
    return by.hash("nobody has this password")


def hash_password(password: str, again: str | None) -> str:
    """Hash a new password that was typed twice; refuse it if both differ or if it is too short."""
    if password != again:
        raise ParameterError(
            "password_invalid", "The two passwords differ. Type the same password twice."
        )
    if not SHORTEST <= len(password) <= LONGEST:
        raise ParameterError(
            "password_invalid",
            f"A password has {SHORTEST} to {LONGEST:,} characters; this one has {len(password):,}. "
            "Four unrelated words make a good password.",
        )
    return hasher().hash(password)


def guesser_of(route: PageRoute, visit: Visit) -> Guesser:
    """The source of a password: a session, an invitation, a known browser or else an address.

    Known sources go before unknown ones, and guesses from elsewhere do not lock them out.
    """
    # From the strongest proof to the weakest. An address proves nothing.
    logins, secret = visit.vault.logins, visit.path.get("secret")
    if route.audience is not Audience.PUBLIC:
        return Guesser(f"session {visit.session.id}", visit.principal, is_known=True)
    if secret is not None:
        invited = logins.invited(secret)
        if invited is not None:
            return Guesser(f"invitation {secret}", invited, is_known=True)
    name = visit.text("name")
    if visit.device and logins.knows_device(name, visit.device):
        return Guesser(f"device {visit.device}", name, is_known=True)
    return Guesser(f"peer {visit.peer}", visit.peer)


def check_password(vault: Vault, name: str, password: str, guesser: Guesser) -> bool:
    """Whether a person has this password; takes equally long if nobody has that name."""
    if not vault.logins.may_try(name, guesser):
        raise sign_in_paused(TRY_LIMITS.seconds)
    stored_hash = vault.logins.hash_of(name)
    try:
        expected = _hash_of_nobody(hasher()) if stored_hash is None else stored_hash
        # Cut: hashing a password of a megabyte would block the worker.
        hasher().verify(expected, password[:LONGEST])
    except (VerificationError, InvalidHashError):
        return False
    if stored_hash is None:  # the hash of nobody was right: no account, whatever was typed
        return False
    vault.logins.forget_tries(name, guesser)
    if hasher().check_needs_rehash(stored_hash):
        # Recommended costs grow over the years; this is the only moment with the password.
        vault.logins.rehash(name, stored_hash, hasher().hash(password))
    return True


def sign_in_paused(seconds: float) -> RequestError:
    """The refusal for a source that tries too many passwords."""
    wait = math.ceil(seconds)
    return RequestError(
        429,
        "requests_too_frequent",
        f"Too many passwords were tried from here or for this name. Try again in {wait} s. A "
        "browser that has signed in before and an invitation link are not affected.",
        headers={"Retry-After": str(wait)},
    )


_SIGN_IN, _PASSWORD = f"{HOME}/sign-in", f"{HOME}/password"
PAGES = (
    public_page("GET", _SIGN_IN, "Sign in", sign_in_page, "sign-in.html"),
    public_page("POST", _SIGN_IN, "Sign in", sign_in, "sign-in.html", hashing=True),
    public_page("POST", f"{HOME}/sign-out", "Sign out", sign_out),
    public_page("GET", INVITATION, "Set your password", invitation_page, "password.html"),
    public_page(
        "POST", INVITATION, "Set your password", accept_invitation, "password.html", hashing=True
    ),
    member_page("GET", _PASSWORD, "Change your password", password_page, "password.html"),
    member_page(
        "POST", _PASSWORD, "Change your password", change_password, "password.html", hashing=True
    ),
)
