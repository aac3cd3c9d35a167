"""The parts that all report pages share: one order, and how to verify files."""

from __future__ import annotations

import re
import subprocess
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from sfumato.attack.finding import Findings
from sfumato.attack.page import FAILED, TITLE
from sfumato.release.page_parts import (
    EXAMINED,
    GUARANTEED,
    OPEN,
    RELEASED,
    UTILITY,
    VERIFY,
    ReportParts,
    digests,
    report_page,
    verify_release,
)
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.report.blocks import Commands, Paragraph, SignatureLines

if TYPE_CHECKING:
    from pathlib import Path

ORDER = [RELEASED, EXAMINED, GUARANTEED, OPEN, UTILITY, TITLE, FAILED, VERIFY]


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def parts(**more: object) -> ReportParts:
    said = {name: [Paragraph(f"of {name}")] for name in (
        "verify", "utility", "limits", "guarantee", "subject")}  # fmt: skip
    told = {"title": "T", "promise": "P", "audience": "A", "private": True, **said, **more}
    return ReportParts(**told)  # type: ignore[arg-type]


def test_parts_have_one_order_whatever_order_they_are_given_in() -> None:
    nothing = Findings((), {"link": "it needs a list."})
    page = report_page(parts(findings=nothing))
    assert headings(page) == [one for one in ORDER if one != EXAMINED]
    assert page.index("of limits") < page.index("of utility") < page.index("of verify")


def test_what_a_door_does_not_have_is_left_out() -> None:
    page = report_page(parts(utility=[], released=False))
    assert headings(page) == [EXAMINED, GUARANTEED, OPEN, TITLE, VERIFY]


@pytest.mark.parametrize(
    ("private", "said"),
    [(True, "does not mean that the release is safe"), (False, "only the owner sees them")],
)
def test_silence_about_attacks_is_explained(private: bool, said: str) -> None:
    assert said in report_page(parts(private=private))


def test_who_may_see_it_stands_at_both_ends() -> None:
    page = report_page(parts(audience="For the owner."))
    assert page.count("For the owner.") == 2
    assert "note warning" in page
    assert "note warning" not in report_page(parts(private=False))


CROWD = Guarantee("syntactic", "S.", {"k": 5})
NOISE = Guarantee("differential privacy", "S.", {"epsilon": "1"})


def made(guarantee: Guarantee, **more: object) -> Release:
    return Release({}, guarantee, Provenance("optimal", {}, ""), **more)  # type: ignore[arg-type]


def test_the_command_takes_the_file_and_no_other(tmp_path: Path) -> None:
    name = "it's safe.csv"
    (tmp_path / name).write_bytes(b"a\n1\n")
    [told] = digests({name: sha256(b"a\n1\n").hexdigest()}, "released")
    assert isinstance(told, Commands)
    assert told.caption == "Check that the file is what was released (SHA-256)"
    run = ["sh", "-c", told.lines[0]]
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / name).write_bytes(b"a\n2\n")
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, check=False).returncode != 0


def commands(release: Release, files: dict[str, str]) -> list[str]:
    blocks = verify_release(release, files)
    return [line for one in blocks if isinstance(one, Commands) for line in one.lines]


def test_a_crowd_is_measured_and_a_receipt_looked_up() -> None:
    assert commands(made(CROWD), {"safe.csv": "ab"})[1] == (
        "sfumato measure safe.csv --schema SCHEMA.toml"
    )
    parts = {"safe/part-00000.parquet": "ab"}
    for folder in (parts, {**parts, "safe/part-00001.parquet": "cd"}):
        assert commands(made(CROWD), folder)[-1] == "sfumato measure safe --schema SCHEMA.toml"
    assert commands(made(NOISE, receipt="r-1"), {}) == [
        "sfumato ledger verify",
        "sfumato ledger show",
    ]
    assert commands(made(NOISE), {}) == []


def test_of_many_files_or_none_the_side_car_has_the_digests() -> None:
    for files in ({}, {f"part-{place}.parquet": "ab" for place in range(30)}):
        first = verify_release(made(CROWD), files)[0]
        assert isinstance(first, Paragraph)
        assert "side-car" in first.text


def test_only_the_holder_signs() -> None:
    def signs(release: Release) -> bool:
        return any(isinstance(one, SignatureLines) for one in verify_release(release, {}))

    assert signs(made(CROWD, holder={}))
    assert not signs(made(CROWD))
