"""Long work of a server: waited for, however often the connection to it is lost."""

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
_GOING_ON = ("waiting", "running")


def waited(connection: Connection, submitted: Mapping[str, Any]) -> Received:
    """The answer of a job, once it has one; a job that failed is raised as what it failed by.

    Whoever interrupts this leaves the job to itself: the same request gives the same answer later.
    """
    pause, path = _FIRST_PAUSE, f"jobs/{quote(_text(submitted, 'job'), safe='')}"
    with progress("Answering") as report:
        while True:
            told = connection.get(path).json()
            if _text(told, "state") not in _GOING_ON:
                break
            stage = told.get("progress") or {}
            report(float(stage.get("number", 0)), float(stage.get("of", 1)))
            time.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)
    if told["state"] == "cancelled":
        raise InternalError(
            "job_cancelled",
            "The job was cancelled before it had an answer. What was charged stays spent. Ask "
            "again, under another request_id if one was given.",
        )
    if told["state"] != "done":
        raise refused(told.get("error") or {})
    return connection.get(f"releases/{quote(_text(told, 'release'), safe='')}", accept=ANSWER)


def _text(told: Mapping[str, Any], name: str) -> str:
    found = told.get(name)
    if not isinstance(found, str):
        raise unexpected("a job that cannot be read")
    return found
