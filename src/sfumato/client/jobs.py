"""Wait for a job of a server, however often the connection is lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.client.error_reader import refused, unexpected
from sfumato.errors import InternalError
from sfumato.operations.releases import ANSWER
from sfumato.report.progress import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.client.connection import Connection
    from sfumato.client.response_reader import Received

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.05, 2.0, 1.3
"""Seconds between two looks, and their growth: short jobs end fast, long ones are asked rarely."""
_UNFINISHED = ("waiting", "running")


def waited(connection: Connection, submitted: Mapping[str, Any]) -> Received:
    """Wait for the answer of a job; the error of a job that failed is raised.

    An interruption does not stop the job: the same request gives the same answer later.
    """
    pause, path = _FIRST_PAUSE, f"jobs/{quote(_text(submitted, 'job'), safe='')}"
    with progress("Answering") as report:
        while True:
            job = connection.get(path).json()
            if _text(job, "state") not in _UNFINISHED:
                break
            # Progress is for people only, so a missing one is no error.
            stage = job.get("progress") or {}
            report(float(stage.get("number", 0)), float(stage.get("of", 1)))
            time.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)
    if job["state"] == "cancelled":
        raise InternalError(
            "job_cancelled",
            "The job was cancelled before it had an answer. What was charged stays spent. Ask "
            "again, under another request_id if one was given.",
        )
    if job["state"] != "done":
        raise refused(job.get("error") or {})
    return connection.get(f"releases/{quote(_text(job, 'release'), safe='')}", accept=ANSWER)


def _text(job: Mapping[str, Any], name: str) -> str:
    value = job.get(name)
    if not isinstance(value, str):
        raise unexpected("a job that cannot be read")
    return value
