"""`sfumato demo --serve`: a vault of the town with one account of each kind.

The people are made up; the mechanisms are real. Budgets are spent, and queries can be refused.
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
    "owner": "owns the vault: manages tables, people, budgets and releases",
    "perla": "permanent staff: queries, publishes, makes synthetic tables, runs programs",
    "tom": "temporary staff: queries and publishes",
    "eve": "external: queries, with a small budget",
    "paula": "purchaser: queries, with a very small budget",
    "everybody": "the public: reads open releases, also without signing in",
}
"""One account of each kind, and what it may do."""
_KINDS = {
    "perla": ("permanent-staff", "1"),
    "tom": ("temporary-staff", "0.5"),
    "eve": ("external", "0.3"),
    "paula": ("purchaser", "0.1"),
    "everybody": ("public", None),
}
_PASSWORD_WORDS = (
    *("amber", "basil", "cedar", "delta", "ember", "fennel", "garnet", "hazel", "indigo"),
    *("juniper", "kelp", "laurel", "maple", "nectar", "olive", "pepper", "quartz", "raven"),
    *("saffron", "thistle", "umber", "velvet", "walnut", "yarrow", "zephyr"),
)
_FEED = "SELECT department, COUNT(*) AS n FROM visits GROUP BY department"
_OPERATOR = "demo"


def password() -> str:
    """Four words and a few digits, drawn from the random source of the operating system."""
    # About 4.6 bits a word and 24 of the digits: 42 bits, with the limits on sign-ins enough.
    return "-".join([*(choice(_PASSWORD_WORDS) for _ in range(4)), token_hex(3)])


def sample_vault(folder: Path) -> Vault:
    """Make a vault in a folder that has the tables of the town, with all accounts."""
    vault = create_vault(folder / VAULT)
    try:
        _fill(vault, folder)
    except BaseException:
        vault.close()
        raise
    return vault


def check_free(folder: Path) -> None:
    """Refuse a folder that already has a vault, because its budgets may be spent."""
    path = folder / VAULT
    if path.exists():
        raise OutputError(
            "output_exists",
            f"'{path}' already has a vault. Serve it with 'sfumato serve --vault "
            f"{path}', or choose another folder with --out.",
        )


def _fill(vault: Vault, folder: Path) -> None:
    """Add tables and principals, and open one release and one feed to the public."""
    for name, budget in (("town", 3), ("visits", 4)):
        files = folder / f"{name}.csv", folder / f"{name}.toml"
        vault.add(name, *files, epsilon=budget, delta="1e-6")
    for name, (kind, share) in _KINDS.items():
        vault.people.add(name, kind, operator=_OPERATOR)
        for population in ("town", "visits") if share is not None else ():
            vault.people.grant(name, epsilon=str(share), population=population, operator=_OPERATOR)
    request: dict[str, Any] = {"kind": "histogram", "columns": ["department"], "epsilon": "0.5"}
    job = vault.jobs.submit("publish", "visits", request_id="demo", **request)
    vault.jobs.work()  # here and now: no server is running yet
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
