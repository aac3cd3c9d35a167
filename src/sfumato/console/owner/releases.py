"""Releases: made as jobs, compared and attacked, approved and opened by the owner."""

from __future__ import annotations

from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote

from sfumato.anonymize.pipeline import Algorithm
from sfumato.console.forms import Filled, words, wrong
from sfumato.console.page_request import Download, Page, PageRoute, Redirect, Visit, Who
from sfumato.data.schema.column import Role
from sfumato.errors import SfumatoError
from sfumato.server.problem_json import not_found
from sfumato.vault.comparison import PAGE, PART, compared
from sfumato.vault.config import PrivateSet
from sfumato.vault.families import FAMILIES
from sfumato.vault.jobs.anonymize_job import ANONYMIZE
from sfumato.vault.jobs.job import COMPARE
from sfumato.vault.releases import PUBLIC
from sfumato.vault.session import OwnRequest

if TYPE_CHECKING:
    from sfumato.vault.releases import KeptRelease

RELEASES = "/console/owner/releases"
_YES = "yes"
_SEVERAL = {ANONYMIZE: "k", "publish": "epsilon", "synthesize": "epsilon"}
"""Of which a list makes one candidate each."""
_TAKES = {
    ANONYMIZE: ("k", "l", "t", "algorithm", "suppress", "require"),
    "publish": ("kind", "epsilon", "delta"),
    "synthesize": ("method", "rows", "epsilon", "delta"),
}
_WHOLE = ("k", "l", "rows")
_BOXES = {ANONYMIZE: "sensitive", "publish": "columns", "synthesize": "columns"}


def listed(visit: Visit) -> Page:
    """All jobs and releases, and where others can be made."""
    return Page(_listed(visit))


def making_page(visit: Visit) -> Page:
    """Forms for a release of a data set."""
    return _making(visit)


def submitted(visit: Visit) -> Page | Redirect:
    """Jobs as the form says: one for each candidate. Sent twice, it is still one."""
    family, name = visit.said("family"), visit.path["name"]
    if family not in _TAKES:
        raise not_found()
    try:
        for place, asked in enumerate(_candidates(visit, family)):
            visit.vault.jobs.submit(
                family,
                name,
                principal=visit.principal,
                purpose=visit.said("purpose") or None,
                request_id=_request(visit, f"/{place}"),
                **asked,
            )
    except (SfumatoError, ValueError) as error:
        errors = {f"{family}.{field}": one for field, one in _wrong(error, family).items()}
        return _making(visit, visit.values, errors, status=422)
    return Redirect(RELEASES, "It is on its way: look below how far it is.")


def compare(visit: Visit) -> Page | Redirect:
    """A job that sets the ticked releases beside each other."""
    chosen = visit.several.get("release", ())
    known = {one.id: one.dataset for one in visit.vault.releases.list(principal=visit.principal)}
    named = sorted({known[one] for one in chosen if one in known})
    if len(named) != 1:
        said = "Tick releases of one data set to compare them."
        return Page(_listed(visit, {"release": said}), status=422)
    try:
        visit.vault.jobs.submit(
            COMPARE, named[0], principal=visit.principal, releases=[*chosen],
            purpose=next(iter(visit.vault.purposes(named[0])), None),
            request_id=_request(visit),
        )  # fmt: skip
    except SfumatoError as error:
        return Page(_listed(visit, {"release": wrong(error, ())[""]}), status=422)
    return Redirect(RELEASES, "They are being attacked and counted: look below how far it is.")


def _request(visit: Visit, more: str = "") -> OwnRequest:
    """Under which a form is handed in, however often it is sent."""
    return OwnRequest(f"console/{visit.said('request') or token_hex(8)}{more}")


def cancelled(visit: Visit) -> Redirect:
    """A job that is over from now on."""
    job = visit.vault.jobs.look_up(visit.path["job"], principal=visit.principal)
    if job is None:
        raise not_found()
    visit.vault.jobs.cancel(job, principal=visit.principal)
    return Redirect(RELEASES, "The job is cancelled. What was charged stays spent.")


def comparison(visit: Visit) -> Page:
    """What attackers get of candidates, and what each is good for."""
    part = _compared(visit, PART)
    return Page({"part": part, "job": visit.path["job"], "here": RELEASES})


def comparison_file(visit: Visit) -> Download:
    """The same as a page of its own, to be saved."""
    return Download(_compared(visit, PAGE).encode(), "text/html; charset=utf-8", PAGE)


def release_page(visit: Visit) -> Page:
    """One release: what it guarantees, its files, and to whom it is open."""
    return _page(visit, _release(visit))


def opened(visit: Visit) -> Page | Redirect:
    """A release that its owner approved for those who are ticked, and for nobody else."""
    found = _release(visit)
    to = visit.several.get("to", ())
    if to and visit.said("approved") != _YES:
        errors = {"approved": "Say that you looked at it: tick this box."}
        return _page(visit, found, errors, status=422)
    try:
        visit.vault.releases.open_to(found.id, to, operator=visit.operator)
    except SfumatoError as error:
        return _page(visit, found, wrong(error, ("to",)), status=422)
    said = f"It is open to {', '.join(to)}." if to else "It is open to nobody else any more."
    return Redirect(f"{RELEASES}/{found.id}", said)


def downloaded(visit: Visit) -> Download:
    """One file of a release, to be saved."""
    found, name = _release(visit), visit.path["file"]
    if name not in found.files:
        raise not_found()
    file = found.file(name)
    return Download(file.content, file.media, file.name)


def _candidates(visit: Visit, family: str) -> list[dict[str, Any]]:
    """What is asked, once for each number of a list."""
    asked: dict[str, Any] = {name: visit.said(name) for name in _TAKES[family] if visit.said(name)}
    boxes = _BOXES[family]
    if visit.several.get(boxes):
        asked[boxes] = [*visit.several[boxes]]
    if family == ANONYMIZE:
        if "require" in asked:
            asked["require"] = words(asked["require"])
        for name in ("attacks", "publish_findings"):
            if visit.said(name) == _YES:
                asked[name] = True
    several = _SEVERAL[family]
    listed = words(asked.pop(several, ""))
    found = [{**asked, several: one} for one in listed] or [asked]
    return [{name: _number(name, one) for name, one in each.items()} for each in found]


def _number(name: str, value: Any) -> Any:
    if name not in _WHOLE:
        return value
    try:
        return int(value)
    except ValueError:
        raise ValueError(name) from None


def _wrong(error: Exception, family: str) -> dict[str, str]:
    if not isinstance(error, SfumatoError):
        return {str(error): "Write a whole number, such as 5."}
    if error.code == "budget_exhausted":
        return {"epsilon": wrong(error, ())[""]}
    return wrong(error, (*_TAKES[family], _BOXES[family]))


def _making(visit: Visit, said: Any = None, errors: Any = None, status: int = 200) -> Page:
    name = visit.path["name"]
    held = visit.vault.config.datasets.get(name)
    if not isinstance(held, PrivateSet):
        raise not_found()
    schema = visit.vault.private(name, principal=visit.principal).schema
    fields = {
        one.name: one.choices for key in ("publish", "synthesize") for one in FAMILIES[key].fields
    }
    left = {one["account"]: one["balance"] for one in visit.vault.accounts()}
    facts = {
        "name": name,
        "left": left[held.population],
        "purposes": visit.vault.purposes(name),
        "columns": [one.name for one in schema.columns if one.role is not Role.IDENTIFIER],
        "sensitive": [one.name for one in schema.by_role(Role.SENSITIVE)],
        "quasi": [one.name for one in schema.by_role(Role.QUASI)],
        "algorithms": get_args(Algorithm),
        "kinds": [one for one in fields["kind"] or () if one != "above"],
        "methods": fields["method"],
        "request": token_hex(8),
        "here": f"{RELEASES}/new/{quote(name)}",
        "said": Filled(said or {}),
        "errors": Filled(errors or {}),
    }
    return Page(facts, status)


def _listed(visit: Visit, errors: Any = None) -> dict[str, Any]:
    who = visit.principal
    jobs = visit.vault.jobs.list(principal=who)
    private = [name for name, one in visit.vault.config.datasets.items()
               if isinstance(one, PrivateSet)]  # fmt: skip
    return {
        "datasets": private,
        "jobs": [one.to_json() for one in jobs if not one.release],
        "releases": visit.vault.releases.list(principal=who),
        "compare": COMPARE,
        "request": token_hex(8),
        "here": RELEASES,
        "errors": Filled(errors or {}),
    }


def _page(visit: Visit, found: KeptRelease, errors: Any = None, status: int = 200) -> Page:
    people = [one.name for one in visit.vault.principal_registry.list() if not one.is_owner]
    facts = {
        "one": found.described(),
        "asked": visit.vault.jobs.get(found.id, principal=visit.principal).asked,
        "readers": [PUBLIC, *people],
        "here": f"{RELEASES}/{found.id}",
        "errors": Filled(errors or {}),
    }
    return Page(facts, status)


def _release(visit: Visit) -> KeptRelease:
    found = visit.vault.releases.look_up(visit.path["release"], principal=visit.principal)
    if found is None:
        raise not_found()
    return found


def _compared(visit: Visit, name: str) -> str:
    job = visit.vault.jobs.look_up(visit.path["job"], principal=visit.principal)
    found = None if job is None else compared(visit.vault.config.folder, job.id, name)
    if job is None or job.family != COMPARE or found is None:
        raise not_found()
    return found


_ROUTE = partial(PageRoute, who=Who.OWNER, title="Release data")
_NEW, _ONE = f"{RELEASES}/new/{{name}}", f"{RELEASES}/{{release}}"
_COMPARED = "/console/owner/comparisons/{job}"
_LIST, _MAKE, _EACH = "owner/releases.html", "owner/making.html", "owner/release.html"
PAGES = (
    _ROUTE(
        method="GET", path=RELEASES, handler=listed, template=_LIST, nav="Release data"
    ),
    _ROUTE(method="POST", path=f"{RELEASES}/compare", handler=compare, template=_LIST),
    _ROUTE(method="GET", path=_NEW, title="A new release", handler=making_page, template=_MAKE),
    _ROUTE(
        method="POST", path=_NEW, title="A new release", handler=submitted, template=_MAKE,
        charging=True,
    ),
    _ROUTE(method="POST", path="/console/owner/jobs/{job}/cancel", handler=cancelled),
    _ROUTE(
        method="GET", path=_COMPARED, title="Candidates compared", handler=comparison,
        template="owner/comparison.html",
    ),
    _ROUTE(method="GET", path=f"{_COMPARED}/file", handler=comparison_file),
    _ROUTE(method="GET", path=_ONE, title="A release", handler=release_page, template=_EACH),
    _ROUTE(
        method="POST", path=f"{_ONE}/open", title="A release", handler=opened, template=_EACH
    ),
    _ROUTE(method="GET", path=f"{_ONE}/files/{{file}}", handler=downloaded),
)  # fmt: skip
