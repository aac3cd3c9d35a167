"""The pages about a release that was decided on: its holder's, and the one that travels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.anonymize.distributions import distributions
from sfumato.release.output import digests_by_name
from sfumato.release.page import page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from sfumato.anonymize.result import Anonymized
    from sfumato.release.release import Release
    from sfumato.release.writer import ReleaseWriter


def write_pages(
    decided: Anonymized,
    release: Release,
    writer: ReleaseWriter,
    sample: Mapping[str, pa.Table],
    pages: tuple[Path | None, Path | None],
) -> None:
    """Have pages appear with the release; only the holder's shows what is of the original."""
    files = digests_by_name(writer)
    mine, travels = pages
    if mine is not None:
        told = page(release, sample, files=files, beside=distributions(decided))
        writer.beside(mine, told.encode(), private=True)
    if travels is not None:
        told = page(release.public, sample, files=files)
        writer.beside(travels, told.encode(), private=False)
