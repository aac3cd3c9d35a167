"""What people say of where a release goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.data.engines.base import FolderTarget, TableTarget
from sfumato.errors import OutputError
from sfumato.release.output import Output


@pytest.mark.parametrize(
    ("said", "target", "path"),
    [
        ("out.csv", Path("out.csv"), "out.csv"),
        ("out", Path("out"), "out"),
        ("a/out/", FolderTarget("a/out"), "a/out"),
        ("out.d/", FolderTarget("out.d"), "out.d"),
        ("table:safe", TableTarget("safe"), "safe"),
        ("table:s.safe", TableTarget("safe", "s"), "s.safe"),
        ('table:"My Safe"', TableTarget("My Safe"), "My Safe"),
        ('table:"s.safe"', TableTarget("s.safe"), "%22s.safe%22"),
        ('table:s."a/b"', TableTarget("a/b", "s"), "s.a%2Fb"),
        ("table:c.s.safe", TableTarget("safe", "s", "c"), "c.s.safe"),
    ],
)
def test_files_folders_and_tables(said: str, target: object, path: str) -> None:
    output = Output.parse(said)
    assert (output.target, str(output.path)) == (target, path)


@pytest.mark.parametrize("name", ["", ".", "a.", "a b", "f()", "a.b.c.d", "(SELECT 1)", "a AS b"])
def test_what_is_no_name_of_a_table(name: str) -> None:
    with pytest.raises(OutputError) as refusal:
        Output.parse(f"table:{name}")
    assert refusal.value.code == "address_malformed"


def test_an_address_is_refused() -> None:
    with pytest.raises(OutputError) as refusal:
        Output.parse("s3://bucket/out/")
    assert refusal.value.code == "output_unwritable"
