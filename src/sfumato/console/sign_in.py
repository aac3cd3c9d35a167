"""Coming in and going out: signing in, invitations, another password, signing out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.console.page_request import Page, PageRoute, Redirect, Visit, Who
from sfumato.console.passwords import SHORTEST, check_password, hashed
from sfumato.console.sessions import begin_session, end_session
from sfumato.errors import ParameterError, SfumatoError, in_fields
from sfumato.server.problem_json import not_found
from sfumato.vault.logins import invitation_path

if TYPE_CHECKING:
    from collections.abc import Mapping

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
