"""Coming in and going out: signing in, invitations, another password, signing out."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from sfumato.console.page_request import Page, PageRoute, Redirect, Visit, Who
from sfumato.console.sessions import begin_session, end_session
from sfumato.errors import ParameterError, SfumatoError, in_fields
from sfumato.server.problem_json import RequestError, not_found
from sfumato.vault.logins import TRY_LIMITS, Guesser, invitation_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.console.page_request import PageRoute, Visit
    from sfumato.vault.vault import Vault


HOME = "/console"
INVITATION = invitation_path("{secret}")
"""Where somebody who was invited sets their password."""
_REFUSED = "No account here has that name and that password."


def sign_in_page(visit: Visit) -> Page | Redirect:
    """Where one says who one is."""
    if visit.person is not None:
        return Redirect(HOME)
    return Page({"name": "", "to": _inside(visit.said("to")), "problem": None})


def sign_in(visit: Visit) -> Page | Redirect:
    """A session, for who knows their password."""
    name, to = visit.said("name"), _inside(visit.said("to"))
    right = check_password(visit.vault, name, visit.values.get("password", ""), visit.guesser)
    if right:
        try:
            visit.vault.principal_registry.admitted(name)
        except SfumatoError:
            right = False
    if not right:
        return Page({"name": name, "to": to, "problem": _REFUSED}, status=403)
    return _signed_in(visit, name, to or HOME)


def sign_out(visit: Visit) -> Redirect:
    """The end of a session."""
    end_session(visit.vault, visit.session.id)
    return Redirect(HOME, session="")


def invited(visit: Visit) -> Page:
    """Where somebody who was invited sets their password."""
    name = visit.vault.logins.invited(visit.path["secret"])
    if name is None:
        raise not_found()
    return Page(_asked(name))


def accept(visit: Visit) -> Page | Redirect:
    """A password, set by who was invited."""
    secret = visit.path["secret"]
    name = visit.vault.logins.invited(secret)
    if name is None:
        raise not_found()
    try:
        new = hashed(visit.values.get("password", ""), visit.values.get("again", ""))
    except ParameterError as error:
        return Page(_asked(name, in_fields(error)), status=422)
    if visit.vault.logins.accept(secret, new) is None:  # somebody was faster
        raise not_found()
    return _signed_in(visit, name, HOME, "Your password is set, and you are signed in.")


def password_page(_visit: Visit) -> Page:
    """Where somebody changes their password."""
    return Page(_asked(None))


def change_password(visit: Visit) -> Page | Redirect:
    """Another password, for who knows the one before; all other sessions of theirs end."""
    name = visit.principal
    if not check_password(visit.vault, name, visit.values.get("before", ""), visit.guesser):
        return Page(_asked(None, "That is not your password until now."), status=403)
    try:
        new = hashed(visit.values.get("password", ""), visit.values.get("again", ""))
    except ParameterError as error:
        return Page(_asked(None, in_fields(error)), status=422)
    visit.vault.logins.change(name, new)
    words = "Your password is changed. Other sessions of yours are over."
    return _signed_in(visit, name, HOME, words)


def _signed_in(visit: Visit, name: str, to: str, words: str | None = None) -> Redirect:
    """Begin a session of somebody who has shown who they are, and know their browser again."""
    session = begin_session(visit.vault, visit.session, name)
    return Redirect(to, words, session, visit.vault.logins.remember_device(name, visit.device))


def _asked(name: str | None, problem: str | None = None) -> Mapping[str, object]:
    return {"name": name, "problem": problem, "shortest": SHORTEST}


def _inside(to: str) -> str:
    """Where to go on, if that is a page of ours."""
    from sfumato.console.app import leads_inside

    return to if leads_inside(to) else ""


_SIGN_IN, _PASSWORD = "/console/sign-in", "/console/password"
PAGES = (
    PageRoute(
        method="GET",
        path=_SIGN_IN,
        title="Sign in",
        who=Who.PUBLIC,
        handler=sign_in_page,
        template="sign-in.html",
    ),
    PageRoute(
        method="POST",
        path=_SIGN_IN,
        title="Sign in",
        who=Who.PUBLIC,
        handler=sign_in,
        template="sign-in.html",
        hashing=True,
    ),
    PageRoute(
        method="POST",
        path="/console/sign-out",
        title="Sign out",
        who=Who.PUBLIC,
        handler=sign_out,
    ),
    PageRoute(
        method="GET",
        path=INVITATION,
        title="Set your password",
        who=Who.PUBLIC,
        handler=invited,
        template="password.html",
    ),
    PageRoute(
        method="POST",
        path=INVITATION,
        title="Set your password",
        who=Who.PUBLIC,
        handler=accept,
        template="password.html",
        hashing=True,
    ),
    PageRoute(
        method="GET",
        path=_PASSWORD,
        title="Change your password",
        who=Who.SIGNED_IN,
        handler=password_page,
        template="password.html",
    ),
    PageRoute(
        method="POST",
        path=_PASSWORD,
        title="Change your password",
        who=Who.SIGNED_IN,
        handler=change_password,
        template="password.html",
        hashing=True,
    ),
)


# Passwords of people: argon2id, few at a time, and the same work whoever is named.
#
# Decision `console`.


SHORTEST, LONGEST = 12, 1000
HASHED_AT_A_TIME = 2
"""So many hashes are computed at a time: each takes 64 MiB, and half a second of a core."""
HASHES_PER_SECOND, HASHES_AT_ONCE = 0.5, 30
"""So many hashes are computed for one stranger's address, whatever names it tries."""


@cache
def hasher() -> PasswordHasher:
    """What computes hashes, with the costs that its makers think right today."""
    return PasswordHasher()


@cache
def _nobodys(by: PasswordHasher) -> str:
    """The hash that stands for those who have none: to check it takes as long as any of `by`."""
    return by.hash("nobody has this password")


def hashed(password: str, again: str) -> str:
    """The hash of a new password, which was typed twice."""
    if password != again:
        raise ParameterError(
            "password_invalid", "The two passwords differ. Type the same one twice."
        )
    if not SHORTEST <= len(password) <= LONGEST:
        raise ParameterError(
            "password_invalid",
            f"A password has {SHORTEST} to {LONGEST:,} characters; this one has {len(password):,}. "
            "Four words that do not belong together make a good one.",
        )
    return hasher().hash(password)


def guesser_of(route: PageRoute, visit: Visit) -> Guesser:
    """Who is about to try or to set a password, as far as a session, a link or a device tells."""
    logins, secret = visit.vault.logins, visit.path.get("secret")
    if route.who is not Who.PUBLIC:
        return Guesser(f"session {visit.session.id}", visit.principal, is_known=True)
    if secret is not None:
        invited = logins.invited(secret)
        if invited is not None:
            return Guesser(f"invitation {secret}", invited, is_known=True)
    name = visit.said("name")
    if visit.device and logins.knows_device(name, visit.device):
        return Guesser(f"device {visit.device}", name, is_known=True)
    return Guesser(f"peer {visit.peer}", visit.peer)


def check_password(vault: Vault, name: str, password: str, guesser: Guesser) -> bool:
    """Whether somebody of this name has this password; in the same time for nobody's name."""
    if not vault.logins.may_try(name, guesser):
        raise sign_in_paused(TRY_LIMITS.seconds)
    kept = vault.logins.hash_of(name)
    try:
        hasher().verify(_nobodys(hasher()) if kept is None else kept, password[:LONGEST])
    except (VerificationError, InvalidHashError):
        return False
    if kept is None:
        return False
    vault.logins.forget_tries(name, guesser)
    if hasher().check_needs_rehash(kept):
        vault.logins.rehash(name, kept, hasher().hash(password))
    return True


def sign_in_paused(seconds: float) -> RequestError:
    """The refusal of a guesser that tries too often."""
    wait = math.ceil(seconds)
    return RequestError(
        429,
        "requests_too_frequent",
        f"Too many passwords were tried from here, or under this name. Try again in {wait} s. A "
        "browser that has signed in before, and a link of the owner, are not held up by others.",
        headers={"Retry-After": str(wait)},
    )
