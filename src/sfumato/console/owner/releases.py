"""Releases and feeds: the owner makes, compares and attacks releases and opens them to readers."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Any, get_args

from sfumato.anonymize.pipeline import Algorithm
from sfumato.console.analyst.jobs import find_release
from sfumato.console.forms import YES, field_errors, split_list
from sfumato.console.page_request import Download, Page, Redirect, Visit, owner_page
from sfumato.console.public_pages import download_file
from sfumato.data.schema.column import Role
from sfumato.errors import SfumatoError
from sfumato.methods.publish.catalogue import KINDS as PUBLICATIONS
from sfumato.methods.synth.methods import METHOD_WORDS
from sfumato.server.problem_json import not_found
from sfumato.vault.config import PrivateSet
from sfumato.vault.jobs.anonymize_job import ANONYMIZE
from sfumato.vault.jobs.job import COMPARE
from sfumato.vault.release_attacks import FRAGMENT, PAGE, read_comparison
from sfumato.vault.releases import PUBLIC
from sfumato.vault.session import OwnRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.vault.feeds.feed import Feed
    from sfumato.vault.releases import LocalRelease

RELEASES, FEEDS = "/console/owner/releases", "/console/owner/feeds"
_FIELDS = {
    ANONYMIZE: ("k", "l", "t", "algorithm", "suppress", "require"),
    "publish": ("kind", "epsilon", "delta"),
    "synthesize": ("method", "rows", "epsilon", "delta"),
}
"""The text fields of each form."""
_BOXES = {ANONYMIZE: "sensitive", "publish": "columns", "synthesize": "columns"}
"""The group of check boxes of each form."""
_CANDIDATES = {ANONYMIZE: "k", "publish": "epsilon", "synthesize": "epsilon"}
"""The field of each form that may hold a list; every item of it makes a candidate."""
_INTEGERS = ("k", "l", "rows")


def list_releases(visit: Visit, errors: Mapping[str, str] | None = None, status: int = 200) -> Page:
    """List all jobs and releases."""
    datasets = visit.vault.config.datasets.items()
    jobs = visit.vault.jobs.list(principal=visit.principal)
    facts = {
        "datasets": [name for name, dataset in datasets if isinstance(dataset, PrivateSet)],
        "jobs": [job.to_json() for job in jobs if not job.release],
        "releases": visit.vault.releases.list(principal=visit.principal),
        "compare": COMPARE,
        "request": token_hex(8),  # makes a form that is sent twice count once
        "list": RELEASES,
    }
    return Page(facts, status, errors=errors)


def new_release_page(
    visit: Visit,
    values: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Page:
    """Show the forms that make a release from a data set."""
    name = visit.path["name"]
    dataset = visit.vault.config.datasets.get(name)
    if not isinstance(dataset, PrivateSet):
        raise not_found()
    schema = visit.vault.private(name, principal=visit.principal).schema
    balances = {account["account"]: account["balance"] for account in visit.vault.accounts()}
    facts = {
        "name": name,
        "balance": balances[dataset.population],
        "purposes": visit.vault.purposes(name),
        "columns": [column.name for column in schema.columns if column.role is not Role.IDENTIFIER],
        "sensitive": [column.name for column in schema.by_role(Role.SENSITIVE)],
        "quasi": [column.name for column in schema.by_role(Role.QUASI)],
        "algorithms": get_args(Algorithm),
        # Sparse vector needs a workload, which this form cannot ask for.
        "kinds": [kind for kind in PUBLICATIONS if kind != "above"],
        "methods": METHOD_WORDS,
        "request": token_hex(8),
    }
    return Page(facts, status, values=values, errors=errors)


def submit_release(visit: Visit) -> Page | Redirect:
    """Submit a job per candidate. The request id makes a form that is sent twice count once."""
    family, name = visit.text("family"), visit.path["name"]
    # The family comes from a hidden field, which a visitor can change.
    if family not in _FIELDS:
        raise not_found()
    try:
        for number, options in enumerate(_candidates(visit, family)):
            visit.vault.jobs.submit(
                family,
                name,
                principal=visit.principal,
                purpose=visit.text("purpose") or None,
                request_id=_request_id(visit, f"/{number}"),
                **options,
            )
    except (SfumatoError, ValueError) as error:
        return new_release_page(visit, visit.values, _errors(error, family), 422)
    return Redirect(RELEASES, "The release is being made. Its job is listed below.")


def compare_releases(visit: Visit) -> Page | Redirect:
    """Submit a job that attacks and compares the ticked releases."""
    chosen = visit.several.get("release", ())
    dataset_of = {
        release.id: release.dataset
        for release in visit.vault.releases.list(principal=visit.principal)
    }
    names = sorted({dataset_of[release] for release in chosen if release in dataset_of})
    if len(names) != 1:  # attacks need one original to compare with
        problem = "Tick releases of the same data set to compare them."
        return list_releases(visit, {"release": problem}, 422)
    try:
        visit.vault.jobs.submit(
            COMPARE, names[0], principal=visit.principal, releases=[*chosen],
            purpose=next(iter(visit.vault.purposes(names[0])), None),
            request_id=_request_id(visit),
        )  # fmt: skip
    except SfumatoError as error:
        return list_releases(visit, {"release": field_errors(error)[""]}, 422)
    return Redirect(RELEASES, "The comparison is running. Its job is listed below.")


def cancel_job(visit: Visit) -> Redirect:
    """Cancel a job."""
    job = visit.vault.jobs.look_up(visit.path["job"], principal=visit.principal)
    if job is None:
        raise not_found()
    visit.vault.jobs.cancel(job, principal=visit.principal)
    return Redirect(RELEASES, "The job is cancelled. Its charges remain.")


def comparison_page(visit: Visit) -> Page:
    """Show the privacy and utility of compared candidates."""
    part = _comparison(visit, FRAGMENT)
    return Page({"comparison": part, "job": visit.path["job"], "list": RELEASES})


def comparison_file(visit: Visit) -> Download:
    """Download the comparison as a page of its own."""
    return Download(_comparison(visit, PAGE).encode(), "text/html; charset=utf-8", PAGE)


def release_page(visit: Visit) -> Page:
    """Show one release: its guarantee, files and readers."""
    return _release_page(visit, find_release(visit))


def open_release(visit: Visit) -> Page | Redirect:
    """Open a release to the ticked readers and close it to all others."""
    release = find_release(visit)
    readers = visit.several.get("to", ())
    # Copies cannot be taken back, so opening needs a confirmation; closing does not.
    if readers and visit.text("approved") != YES:
        errors = {"approved": "Tick this box to confirm that you looked at the release."}
        return _release_page(visit, release, errors, 422)
    try:
        visit.vault.releases.open_to(release.id, readers, operator=visit.operator)
    except SfumatoError as error:
        return _release_page(visit, release, field_errors(error, ("to",)), 422)
    notice = f"It is open to {', '.join(readers)}." if readers else "It is closed to all readers."
    return Redirect(f"{RELEASES}/{release.id}", notice)


def release_file(visit: Visit) -> Download:
    """Download one file of a release."""
    return download_file(find_release(visit), visit.path["file"])


def list_feeds(visit: Visit, errors: Mapping[str, str] | None = None, status: int = 200) -> Page:
    """List all feeds with their readers."""
    feeds = [
        {
            **feed.to_json(),
            "span": feed.span,
            "periods": None if feed.is_unending else len(feed.periods),
            "total_cost": ", ".join(f"{name} {amount}" for name, amount in feed.whole_cost.items()),
        }
        for feed in visit.vault.feed_registry.list(principal=visit.principal)
    ]
    facts = {
        "feeds": feeds, "readers": _possible_readers(visit), "list": FEEDS,
        }  # fmt: skip
    return Page(facts, status, errors=errors)


def open_feed(visit: Visit) -> Page | Redirect:
    """Open a feed to the ticked readers and close it to all others."""
    feed, readers = _feed(visit), visit.several.get("to", ())
    try:
        visit.vault.feed_registry.open_to(feed.name, readers, operator=visit.operator)
    except SfumatoError as error:
        return list_feeds(visit, {feed.name: field_errors(error)[""]}, 422)
    return Redirect(FEEDS, f"{feed.name} is open to {', '.join(readers) or 'nobody else'}.")


def stop_feed(visit: Visit) -> Redirect:
    """Stop a feed. Periods that end from now on are not published."""
    feed = _feed(visit)
    visit.vault.feed_registry.stop(feed.name, operator=visit.operator)
    return Redirect(FEEDS, f"{feed.name} is stopped. Published periods stay published.")


def _request_id(visit: Visit, suffix: str = "") -> OwnRequest:
    return OwnRequest(f"console/{visit.text('request') or token_hex(8)}{suffix}")


def _candidates(visit: Visit, family: str) -> list[dict[str, Any]]:
    """The options of each candidate that a form asks for."""
    options: dict[str, Any] = visit.filled(*_FIELDS[family])
    boxes = _BOXES[family]
    if visit.several.get(boxes):
        options[boxes] = [*visit.several[boxes]]
    if family == ANONYMIZE:
        if "require" in options:
            options["require"] = split_list(options["require"])
        for name in ("attacks", "publish_findings"):
            if visit.text(name) == YES:
                options[name] = True
    varied = _CANDIDATES[family]
    # "5, 10, 20" makes three candidates; each is a job of its own, and is charged.
    values = split_list(options.pop(varied, ""))
    candidates = [{**options, varied: value} for value in values] or [options]
    return [
        {name: _integer(name, value) if name in _INTEGERS else value
         for name, value in candidate.items()}
        for candidate in candidates
    ]  # fmt: skip


def _integer(name: str, text: str) -> int:
    """The number in a field; a ValueError names the field."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(name) from None


def _errors(error: Exception, family: str) -> dict[str, str]:
    if not isinstance(error, SfumatoError):
        return {f"{family}.{error}": "Write a whole number, such as 5."}
    if error.code == "budget_exhausted":  # it names an account, not a field
        return {f"{family}.epsilon": field_errors(error)[""]}
    return field_errors(error, (*_FIELDS[family], _BOXES[family]), family)


def _release_page(
    visit: Visit,
    release: LocalRelease,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Page:
    facts = {
        "release": release.described(),
        "options": visit.vault.jobs.get(release.id, principal=visit.principal).asked,
        "readers": _possible_readers(visit),
        "page": f"{RELEASES}/{release.id}",
    }
    return Page(facts, status, errors=errors)


def _possible_readers(visit: Visit) -> list[str]:
    principals = visit.vault.principal_registry.list()
    # The owner reads every release anyway.
    return [PUBLIC, *(principal.name for principal in principals if not principal.is_owner)]


def _comparison(visit: Visit, name: str) -> str:
    job = visit.vault.jobs.look_up(visit.path["job"], principal=visit.principal)
    html = None if job is None else read_comparison(visit.vault.config.folder, job.id, name)
    if job is None or job.family != COMPARE or html is None:
        raise not_found()
    return html


def _feed(visit: Visit) -> Feed:
    feed = visit.vault.feed_registry.look_up(visit.path["feed"], principal=visit.principal)
    if feed is None:
        raise not_found()
    return feed


_RELEASE, _COMPARISON = f"{RELEASES}/{{release}}", "/console/owner/comparisons/{job}"
_NEW, _LIST = f"{RELEASES}/new/{{name}}", "owner/releases.html"
_RELEASE_PAGE, _NEW_PAGE, _FEEDS_PAGE = (
    f"owner/{name}.html" for name in ("release", "new-release", "feeds")
)
PAGES = (
    owner_page("GET", RELEASES, "Release data", list_releases, _LIST, nav="Release data"),
    owner_page("POST", f"{RELEASES}/compare", "Release data", compare_releases, _LIST),
    owner_page("GET", _NEW, "A new release", new_release_page, _NEW_PAGE),
    owner_page("POST", _NEW, "A new release", submit_release, _NEW_PAGE, charging=True),
    owner_page("POST", "/console/owner/jobs/{job}/cancel", "Release data", cancel_job),
    owner_page(
        "GET", _COMPARISON, "Comparison of candidates", comparison_page, "owner/comparison.html"
    ),
    owner_page("GET", f"{_COMPARISON}/file", "Comparison of candidates", comparison_file),
    owner_page("GET", _RELEASE, "A release", release_page, _RELEASE_PAGE),
    owner_page("POST", f"{_RELEASE}/open", "A release", open_release, _RELEASE_PAGE),
    owner_page("GET", f"{_RELEASE}/files/{{file}}", "File of a release", release_file),
    owner_page("GET", FEEDS, "Feeds", list_feeds, _FEEDS_PAGE, nav="Feeds"),
    owner_page("POST", f"{FEEDS}/{{feed}}/open", "Feeds", open_feed, _FEEDS_PAGE),
    owner_page("POST", f"{FEEDS}/{{feed}}/stop", "Feeds", stop_feed),
)
