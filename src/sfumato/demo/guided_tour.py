"""`sfumato demo --serve`: the town's vault, with one account of each kind, to walk through.

Nothing of it is real but the mechanisms: budgets are spent, refusals refuse.
"""

from __future__ import annotations

from secrets import choice, token_hex
from typing import TYPE_CHECKING, Any

from sfumato.errors import OutputError
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.vault.vault import Vault

VAULT = "vault"
ACCOUNTS = {
    "owner": "owns the vault: decides about tables, people, budgets and releases",
    "perla": "permanent staff: asks, publishes, makes synthetic tables, sends programs",
    "tom": "temporary staff: asks and publishes",
    "eve": "external: asks, within a small budget",
    "paula": "purchaser: asks, very little",
    "everybody": "the public: reads what is open, also without signing in",
}
"""One of each kind, and what they may do."""
_KINDS = {
    "perla": ("permanent-staff", "1"),
    "tom": ("temporary-staff", "0.5"),
    "eve": ("external", "0.3"),
    "paula": ("purchaser", "0.1"),
    "everybody": ("public", None),
}
_WORDS = (
    *("amber", "basil", "cedar", "delta", "ember", "fennel", "garnet", "hazel", "indigo"),
    *("juniper", "kelp", "laurel", "maple", "nectar", "olive", "pepper", "quartz", "raven"),
    *("saffron", "thistle", "umber", "velvet", "walnut", "yarrow", "zephyr"),
)
_FEED = "SELECT department, COUNT(*) AS n FROM visits GROUP BY department"
_OPERATOR = "demo"


def password() -> str:
    """Four words and a few digits, drawn by the operating system."""
    return "-".join([*(choice(_WORDS) for _ in range(4)), token_hex(3)])


def sample_vault(folder: Path) -> Vault:
    """A vault of the town's tables in a folder that has them, with everybody who may ask."""
    vault = create_vault(folder / VAULT)
    try:
        _fill(vault, folder)
    except BaseException:
        vault.close()
        raise
    return vault


def check_free(folder: Path) -> None:
    """Refuse a folder in which there is a vault already: its budgets are spent as they are."""
    place = folder / VAULT
    if place.exists():
        raise OutputError(
            "demo_vault_exists",
            f"There is a vault in '{place}' already. Serve it with 'sfumato serve --vault "
            f"{place}', or choose another folder with --out.",
        )


def _fill(vault: Vault, folder: Path) -> None:
    """Tables, people, one release and one feed that are open."""
    for name, budget in (("town", 3), ("visits", 4)):
        given = folder / f"{name}.csv", folder / f"{name}.toml"
        vault.add(name, *given, epsilon=budget, delta="1e-6")
    for name, (kind, share) in _KINDS.items():
        vault.people.add(name, kind, operator=_OPERATOR)
        for population in ("town", "visits") if share is not None else ():
            vault.people.grant(name, epsilon=str(share), population=population, operator=_OPERATOR)
    asked: dict[str, Any] = {"kind": "histogram", "columns": ["department"], "epsilon": "0.5"}
    job = vault.jobs.submit("publish", "visits", request_id="demo", **asked)
    vault.jobs.work()
    vault.releases.open_to(job.id, "public", operator=_OPERATOR)
    vault.feeds.add(
        "departments",
        _FEED,
        column="day",
        every="quarter",
        epsilon="0.1",
        to="public",
        operator=_OPERATOR,
    )
    vault.feeds.work()
