"""The visitor's jobs, and the releases that they may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.console.analyst.questions import answer_table
from sfumato.console.page_request import Page, Redirect, Visit, member_page
from sfumato.console.public_pages import download_file
from sfumato.release.plots import pictures_of
from sfumato.server.problem_json import not_found
from sfumato.text import minute

if TYPE_CHECKING:
    from sfumato.console.page_request import Download
    from sfumato.vault.releases import LocalRelease

_MOST_PICTURES = 6


def list_jobs(visit: Visit) -> Page:
    """List the visitor's jobs; an owner sees those of everybody."""
    jobs = visit.vault.jobs.list(principal=visit.principal)
    submitted = [job.to_json()["submitted"] for job in jobs]
    times = ["" if time is None else minute(time) for time in submitted]
    return Page({"jobs": list(zip(jobs, times, strict=True))})


def cancel_job(visit: Visit) -> Redirect:
    """Cancel a job."""
    job = visit.vault.jobs.look_up(visit.path["job"], principal=visit.principal)
    if job is None:  # also jobs of other principals
        raise not_found()
    job = visit.vault.jobs.cancel(job, principal=visit.principal)
    return Redirect("/console/jobs", f"The job is {job.state}. Its charges remain.")


def list_releases(visit: Visit) -> Page:
    """List the releases that the visitor may have."""
    return Page({"releases": visit.vault.releases.list(principal=visit.principal)})


def release_page(visit: Visit) -> Page:
    """Show one release: its guarantee, pictures and files."""
    release = find_release(visit)
    details = release.described()
    # A program releases a few numbers: the page shows them, nobody must download a file for that.
    table, notes = answer_table(release.answer()) if details["family"] == "run" else (None, [])
    return Page(
        {
            "release": release,
            "details": details,
            "pictures": pictures_of(release.release.public)[:_MOST_PICTURES],
            "table": table,
            "notes": notes,
        }
    )


def release_file(visit: Visit) -> Download:
    """Download one file of a release."""
    return download_file(find_release(visit), visit.path["file"])


def find_release(visit: Visit) -> LocalRelease:
    """The release of the path; unknown to visitors it is not open to."""
    release = visit.vault.releases.look_up(visit.path["release"], principal=visit.principal)
    if release is None:
        raise not_found()
    return release


_JOBS, _RELEASES = "/console/jobs", "/console/releases"
_RELEASE = f"{_RELEASES}/{{release}}"
PAGES = (
    member_page("GET", _JOBS, "Jobs", list_jobs, "jobs.html", shape="publish", nav="Jobs"),
    member_page("POST", f"{_JOBS}/{{job}}/cancel", "Cancel a job", cancel_job),
    member_page(
        "GET", _RELEASES, "Releases", list_releases, "releases.html",
        shape="download", nav="Releases",
    ),
    member_page("GET", _RELEASE, "Release", release_page, "release.html", shape="download"),
    member_page(
        "GET", f"{_RELEASE}/{{file}}", "File of a release", release_file, shape="download"
    ),
)  # fmt: skip
