"""Answers as they are sent: JSON for people's programs, or whole for `sf.connect`.

The whole form is what the ledger keeps (`release.codec`), behind one line of JSON with what an
answer says besides: what it cost, whether now, and what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.gate.routing import Reply
from sfumato.release.codec import to_bytes
from sfumato.texts import dumps

if TYPE_CHECKING:
    from sfumato.gate.routing import Call
    from sfumato.vault.answer import Answer

ANSWER = "application/vnd.sfumato.answer"


def answered(call: Call, answer: Answer) -> Reply:
    """An answer in the form that the caller takes."""
    return Reply(packed(answer), ANSWER) if call.wants(ANSWER) else Reply(answer.to_json())


def packed(answer: Answer) -> bytes:
    """An answer with everything that it says, as bytes."""
    beside = {
        "cost": answer.cost,
        "charged": answer.charged,
        "remaining": answer.remaining,
        "balance": answer.balance,
    }
    return dumps(beside, ensure_ascii=False).encode() + b"\n" + to_bytes(answer)
