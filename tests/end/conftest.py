"""One browser for all tests of pages, and one process that has loaded what commands load."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.end.browsing import CHROMIUM
from tests.end.warm import warm_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, as it is installed on the system."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the command is that need not load its libraries."""
    with warm_command(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


@pytest.fixture(scope="module")
def warm_path(warm: Path) -> Iterator[None]:
    """Have `sfumato` mean that command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(warm), prepend=os.pathsep)
        yield
