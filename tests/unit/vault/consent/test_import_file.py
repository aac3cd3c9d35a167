"""Files of what people said: taken whole, or refused with the lines that cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sfumato.data.schema.column import Kind
from sfumato.errors import SfumatoError
from sfumato.vault.consent.registry import moment, read_changes

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.vault.consent.registry import ConsentChange

PURPOSES = ("care", "research")
HEAD = "person,purpose,agreed\n"


def read(tmp_path: Path, text: str | bytes, kind: Kind = Kind.INTEGER) -> list[ConsentChange]:
    path = tmp_path / "said.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_changes(path, PURPOSES, kind)


def refused(tmp_path: Path, text: str | bytes, kind: Kind = Kind.INTEGER) -> tuple[str, str]:
    with pytest.raises(SfumatoError) as caught:
        read(tmp_path, text, kind)
    return caught.value.code, caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "7,care,yes\n-3,research,no\n",
        "\ufeff" + HEAD.replace(",", ";") + "7;care;yes\r\n\r\n-3;research;no",
        '"Person"\tPurpose\tagreed \n"7"\tcare\tyes\n-3\tresearch\tno\n',
        HEAD + "7,care,yes\n7,care,yes\n-3,research,no\n",
    ],
)
def test_what_a_file_says(tmp_path: Path, text: str) -> None:
    said = [(one.person, one.purpose, one.agreed, one.dated) for one in read(tmp_path, text)]
    assert said == [("7", "care", True, False), ("-3", "research", False, False)]


def test_texts_are_kept_as_they_are(tmp_path: Path) -> None:
    people = [" a", "a", "it's", 'say "x"', "a,b", "ä", "007", "=1+1", "😀"]
    lines = "".join('"{}",care,yes\n'.format(one.replace('"', '""')) for one in people)
    assert [one.person for one in read(tmp_path, HEAD + lines, Kind.TEXT)] == people


def test_times_are_brought_to_one_form(tmp_path: Path) -> None:
    head = HEAD.replace("\n", ",time\n")
    found = read(tmp_path, head + "1,care,yes,2020-01-01\n2,care,yes,2020-01-01T01:00+02:00\n")
    assert [one.time for one in found] == ["2020-01-01T00:00:00+00:00", "2019-12-31T23:00:00+00:00"]
    assert all(one.dated for one in found)
    assert [one.dated for one in read(tmp_path, head + "1,care,yes,\n")] == [False]
    assert moment("0001-01-01T00:00+23:00") is None


BAD = {
    "1,care": "it must have 3 values",
    "1,care,yes,no": "it must have 3 values",
    ",care,yes": "whole number",
    "007,care,yes": "whole number",
    "+7,care,yes": "whole number",
    "7.0,care,yes": "whole number",
    "٣,care,yes": "whole number",
    "9223372036854775808,care,yes": "whole number",
    " 7,care,yes": "whole number",
    "7,Care,yes": "did you mean 'care'",
    "7,cure,yes": "no purpose 'cure'",
    "7,care,Yes": "yes or no, not 'Yes'",
    "7,care,": "yes or no",
    "7,care,true": "yes or no",
}


def test_every_line_that_cannot_be_taken_is_named(tmp_path: Path) -> None:
    lines = ["1,research,no", *BAD, "2,care,yes", "2,care,no"]
    code, message = refused(tmp_path, HEAD + "\n".join(lines) + "\n")
    assert code == "file_malformed"
    assert message.startswith(f"{len(BAD) + 1} lines")
    for place, said in enumerate(BAD.values(), 3):
        [told] = [one for one in message.split("; line ") if one.startswith(f"{place}:")] or [
            message.partition("line 3: ")[2].partition("; line")[0]
        ]
        assert said in told, (place, told)
    assert "line 18: the same person says yes and no to 'care'" in message


@pytest.mark.parametrize("time", ["2999-01-01", "yesterday", "2023-02-29", "9999-12-31T23:00-09"])
def test_a_time_to_come_or_none_is_no_time(tmp_path: Path, time: str) -> None:
    code, message = refused(tmp_path, f"person,purpose,agreed,time\n1,care,no,{time}\n")
    assert code == "file_malformed"
    assert "line 2: the time" in message


def test_of_many_bad_lines_some_are_named_and_all_are_counted(tmp_path: Path) -> None:
    _, message = refused(tmp_path, HEAD + "x,care,yes\n" * 5000)
    assert message.startswith("5000 lines")
    assert "and 4980 more" in message
    assert len(message) < 3000


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"person,purpose\n1,care\n",
        b"7,care,yes\n",
        b"purpose,person,agreed\ncare,7,yes\n",
        HEAD.encode() + b"\xff,care,yes\n",
        HEAD.encode() + b'"7,care,yes\n',
        (HEAD + "7,care,yes\n").encode("utf-16"),
        b"PAR1" + bytes(100),
    ],
)
def test_what_is_no_such_file(tmp_path: Path, text: bytes) -> None:
    assert refused(tmp_path, text)[0] == "file_malformed"


@pytest.mark.parametrize("person", ["", "a\0b", "a\rb", "x" * 1001])
def test_people_who_cannot_be_written_on_a_line(tmp_path: Path, person: str) -> None:
    code, message = refused(tmp_path, f'{HEAD}"{person}",care,yes\n', Kind.TEXT)
    assert code == "file_malformed"
    assert "on one line" in message


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError) as caught:
        read_changes(tmp_path, PURPOSES, Kind.TEXT)
    assert caught.value.code == "source_missing"
