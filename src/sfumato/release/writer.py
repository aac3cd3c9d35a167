"""Write a release as one file or a folder of several: all files appear, or none.

All files are first written to scratch folders beside their final paths. Then they move into place
one by one, the side-car last: a release is complete once the side-car is there. Before the first
move, a journal in each scratch folder lists all moves. So a failed or interrupted writing is
undone; if its process died, the next writing clears the remains.

Decision `writing-releases`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sfumato.data.engines.base import TableTarget
from sfumato.data.engines.kinds import kinds_of
from sfumato.data.files.column_spelling import keys_in
from sfumato.data.files.formats import EXCEL, ends_in
from sfumato.data.files.workbook import with_typed_labels
from sfumato.data.files.writers import SIDECAR_NAME, format_of
from sfumato.data.schema.layout import DEFAULT_LAYOUT, FileLayout
from sfumato.errors import OutputError
from sfumato.filesystem import (
    PATIENCE_SECONDS,
    Scratch,
    acquire_lock,
    released,
    settle,
    sync,
    umask,
    unwritable,
)
from sfumato.platform_support import needs_locks
from sfumato.release.engine_tables import DraftedTable, write_parts
from sfumato.release.output import Output, check_replaceable
from sfumato.release.sidecar import (
    PART_FILES,
    Saved,
    checksum,
    describe,
    describe_to_holder,
    holder_file,
    is_folder,
    parts_checksum,
)
from sfumato.write_journal import (
    JOURNAL,
    Journal,
    JournalEntry,
    LastFile,
    mark_of,
    undo,
    write_journal,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.data.files.writers import Batches
    from sfumato.data.schema.column import Kind
    from sfumato.release.engine_tables import EngineRows
    from sfumato.release.release import Release


class ReleaseWriter:
    """Writes the files of one release: tables, side-cars, and pages for people."""

    def __init__(self, output: Output, *, several: bool, overwrite: bool) -> None:
        self.written: list[Path] = []
        """The paths of the files that travel."""
        self.files: dict[Path, str] = {}  # scratch paths with the SHA-256 of each
        self.path, self._overwrite = output.path, overwrite
        self.several = several or output.is_folder
        self._scratches: dict[Path, Scratch] = {}
        self._staged: list[_Staged] = []
        self._folder: Path | None = None
        self._saved: list[Saved] = []
        self._draft = (
            DraftedTable(output.target) if isinstance(output.target, TableTarget) else None
        )
        self._last = output.path

    def begin(self, *, replace: bool) -> None:
        """Make the folder for several tables: a new one, or one to `replace` an existing one."""
        if self.several and (replace or not is_folder(self.path)):
            self._folder = self._stage(self.path)
            self._folder.mkdir()

    def table(
        self,
        name: str,
        file: str,
        rows: Batches,
        columns: Mapping[str, Kind],
        layout: FileLayout = DEFAULT_LAYOUT,
    ) -> None:
        """Write a table to a file in the format of its name; text files follow the layout."""
        if ends_in(file, EXCEL):
            rows = with_typed_labels(rows)
            columns = kinds_of(rows.schema)
        path, write = self._stage_file(file), format_of(Path(file))
        with path.open("wb") as stream:
            written_layout = write(rows, stream, layout)
        mark = self.files[path] = checksum(path)
        self._saved.append(Saved(name, file, mark, columns, keys_in(rows.schema), written_layout))

    def rows(self, name: str, rows: EngineRows) -> None:
        """Let an engine write a table, into the folder or beside its source."""
        if self._draft is not None:
            self._saved.append(self._draft.write(name, rows, overwrite=self._overwrite))
            return
        assert self._folder is not None
        marks = write_parts(rows, self._folder, self.path)
        self.written += [self.path / name for name in marks]
        self.files |= {self._folder / name: mark for name, mark in marks.items()}
        combined = parts_checksum(marks)
        saved = Saved(name, PART_FILES, combined, rows.columns, rows.spelled, parts=[*marks])
        self._saved.append(saved)

    def text(self, file: str, text: str) -> None:
        """Write a file that is not a table, such as a map."""
        path = self._stage_file(file)
        path.write_text(text, encoding="utf-8")
        self.files[path] = checksum(path)

    def beside(self, path: Path, content: bytes, *, private: bool = False) -> None:
        """Write a file that appears with the release and is not part of it: a page, a model."""
        self._stage(path, private=private).write_bytes(content)

    def write_sidecars(self, release: Release) -> None:
        """Write the side-cars, last: the one that travels, and the holder's if there is one."""
        if release.holder is not None:
            holder_sidecar = self._stage(holder_file(self.path), private=True)
            holder_sidecar.write_text(describe_to_holder(release, self._saved), encoding="utf-8")
        description = describe(release, self._saved, self.files)
        name = SIDECAR_NAME if self.several else f"{self.path.name}.json"
        self._stage_file(name).write_text(description, encoding="utf-8")

    def _stage_file(self, name: str) -> Path:
        """Return the scratch path of a file of the release."""
        path = (self.path if self.several else self.path.parent) / name
        self.written.append(path)
        return self._stage(path) if self._folder is None else self._folder / name

    def _stage(self, path: Path, *, private: bool = False) -> Path:
        """Return the scratch path of a file for `path`; only the owner can read scratch files."""
        self._last = path
        final = Path(os.path.realpath(path))
        if final.parent not in self._scratches:
            self._scratches[final.parent] = Scratch(final.parent, f".{final.name}.")
        folder = self._scratches[final.parent].path / str(len(self._staged))
        folder.mkdir()
        # A folder of its own for each file keeps its final name, so that engines and libraries
        # see the right ending.
        self._staged.append(_Staged(final, folder / path.name, private))
        return folder / path.name

    def move_into_place(self) -> None:
        """Move all files into place in the order of writing; a new folder comes last."""
        self._staged.sort(key=lambda staged: staged.path.is_dir())
        for staged in self._staged:
            staged.sync()
        journals = self._journals()
        with ExitStack() as locked:
            # Locks are taken in one order everywhere, so that two writers cannot wait for each
            # other.
            for folder in sorted(self._scratches):
                locked.enter_context(_lock_folder(folder))
            if self._folder is not None and is_folder(self.path):
                check_replaceable(self.path)  # files that appeared since would be lost
            try:
                for scratch, journal in journals.items():
                    write_journal(scratch, journal)
                for staged in self._staged:
                    self._last = staged.final
                    staged.move_into_place(overwrite=self._overwrite)
                if self._draft is not None:
                    self._draft.settle()
                for folder in self._scratches:
                    sync(folder)
            except BaseException:
                _undo_all(journals)
                raise
            # From here on the release is complete: an interruption must not undo it.
            released.append(self.path)
            for scratch in journals:  # without a journal no later writing can undo it
                with suppress(OSError):
                    (scratch / JOURNAL).unlink()

    def _journals(self) -> dict[Path, Journal]:
        """Return the journal of each scratch folder; that of the last file comes last."""
        if not self._staged:
            return {}
        last = self._staged[-1]
        folders = sorted(self._scratches, key=lambda folder: folder == last.final.parent)
        end = LastFile(str(last.final), str(last.path.parent), last.entry().mark)
        if self._draft is not None:
            end = self._draft.waiting(self._scratches[Path(os.path.realpath(self.path)).parent])
        return {
            self._scratches[folder].path: Journal(
                tuple(staged.entry() for staged in self._staged if staged.final.parent == folder),
                end,
            )
            for folder in folders
        }

    def failure(self, error: OSError) -> Exception:
        """Return the error for the last file that was touched."""
        return unwritable(self._last, error)

    def close(self) -> None:
        """Remove all scratch files; if one removal fails, the others still run."""
        with ExitStack() as stack:
            for scratch in self._scratches.values():
                stack.callback(scratch.close)
            if self._draft is not None:
                self._draft.abandon()


class _Staged(NamedTuple):
    """A file or a folder that waits in a scratch folder."""

    final: Path
    path: Path
    private: bool

    @property
    def old(self) -> Path:
        """The path at which the replaced file is kept until all moves are done."""
        return self.path.parent.with_suffix(".old")

    def entry(self) -> JournalEntry:
        """Return its entry in the journal of its folder."""
        mark = mark_of(self.path)
        assert mark is not None
        return JournalEntry(self.final.name, self.path.parent.name, mark)

    def sync(self) -> None:
        """Flush it to disk with its final permissions."""
        if self.path.is_dir():
            for file in self.path.iterdir():
                sync(file)
        else:
            self.path.chmod(0o600 if self.private else 0o666 & ~umask())
        sync(self.path)

    def move_into_place(self, *, overwrite: bool) -> None:
        """Move it into place; the replaced file is kept until all moves are done."""
        if self.path.is_dir():
            if overwrite and self.final.exists():
                self.final.rename(self.old)
            self.path.rename(self.final)
            return
        if overwrite and self.final.exists():
            try:
                os.link(self.final, self.old)
            except OSError:  # no hard links here: for a moment the path is empty
                self.final.rename(self.old)
        settle(self.path, self.final, overwrite=overwrite)
        self.path.unlink(missing_ok=True)  # `settle` may have linked it instead of moving it


def _undo_all(journals: dict[Path, Journal]) -> None:
    """Undo all moves; retry once, so that a further interruption does not leave half of them."""
    try:
        for scratch, journal in reversed(journals.items()):
            undo(scratch, journal.entries)
    except BaseException:
        for scratch, journal in reversed(journals.items()):
            undo(scratch, journal.entries)
        raise


@contextmanager
def writing(
    out: Output | Path, *, several: bool = False, replace: bool = False, overwrite: bool = False
) -> Iterator[ReleaseWriter]:
    """Write a release: at the end all files appear, and after a failure none."""
    needs_locks("Writing a release")
    with ExitStack() as stack:
        try:
            output = out if isinstance(out, Output) else Output(out)
            writer = ReleaseWriter(output, several=several, overwrite=overwrite)
            stack.callback(writer.close)
            writer.begin(replace=replace)
            yield writer
            writer.move_into_place()
        except OSError as error:
            raise writer.failure(error) from None


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder while files appear in it; without locks, checksums reveal a mixture."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        is_free = True
        with suppress(OSError):  # a file system without locks
            is_free = acquire_lock(handle, seconds=PATIENCE_SECONDS)
        if not is_free:
            raise OutputError(
                "file_in_use",
                f"Cannot write to '{folder}': another process is writing there. Try again.",
            )
        yield
    finally:
        os.close(handle)
