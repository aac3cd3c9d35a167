"""Answers of a server, read from the bytes that it sends."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

from sfumato.client.error_reader import unexpected
from sfumato.operations.releases import ANSWER
from sfumato.release.codec import from_bytes
from sfumato.release.release import Release
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from sfumato.client.response_reader import Received


def answer_of(received: Received, *, made: bool = False) -> Answer:
    """The answer that a server sent whole: a line of what was paid, and what the ledger keeps.

    Where the name of the request was `made` for this call alone, what was paid for under it was
    paid by this call, though it may have been by an attempt whose answer got lost.
    """
    line, _, stored = received.body.partition(b"\n")
    try:
        if received.media != ANSWER:
            raise ValueError(received.media)
        paid = json.loads(line)
        release = from_bytes(stored)
        given = {one.name: getattr(release, one.name) for one in fields(Release)}
        told = {name: paid[name] for name in _PAID}
        told["charged"] = bool(told["charged"] or (made and paid["paid"]))
        return Answer(**given, **told)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise unexpected("an answer that cannot be read") from error


_PAID = ("cost", "charged", "remaining", "balance")
