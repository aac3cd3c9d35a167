"""Answers of a server, read from their bytes."""

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


def answer_of(received: Received, *, own_id: bool = False) -> Answer:
    """Read a whole answer: a line about its payment, then the release as the ledger stores it.

    Where the client made the request id for this call alone, this call paid, perhaps by an attempt
    whose response got lost. Then `charged` is true although the server sent a stored answer.
    """
    line, _, stored = received.body.partition(b"\n")
    try:
        # A proxy may answer with a page of its own.
        if received.media != ANSWER:
            raise ValueError(received.media)
        payment = json.loads(line)
        release = from_bytes(stored)
        release_fields = {item.name: getattr(release, item.name) for item in fields(Release)}
        cost = {name: payment[name] for name in _PAYMENT}
        cost["charged"] = bool(cost["charged"] or (own_id and payment["paid"]))
        return Answer(**release_fields, **cost)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise unexpected("an answer that cannot be read") from error


_PAYMENT = ("cost", "charged", "remaining", "balance")
