"""Several hosts on one ledger: each keeps a head of its own, and any head detects a rollback.

A host without a head answers nobody, since it would accept an old database. So a host that joins
begins with the positions that another host has seen, which an operator carries over. From then on
the database must hold them and all that is added. Decision `ledger-head`.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sfumato.data.schema.names import quoted
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import ParameterError, RolledBackError, SchemaError
from sfumato.privacy.ledger.chain import Position
from sfumato.privacy.ledger.commit import OutsideHead, recorded_head
from sfumato.release.files_in_use import consent_head
from sfumato.vault.accounts import open_ledger
from sfumato.vault.config import load
from sfumato.vault.consent.registry import open_log

if TYPE_CHECKING:
    from sfumato.vault.config import Config

_POSITION = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", re.ASCII)
_MOST_MEBIBYTES = 1


def positions(folder: Path) -> dict[str, str]:
    """The positions that this host has seen, of the ledger and of any registry of consent."""
    config = load(folder)
    with closing(open_ledger(config)) as ledger:
        ledger.verify()
    seen = {book: recorded_head(path) for book, path in _heads(config).items()}
    return {
        book: f"{position.seq}:{position.hash}"
        for book, position in seen.items()
        if position is not None
    }


def join(folder: Path, head_file: Path) -> dict[str, str]:
    """Begin this host's heads at the positions of another host, as `positions` gave them there.

    Positions that the database does not hold are refused before anything is written.
    """
    config = load(folder)
    heads = _read(head_file)
    _check_free(config, heads)
    try:
        _check_held(config, heads)
    except RolledBackError as error:
        raise RolledBackError(
            "head_not_held",
            f"The database does not hold what {quoted(str(head_file))} tells: that was written for "
            "another ledger, or the database is older than what its host has seen. Nothing was "
            "changed.",
            hint="Write it anew, with 'sfumato ledger head > head.json' on a host that serves "
            "this vault.",
            detail=error.detail,
        ) from None
    _begin(config, heads)
    return positions(folder)


def _heads(config: Config) -> dict[str, Path]:
    return {"ledger": config.head, "consent": consent_head(config.head)}


def _check_held(config: Config, heads: dict[str, Position]) -> None:
    """Open the books once as if this host had begun with these positions."""
    # With heads in a temporary folder: a host must not keep a head that turns out to be wrong.
    with TemporaryDirectory(prefix="sfumato-") as trial_folder:
        trial = replace(config, head=Path(trial_folder) / config.head.name)
        _begin(trial, heads)
        with closing(open_ledger(trial)) as ledger:
            ledger.accounts()
        if "consent" in heads:
            with closing(open_log(trial)) as log:
                log.check()


def _check_free(config: Config, heads: dict[str, Position]) -> None:
    for book, path in _heads(config).items():
        if book in heads and recorded_head(path) not in (None, heads[book]):
            raise ParameterError(
                "ledger_taken",
                f"This host has a head already, '{path}', and keeps it: to begin anew would be to "
                "forget what it has seen. A host joins once.",
            )


def _begin(config: Config, heads: dict[str, Position]) -> None:
    for book, path in _heads(config).items():
        if book in heads:
            with closing(OutsideHead(path)) as head, head.lock():
                # Again, under the lock: another process may have begun a head meanwhile.
                _check_free(config, {book: heads[book]})
                head.write(heads[book])


def _read(path: Path) -> dict[str, Position]:
    text = read_text(path, title="Head", most_mebibytes=_MOST_MEBIBYTES)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if (
        not isinstance(document, dict)
        or "ledger" not in document
        or document.keys() - {"ledger", "consent"}
    ):
        raise SchemaError(
            "head_unreadable",
            f"{quoted(str(path))} does not tell where a ledger stands. Write it on a host that has "
            "joined, with 'sfumato ledger head > head.json'.",
        )
    return {book: _position(path, position) for book, position in document.items()}


def _position(path: Path, text: object) -> Position:
    match = _POSITION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise SchemaError(
            "head_unreadable",
            f"{quoted(str(path))}: a position is a number and a hash, as in 'sfumato ledger head'.",
        )
    return Position(int(match[1]), match[2])
