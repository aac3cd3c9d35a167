"""A progress bar on the terminal while long work runs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[[float, float], None]  # called with the work done and the total work

PATIENCE = 0.8
"""Seconds of work before a bar appears."""


@contextmanager
def progress(title: str, *, unit: str | None = None) -> Iterator[Report]:
    """Show a progress bar on a terminal once work has lasted `PATIENCE` seconds.

    Without a terminal it shows nothing. Until progress is reported, the bar only shows that work
    goes on. With a `unit` it also shows the numbers.
    """
    if not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[counted]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, visible=False, counted="")

        def report(completed: float, total: float) -> None:
            counted = f"{completed:,.0f} of {total:,.0f} {unit}" if unit else ""
            bar.update(task, completed=completed, total=total, counted=counted)

        shown = Timer(PATIENCE, lambda: bar.update(task, visible=True))
        shown.daemon = True
        shown.start()
        try:
            yield report
        finally:
            shown.cancel()


def _silent(_completed: float, _total: float) -> None:
    """Report nothing."""
