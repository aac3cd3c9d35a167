"""What is told on a terminal while something works."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[[float, float], None]  # told how much is done, of how much

PATIENCE = 0.8
"""Seconds of work before a bar appears."""


@contextmanager
def progress(title: str, *, unit: str | None = None) -> Iterator[Report]:
    """Show a bar on a terminal once work has lasted `PATIENCE` seconds; elsewhere, nothing.

    Until something is reported the bar only says that work goes on. What is counted in a `unit`
    is shown in figures too.
    """
    if not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[counted]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, visible=False, counted="")

        def report(done: float, total: float) -> None:
            counted = f"{done:,.0f} of {total:,.0f} {unit}" if unit else ""
            bar.update(task, completed=done, total=total, counted=counted)

        shown = Timer(PATIENCE, lambda: bar.update(task, visible=True))
        shown.daemon = True
        shown.start()
        try:
            yield report
        finally:
            shown.cancel()


def _silent(_done: float, _total: float) -> None:
    """Say nothing."""
