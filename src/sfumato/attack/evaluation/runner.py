"""Anyone's synthetic table beside its original: the owner's look, which nothing is charged for."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.attack.evaluation.compare import Form, compare
from sfumato.attack.evaluation.foreign_table import open_stranger
from sfumato.attack.evaluation.learning import require_installed
from sfumato.attack.evaluation.paths import ComparedPaths
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.row_forms import Points
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.release.files_in_use import source_files
from sfumato.release.open_table import Table, read, source_of
from sfumato.release.release import Release

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.attack.evaluation.foreign_table import Stranger
    from sfumato.attack.evaluation.result import Evaluation
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema

    Progress = Callable[[float, float], None]


def evaluate(
    synthetic: Source | Table | Release,
    original: Source | Table,
    schema: str | Path | Schema | None = None,
    *,
    target: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare a synthetic table, whoever made it, with its original.

    Where the original is an open table, its schema is known. With a `target` models are trained to
    guess that column, on either table, and tested on rows of the original. All of it is computed
    from the original without a budget: it is for the owner.
    """
    return compare_tables(synthetic, original, schema, target=target, progress=progress)


def compare_tables(
    synthetic: Source | Table | Release,
    original: Source | Table,
    schema: str | Path | Schema | None,
    *,
    target: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """The same for a command, which is told of flags."""
    if arguments.maybe_text(target, "target") is not None:
        require_installed()
    if isinstance(original, Table) and schema is not None:
        raise ParameterError(
            "schema_twice",
            f"An open table has its schema; a second one is not taken. Leave {option('schema')} "
            "out.",
        )
    opened = (
        nullcontext(original) if isinstance(original, Table) else closing(read(original, schema))
    )
    with opened as people:
        wanted = _wanted(people.schema, target)
        made = synthetic.table if isinstance(synthetic, Release) else source_of(synthetic)
        assert made is not None
        stranger = open_stranger(made, people.schema, wanted)
        with closing(stranger.engine):
            if target is not None and target not in [one.name for one in stranger.columns]:
                raise ParameterError(
                    "target_missing",
                    f"The synthetic table has no column {quoted(target)} that can be compared, so "
                    f"nothing can be learned about it. Name another {option('target')}.",
                )
            files = (*people.files, *source_files(made))
            remarks = (*_left_out(people.schema, wanted), *stranger.remarks)
            form = Form(remarks, stranger.malformed, files)
            found = compare(
                people.engine,
                stranger.engine,
                stranger.columns,
                form,
                target=target,
                progress=progress,
            )
            return replace(found, paths=_paths(people, stranger))


def _paths(people: Table, stranger: Stranger) -> ComparedPaths | None:
    """What is found of paths, where rows are points and the synthetic table has all of a point."""
    form = people.schema.form
    if not isinstance(form, Points):
        return None
    held = stranger.engine.columns(stranger.engine.table)
    kept = {one.name for one in stranger.columns}
    if form.path not in held or not kept.issuperset((form.time, form.x, form.y)):
        return None
    from sfumato.methods.trajectory.evaluate import compared_paths

    told = compared_paths(people.engine, stranger.engine, people.schema, form)
    if told is None:
        return None
    figures, many, (original, synthetic) = told
    return ComparedPaths(many, figures.to_json(), (original, synthetic))


def _wanted(schema: Schema, target: str | None) -> list[Column]:
    """What is compared: all but what only tells people apart, which is made up anew."""
    apart = schema.unit.column
    wanted = [
        one for one in schema.columns if one.role is not Role.IDENTIFIER and one.name != apart
    ]
    names = [one.name for one in wanted]
    if not wanted:
        raise SchemaError(
            "nothing_in_common",
            "Every column of the original is an identifier, and identifiers are made up anew in a "
            "synthetic table, so nothing can be compared. Declare other roles.",
        )
    if target is not None and target not in names:
        raise ParameterError(
            "target_missing",
            f"There is no column {quoted(target)} to learn among those that are compared; "
            + suggestion(target, names),
        )
    return wanted


def _left_out(schema: Schema, wanted: Sequence[Column]) -> list[str]:
    names = [one.name for one in schema.columns if one not in wanted]
    return [f"Not compared, because they only tell people apart: {', '.join(names)}."] * bool(names)
