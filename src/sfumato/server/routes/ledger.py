"""What the caller has spent and may still spend; the owner sees every account."""

from __future__ import annotations

from sfumato.server.routing import Call, Reply, Route

_ACCOUNT = {
    "type": "object",
    "properties": {
        "account": {"type": "string"},
        "budget": {"type": "string"},
        "spent": {"type": "string"},
        "remaining": {"type": "object"},
        "balance": {"type": "string"},
    },
    "required": ["account", "budget", "spent", "remaining", "balance"],
}


def accounts(call: Call) -> Reply:
    """The caller's own accounts."""
    return Reply({"accounts": call.vault.accounts(principal=call.caller.principal)})


ROUTES = (
    Route(
        method="GET",
        path="/ledger",
        told="Your accounts: each budget, what was spent, and what one more question may cost.",
        handler=accounts,
        scope="ledger:read",
        gives={
            "type": "object",
            "properties": {"accounts": {"type": "array", "items": _ACCOUNT}},
            "required": ["accounts"],
        },
        answer_example={
            "accounts": [
                {
                    "account": "people/alice",
                    "budget": "epsilon 1",
                    "spent": "epsilon 0.1",
                    "remaining": {"epsilon": 0.9, "delta": 0.0},
                    "balance": "epsilon 0.9 of 1 left",
                }
            ]
        },
    ),
)
