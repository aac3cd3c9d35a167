"""Answers as they are sent: JSON for people's programs, or whole for `sf.connect`.

The whole form is what the ledger keeps (`release.codec`), behind one line of JSON with what an
answer says besides: what it cost, whether now or under the name of this request, and what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.operations.releases import ANSWER
from sfumato.server.routing import Reply
from sfumato.text import dumps_in_parts
from sfumato.vault.answer import packed, paid_under

if TYPE_CHECKING:
    from sfumato.server.routing import Call
    from sfumato.vault.answer import Answer


def answered(call: Call, answer: Answer) -> Reply:
    """An answer in the form that the caller takes."""
    if not call.wants(ANSWER):
        return Reply(dumps_in_parts(answer.to_json()).encode())
    paid = paid_under(answer, call.vault.ledger, call.caller.principal, call.request_id)
    return Reply(packed(answer, paid=paid), ANSWER)
