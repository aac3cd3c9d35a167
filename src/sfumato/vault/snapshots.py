"""The snapshot of a vault: a number that its owner raises, on a schedule that all may know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError
from sfumato.release.files_in_use import VAULT
from sfumato.vault.config import changing, parse, save

if TYPE_CHECKING:
    from pathlib import Path


def raise_snapshot(folder: Path, to: int | None = None) -> int:
    """Write another snapshot into a vault's configuration, by default the next; it never falls."""
    import tomlkit  # a question changes no snapshot, and starts without it

    with changing(folder) as config:
        now = config.snapshot
        wanted = now + 1 if to is None else to
        if wanted < now:
            raise ParameterError(
                "snapshot_lower",
                f"The snapshot is {now} and cannot become {wanted}: what was answered before would "
                f"be given again. Give {now + 1} or more.",
            )
        if wanted > now:
            path = folder / VAULT
            document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
            document["snapshot"] = wanted
            text = tomlkit.dumps(document)
            parse(text, path)
            save(folder, text)
    return wanted
