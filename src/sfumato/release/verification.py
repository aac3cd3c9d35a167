"""How whoever has a page can verify it: that files are those it is about, that promises hold."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from sfumato.data.schema.names import count
from sfumato.release.facts import asked
from sfumato.report.blocks import Commands, Heading, Paragraph, SignatureLines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.release.release import Release
    from sfumato.report.blocks import Block

_PRIVATE = "differential privacy"
_MOST = 20
"""Of more files the side-car alone has the digests."""
_SIDECAR = (
    "The side-car that lies beside the release has the SHA-256 of each of its files, and sfumato "
    "refuses to read a file that is another."
)


def verify_release(release: Release, files: Mapping[str, str]) -> list[Block]:
    """Of a release: its digests, what tells that its promise holds, how it was made.

    `files` are those that were written, with the SHA-256 of each; those of a folder begin with it.
    """
    blocks = digests(files, "released") if 0 < len(files) <= _MOST else [Paragraph(_SIDECAR)]
    blocks += _promise(release, files)
    blocks += [Heading("How it was made", 3), asked(release)]
    if release.holder is not None:
        checked = SignatureLines(("Checked by", "Date", "Signature"))
        blocks += [Heading("Checked", 3), checked]
    return blocks


def digests(files: Mapping[str, str], done: str) -> list[Block]:
    """Commands that say whether files are those with which something was `done`."""
    if not files:
        return []
    lines = [f"echo {quote(f'{mark}  {name}')} | sha256sum -c" for name, mark in files.items()]
    these = "the file is what" if len(files) == 1 else f"the {count(len(files), 'file')} are what"
    return [Commands(f"That {these} was {done} (SHA-256)", lines)]


def _promise(release: Release, files: Mapping[str, str]) -> list[Block]:
    """What to type to see that it was promised, and is kept."""
    facts = release.guarantee.parameters
    if release.guarantee.kind == _PRIVATE:
        if release.receipt is None:
            return []
        told = f"That it was paid for, under receipt {release.receipt}, where its vault is"
        return [Commands(told, ["sfumato ledger verify", "sfumato ledger show"])]
    if not facts.get("k"):
        return []
    folders = {name.rpartition("/")[0] for name in files}
    places = folders if all(folders) else files.keys()
    name = quote(next(iter(places))) if len(places) == 1 else "RELEASE"
    told = f"That it keeps what it promises: k must be {facts['k']:,} or more"
    return [Commands(told, [f"sfumato measure {name} --schema SCHEMA.toml"])]
