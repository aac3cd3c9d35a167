"""Progress bars on standard error, shown only to a person and only when work takes a while."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[[float, float], None]  # told how much is done, of how much

PATIENCE = 0.8
"""Seconds of work before a bar appears."""


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """Show a bar on a terminal once work has lasted `PATIENCE` seconds; elsewhere, nothing."""
    if not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import Progress

    started = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0, visible=False)

        def report(done: float, total: float) -> None:
            visible = time.monotonic() - started > PATIENCE
            bar.update(task, completed=done / max(total, 1), visible=visible)

        yield report


def _silent(_done: float, _total: float) -> None:
    """Say nothing."""
