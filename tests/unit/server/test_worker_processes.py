"""Processes of a server that cannot begin end all of it, with an error that says how to see why."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import InternalError
from sfumato.server.worker_processes import run_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def dead(_listening: Callable[[], None]) -> None:
    """A process that ends before it listens."""
    os._exit(3)


def short(listening: Callable[[], None]) -> None:
    """A process that listens, and dies."""
    listening()
    os._exit(3)


@pytest.mark.parametrize("serve", [dead, short])
def test_who_ends_as_soon_as_begun_ends_all(serve: Callable[[Callable[[], None]], None]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(InternalError) as ended:
        run_in(2, serve, lambda: None)
    assert ended.value.code == "process_ended"
    assert "processes=1" in str(ended.value)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_one_that_dies_young_is_replaced(tmp_path: Path) -> None:
    all_listen, heard = tmp_path / "ready", list[str]()

    def serve(listening: Callable[[], None]) -> None:
        listening()
        for name in ("first", "second", "third"):
            with suppress(FileExistsError):
                (tmp_path / name).touch(exist_ok=False)
                break
        if name == "first":
            while not all_listen.exists():
                time.sleep(0.01)
            os._exit(9)
        if name == "third":
            os.kill(os.getppid(), signal.SIGTERM)
        signal.pause()

    def ready() -> None:
        heard.append("ready")
        all_listen.touch()

    run_in(2, serve, ready)
    assert heard == ["ready"]
    assert (tmp_path / "third").exists()


def test_who_is_told_to_end_ends_when_all_have_listened() -> None:
    begun: list[int] = []

    def serve(listening: Callable[[], None]) -> None:
        listening()
        signal.pause()

    def ready() -> None:
        begun.append(os.getpid())
        os.kill(os.getpid(), signal.SIGTERM)

    run_in(2, serve, ready)
    assert begun == [os.getpid()]
