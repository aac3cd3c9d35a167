"""Long work and what came of it: the visitor's jobs, and the releases that they may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.console.analyst.questions import answer_table
from sfumato.console.page_request import Download, Page, PageRoute, Redirect, Visit, Who
from sfumato.release.plots import pictures_of
from sfumato.server.problem_json import not_found
from sfumato.text import minute

if TYPE_CHECKING:
    from sfumato.vault.releases import KeptRelease

_MOST_PICTURES = 6


def jobs(visit: Visit) -> Page:
    """The visitor's jobs; the owner's list has everybody's."""
    found = visit.vault.jobs.list(principal=visit.principal)
    return Page({"jobs": [(one, _minute(one.to_json()["submitted"])) for one in found]})


def cancel(visit: Visit) -> Redirect:
    """A job that is over from now on."""
    job = visit.vault.jobs.look_up(visit.path["job"], principal=visit.principal)
    if job is None:
        raise not_found()
    over = visit.vault.jobs.cancel(job, principal=visit.principal)
    return Redirect("/console/jobs", f"The job is {over.state}. What was charged stays spent.")


def releases(visit: Visit) -> Page:
    """The releases that the visitor may have."""
    return Page({"releases": visit.vault.releases.list(principal=visit.principal)})


def release(visit: Visit) -> Page:
    """One release: what it guarantees, its pictures, and as which files it can be had."""
    found = _release(visit)
    drawn = pictures_of(found.release.public)[:_MOST_PICTURES]
    told = found.described()
    # A program's few numbers are the whole release: nobody should have to save a file for them.
    table, notes = answer_table(found.answer()) if told["family"] == "run" else (None, [])
    facts = {"release": found, "told": told, "pictures": drawn, "table": table, "notes": notes}
    return Page(facts)


def download(visit: Visit) -> Download:
    """A release as a file, to be saved."""
    found, name = _release(visit), visit.path["file"]
    if name not in found.files:
        raise not_found()
    file = found.file(name)
    return Download(file.content, file.media, file.name)


def _release(visit: Visit) -> KeptRelease:
    found = visit.vault.releases.look_up(visit.path["release"], principal=visit.principal)
    if found is None:
        raise not_found()
    return found


def _minute(time: str | None) -> str:
    return "" if time is None else minute(time)


PAGES = (
    PageRoute(
        method="GET",
        path="/console/jobs",
        title="Jobs",
        who=Who.SIGNED_IN,
        handler=jobs,
        template="jobs.html",
        shape="publish",
        nav="Jobs",
    ),
    PageRoute(
        method="POST",
        path="/console/jobs/{job}/cancel",
        title="Cancel a job",
        who=Who.SIGNED_IN,
        handler=cancel,
    ),
    PageRoute(
        method="GET",
        path="/console/releases",
        title="Releases",
        who=Who.SIGNED_IN,
        handler=releases,
        template="releases.html",
        shape="download",
        nav="Releases",
    ),
    PageRoute(
        method="GET",
        path="/console/releases/{release}",
        title="Release",
        who=Who.SIGNED_IN,
        handler=release,
        template="release.html",
        shape="download",
    ),
    PageRoute(
        method="GET",
        path="/console/releases/{release}/{file}",
        title="A file of a release",
        who=Who.SIGNED_IN,
        handler=download,
        shape="download",
    ),
)
