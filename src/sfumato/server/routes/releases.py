"""The files of releases, to download."""

from __future__ import annotations

from sfumato.server.problem_json import not_found
from sfumato.server.routing import Call, Reply, Route
from sfumato.vault.stored_release import MEDIA

_COPIES, _SECONDS = 4, 60.0
"""A file takes so many times the memory of its tables while it is written; how long to wait."""


def downloaded(call: Call) -> Reply:
    """One file of a release, to be saved."""
    principal, name = call.caller.principal, call.path["file"]
    release = call.vault.releases.look_up(call.path["release"], principal=principal)
    if release is None or name not in release.files:
        raise not_found()
    weight = _COPIES * sum(table.nbytes for table in release.release.tables.values())
    asker = call.vault.asker(principal, None, ())
    with call.vault.gatekeeper.heavy.room(weight, asker, _SECONDS):
        file = release.file(name)
    return Reply(file.content, file.media, file_name=file.name)


ROUTES = (
    Route(
        method="GET",
        path="/releases/{release}/{file}",
        summary="A file of a release: CSV, Parquet, Arrow, GeoJSON, a report or a bundle.",
        handler=downloaded,
        scope="query",
        media=tuple(media.partition(";")[0] for media in MEDIA.values()),
        refusals=(403, 404),
    ),
)
