"""A server whose jobs stop half-way: charged, and before any noise was drawn."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from sfumato.server.serve import Listening, VaultServer
from sfumato.server.settings import Limits
from sfumato.vault.gatekeeper import Gatekeeper
from sfumato.vault.jobs.jobs import Jobs
from sfumato.vault.vault import open_vault


def stalled(*_: Any) -> bytes:
    """Say that the charge was made, and go on for ever."""
    Path("begun").touch()
    time.sleep(600)
    raise AssertionError("somebody was to kill this process")


if __name__ == "__main__":
    Gatekeeper._run = stalled  # type: ignore[method-assign,assignment]
    with open_vault(sys.argv[1]) as vault:
        vault.__dict__["jobs"] = Jobs(vault, vault._store, lease_seconds=1)
        server = VaultServer(vault, Listening(port=0), limits=Limits(), owner_link=False)
        print(server.url, flush=True)  # noqa: T201  for the test that started it
        server.answer()
