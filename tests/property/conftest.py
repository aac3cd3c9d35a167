"""An option of the brute-force tests, when they are named on the command line."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runs", type=int, default=2_000, help="cases to try on DuckDB")


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> int:
    """How many cases to try on DuckDB."""
    return int(request.config.getoption("--runs", 2_000))
