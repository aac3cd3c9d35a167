"""Programs: functions that stand by themselves, files, and what is refused with what to do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import ParameterError
from sfumato.methods.programs.source import LONGEST, program_of, text_of

if TYPE_CHECKING:
    from pathlib import Path


def alone(rows: Any) -> float:
    import statistics

    return statistics.fmean(number for number in rows["age"].to_pylist() if number is not None)


def with_outside(rows: Any) -> float:
    return math.sqrt(len(rows))


def test_a_function_goes_with_its_source() -> None:
    text, name, language = text_of(alone, None)
    assert (name, language, text.startswith("def alone(rows")) == ("alone", "python", True)
    assert program_of(text, name).function == "alone"

    def inner(rows: Any) -> int:
        return len(rows)

    assert text_of(inner, None)[0].startswith("def inner")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("def f(rows):\n    return 1\n")
    assert text_of(str(path), "f") == (path.read_text(), "f", "python")
    assert text_of(path.rename(tmp_path / "p.star"), "f")[2] == "starlark"
    path.write_text("def f(rows):\n    return 1\n")
    assert text_of(path, None)[1] is None


def closure(bound: int) -> Any:
    def inner(rows: Any) -> int:
        return min(len(rows), bound)

    return inner


@pytest.mark.parametrize(
    ("program", "code", "word"),
    [
        (closure(3), "program_invalid", "'bound'"),
        (with_outside, "program_invalid", "'math'"),
        (lambda rows: len(rows), "program_invalid", "def"),
        (len, "program_invalid", "def"),
        ("/nowhere/p.py", "program_invalid", "/nowhere"),
        ("/", "program_invalid", "file"),
    ],
)
def test_what_cannot_go_is_refused_with_what_to_do(program: Any, code: str, word: str) -> None:
    with pytest.raises(ParameterError) as caught:
        text_of(program, None)
    assert caught.value.code == code
    assert word in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "function", "code"),
    [
        ("x" * (LONGEST + 1), "f", "program_invalid"),
        (" \n", "f", "program_invalid"),
        ("def f(): ...", None, "parameter_missing"),
        ("def f(): ...", "f()", "program_invalid"),
        ("\ud800", "f", "program_invalid"),
    ],
)
def test_texts_that_are_no_programs(text: str, function: str | None, code: str) -> None:
    with pytest.raises(ParameterError) as caught:
        program_of(text, function)
    assert caught.value.code == code


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    for content, code in ((b"\xff\xfe", "program_invalid"), (b"#" * 10**7, "program_invalid")):
        (tmp_path / "p.py").write_bytes(content)
        with pytest.raises(ParameterError) as caught:
            text_of(tmp_path / "p.py", "f")
        assert caught.value.code == code
