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
    """Read a whole answer: a line about its payment, and the release as the ledger stores it.

    Where the request id was `made` for this call alone, this call paid, perhaps by an attempt
    whose answer got lost.
    """
    line, _, stored = received.body.partition(b"\n")
    try:
        if received.media != ANSWER:
            raise ValueError(received.media)
        payment = json.loads(line)
        release = from_bytes(stored)
        parts = {part.name: getattr(release, part.name) for part in fields(Release)}
        cost = {name: payment[name] for name in _PAYMENT}
        cost["charged"] = bool(cost["charged"] or (made and payment["paid"]))
        return Answer(**parts, **cost)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise unexpected("an answer that cannot be read") from error


_PAYMENT = ("cost", "charged", "remaining", "balance")
