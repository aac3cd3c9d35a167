"""Between an engine and everybody else: what engines say may quote data and goes no further."""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pyarrow as pa

from sfumato.errors import InternalError, SfumatoError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
R = TypeVar("R")


def sheltered(
    translate: Callable[[Exception], BaseException],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function raise errors of ours only, with no trace of the error that caused them.

    `raise ... from None` is not enough: it hides the cause but keeps it as `__context__`, where
    any logger finds it. So the new error is raised after the handler has ended.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> R:
            failure: BaseException
            try:
                return function(*arguments, **options)
            except SfumatoError as error:
                failure = error
            except RecursionError:  # of ours, in writing the query: no engine has heard of it
                failure = InternalError(
                    "statement_too_deep",
                    "The query is nested too deeply to be written down. Ask a simpler question, or "
                    "of fewer columns.",
                )
            except Exception as error:  # noqa: BLE001  whatever a driver throws may quote data
                failure = translate(error)
            failure.__cause__ = failure.__context__ = None
            raise failure

        return call

    return decorate


def table_missing(engine: str, detail: str) -> SourceError:
    """Say that a query names a table the engine does not have."""
    return SourceError(
        "table_missing",
        f"{engine} has no table of the name asked for. Check spelling, schema and case.",
        detail=detail,
    )


def sheltered_stream(
    schema: pa.Schema,
    advance: Callable[[], pa.RecordBatch | None],
    translate: Callable[[Exception], BaseException],
    done: Callable[[], None],
) -> pa.RecordBatchReader:
    """Read batch after batch until None, with errors of ours only; `done` runs in any case."""
    sheltered_advance = sheltered(translate)(advance)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            while (batch := sheltered_advance()) is not None:
                yield batch
        except BaseException:
            with suppress(Exception):  # what cannot be closed now must not hide why
                done()
            raise
        done()

    return pa.RecordBatchReader.from_batches(schema, batches())
