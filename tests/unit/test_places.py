"""Paths of this machine in words that go elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sfumato.text import without_places

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cannot read '{here}/my data/people.csv': gone.", "Cannot read 'people.csv': gone."),
        ("'{here}/a b/x' and '{here}/y'", "'x' and 'y'"),
        ("See {here}/people.csv, or {here}/more.csv.", "See people.csv, or more.csv."),
        ("Run: chmod 600 '{here}/key'.", "Run: chmod 600 'key'."),
        ("Sign in at /console/sign-in or ask POST /v1/query.", None),
        ("Open https://example.org/tmp/x, or postgresql://host/tmp/x#t.", None),
        ("1/2 of 3/4, a/b and ./tmp/x", None),
        (f"No table '/{'a' * 300}', nor /{'b' * 300}.", None),
        ("'/' stays, and '/no-such-folder-here/x' too", None),
    ],
)
def test_the_last_name_of_a_path_is_told_alone(
    text: str, expected: str | None, tmp_path: Path
) -> None:
    message = text.format(here=tmp_path)
    assert without_places(message) == (text if expected is None else expected)
