"""Programs of others than the owner: which they may run, and how often they may try one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.methods.programs.chambers import OpenChamber

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.methods.programs import request
from sfumato.methods.programs.language import executable, language_of, program_digest
from sfumato.methods.programs.sandbox.base import BlockLimits, Program
from sfumato.operations.programs import Programs
from sfumato.vault import programs as limits
from sfumato.vault.programs import ProgramRegistry
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = """
table = "people"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 110]
"""
NATIVE = "def f(rows):\n    return rows['age'].to_numpy().mean()\ndef h(rows):\n    return [0, 1]\n"
STRICT = "def f(rows):\n    return sum(rows['age']) / len(rows['age'])\n"
ASKED: dict[str, Any] = {"function": "f", "output": [(0, 110)], "epsilon": "0.1", "blocks": 4}
OTHERS = ("staff", "external")
BY = {"operator": "ann"}
REAL_DIGEST = program_digest


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> OpenChamber:
    made = OpenChamber()
    monkeypatch.setattr(request, "chamber", lambda _choice: made)
    monkeypatch.setattr(request, "_wait_until", lambda _moment: None)
    return made


@pytest.fixture
def vault(tmp_path: Path, room: OpenChamber) -> Iterator[sf.Vault]:  # noqa: ARG001
    (tmp_path / "people.csv").write_text("age\n" + "".join(f"{20 + n}\n" for n in range(40)))
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "p.py").write_text(NATIVE)
    (tmp_path / "p.star").write_text(STRICT)
    with create_vault(tmp_path / "clinic") as made:
        made.add("people", tmp_path / "people.csv", tmp_path / "people.toml", epsilon=9)
        made.people.add("staff", "permanent-staff", epsilon=4, **BY)
        made.people.add("external", "external", epsilon=4, **BY)
        yield made


def left(vault: sf.Vault, who: str) -> float:
    remaining: float = vault.private("people", principal=who).remaining["epsilon"]
    return remaining


def refused(call: Any, *positional: Any, **named: Any) -> SfumatoError:
    with pytest.raises(SfumatoError) as caught:
        call(*positional, **named)
    return caught.value


def is_refused(vault: sf.Vault, who: str, path: Path, **more: Any) -> SfumatoError | None:
    """The one refusal of every way to have a program run or tried; None where each is open."""
    private = vault.private("people", principal=who)
    asked = {**ASKED, **more}
    sent = {**asked, "output": [{"low": 0, "high": 110}]}
    source, language = path.read_text(), language_of(path)
    ways: tuple[Any, ...] = (
        lambda: private.dry_run(path, **asked),
        lambda: private.run(path, **asked),
        lambda: vault.jobs.submit(
            "run", "people", principal=who, program=source, language=language, **sent
        ),
    )
    found: list[SfumatoError | None] = []
    for way in ways:
        try:
            way()
            found.append(None)
        except SfumatoError as error:
            found.append(error)
    assert len({None if one is None else one.code for one in found}) == 1, found
    return found[0]


def test_native_code_of_others_needs_an_approval_of_its_bytes(
    vault: sf.Vault, room: OpenChamber, tmp_path: Path
) -> None:
    path = tmp_path / "p.py"
    digest = program_digest(Program(NATIVE.encode(), "f"), None)
    assert is_refused(vault, "owner", path) is None
    ran = len(room.outputs)
    room.outputs = []
    for who in OTHERS:
        error = is_refused(vault, who, path)
        assert error is not None
        assert (error.code, digest in error.message) == ("program_not_approved", True)
        assert "sfumato program approve" in error.message
        assert left(vault, who) == 4
    assert (ran, room.outputs) == (4, [])  # not even on made-up rows

    made = vault.programs.approve(path, function="f", **BY)
    assert (made.digest, made.function, made.operator) == (digest, "f", "ann")
    assert [one.digest for one in vault.programs.list()] == [digest]
    for who in OTHERS:
        assert is_refused(vault, who, path) is None
        assert left(vault, who) == pytest.approx(3.9)

    other = tmp_path / "other.py"
    for text, more in (
        (NATIVE + "\n", {}),
        (NATIVE.replace("mean", "max"), {}),
        (NATIVE, {"function": "h"}),
        (NATIVE, {"helper": "h", "ranges": "helper"}),
    ):
        other.write_text(text)
        error = is_refused(vault, "staff", other, **more)
        assert error is not None
        assert (error.code, digest in error.message) == ("program_not_approved", False), more

    assert vault.programs.revoke(digest, **BY) == digest
    assert vault.programs.list() == []
    for who in OTHERS:
        assert is_refused(vault, who, path, epsilon="0.2") is not None
    assert is_refused(vault, "owner", path, epsilon="0.2") is None
    assert refused(vault.programs.revoke, digest, **BY).code == "program_unknown"


def test_a_helper_is_part_of_what_is_approved(vault: sf.Vault, tmp_path: Path) -> None:
    made = vault.programs.approve(tmp_path / "p.py", function="f", helper="h", **BY)
    assert made.helper == "h"
    asked = {"helper": "h", "ranges": "helper"}
    assert is_refused(vault, "staff", tmp_path / "p.py", **asked) is None
    assert is_refused(vault, "staff", tmp_path / "p.py") is not None


def without(fact: str) -> Any:
    """A planted mistake: a digest that leaves out one of the facts which decide what code runs."""

    def digest(program: Program, helper: str | None) -> str:
        plain = {
            "language": replace(program, language="python"),
            "source": replace(program, source=program.source.strip()),
            "function": replace(program, function="f"),
        }
        return REAL_DIGEST(plain.get(fact, program), None if fact == "helper" else helper)

    return digest


@pytest.mark.parametrize("fact", ["source", "function", "helper"])
def test_a_planted_digest_that_leaves_something_out_is_caught(
    vault: sf.Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: OpenChamber, fact: str
) -> None:
    """By the test of approvals above: what it expects to be refused is then run."""
    monkeypatch.setattr(request, "program_digest", without(fact))
    monkeypatch.setattr(limits, "program_digest", without(fact))
    monkeypatch.setattr(f"{__name__}.program_digest", without(fact))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_native_code_of_others_needs_an_approval_of_its_bytes(vault, room, tmp_path)


def test_a_planted_missing_check_is_caught(
    vault: sf.Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: OpenChamber
) -> None:
    monkeypatch.setattr(ProgramRegistry, "check_approved", lambda *_: None)
    with pytest.raises(AssertionError):
        test_native_code_of_others_needs_an_approval_of_its_bytes(vault, room, tmp_path)


def test_an_approval_in_one_language_is_none_in_the_other() -> None:
    """A text that is a program in both is two programs; the twin takes them for one."""
    python, strict = (Program(STRICT.encode(), "f", one) for one in ("python", "starlark"))
    assert program_digest(python, None) != program_digest(strict, None)
    twin = without("language")
    assert twin(python, None) == twin(strict, None)


@pytest.mark.parametrize(
    "hidden",
    [
        *"\u202e\u2066\u200b\ufeff\x08\x0c\x85\u2028\r",
        "\x1b[2K",
        # Shown as nothing, and letters of names to Python: Hangul fillers, variation selectors.
        *"\u3164\uffa0\u1160\ufe0f\U000e0100\u034f\u17b4",
    ],
)
def test_a_program_that_reads_otherwise_than_it_runs_is_not_approved(
    vault: sf.Vault, tmp_path: Path, hidden: str
) -> None:
    """Letters that a screen hides or moves: the owner would approve what nobody has read."""
    source = f"def f(rows):\n    return 1  # {hidden}x\n"
    refusal = refused(vault.program_registry.approve_source, source, "f", None, **BY)
    assert refusal.code == "program_invalid"
    assert "Line 2" in refusal.message
    path = tmp_path / "hidden.py"
    path.write_bytes(source.encode())
    refusal = refused(vault.programs.approve, path, function="f", **BY)
    assert refusal.code == "program_invalid"
    assert vault.programs.list() == []
    for plain in ("é ü 漢 नि ع", "\t", "\r"):
        vault.program_registry.approve_source(
            f"def f(rows):\n    return 1  # {plain}\n", "f", None, **BY
        )


def test_a_strict_program_needs_no_approval(
    vault: sf.Vault, room: OpenChamber, tmp_path: Path
) -> None:
    for who in ("owner", *OTHERS):
        assert is_refused(vault, who, tmp_path / "p.star") is None
    assert len(room.outputs) == 4
    error = refused(vault.programs.approve, tmp_path / "p.star", function="f", **BY)
    assert error.code == "option_not_applicable"
    # The language is part of what is asked: as Python the same text is native code.
    private = vault.private("people", principal="staff")
    asked = {**ASKED, "language": "python"}
    assert refused(private.run, tmp_path / "p.star", **asked).code == "program_not_approved"
    asked["language"] = "cobol"
    assert refused(private.run, tmp_path / "p.star", **asked).code == "choice_unknown"


def test_an_approval_outlives_its_process_and_is_an_entry_of_the_ledger(
    vault: sf.Vault, tmp_path: Path
) -> None:
    made = vault.programs.approve(tmp_path / "p.py", function="f", **BY)
    with sf.open(tmp_path / "clinic") as other:
        assert other.programs.list() == [made]
        assert other.verify()
        other.programs.revoke(made.digest, operator="bea")
    # At once in every process that has the vault open.
    assert is_refused(vault, "staff", tmp_path / "p.py") is not None


def test_what_is_revoked_before_a_worker_takes_it_up_is_not_run(
    vault: sf.Vault, room: OpenChamber, tmp_path: Path
) -> None:
    made = vault.programs.approve(tmp_path / "p.py", function="f", **BY)
    asked = {**ASKED, "output": [{"low": 0, "high": 110}]}
    job = vault.jobs.submit("run", "people", principal="staff", program=NATIVE, **asked)
    vault.programs.revoke(made.digest, **BY)
    vault.jobs.work()
    error = vault.jobs.get(job, principal="staff").error
    assert error is not None
    assert error["code"] == "program_not_approved"
    assert (left(vault, "staff"), room.outputs) == (4, [])


def test_what_is_revoked_during_its_rehearsal_is_not_charged(
    vault: sf.Vault, room: OpenChamber, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = vault.programs.approve(tmp_path / "p.py", function="f", **BY)
    rehearse = OpenChamber.rehearse

    def revoking(self: OpenChamber, *asked: Any) -> Any:
        if vault.programs.list():
            vault.programs.revoke(made.digest, **BY)
        return rehearse(self, *asked)

    monkeypatch.setattr(OpenChamber, "rehearse", revoking)
    private = vault.private("people", principal="staff")
    assert refused(private.run, tmp_path / "p.py", **ASKED).code == "program_not_approved"
    assert (left(vault, "staff"), room.outputs) == (4, [])


def test_rehearsals_are_counted_for_each_principal_by_every_process(
    vault: sf.Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_REHEARSALS", 4)
    now = [1000.0]
    monkeypatch.setattr(vault.program_registry, "_clock", lambda: now[0])
    private = vault.private("people", principal="staff")
    broken = tmp_path / "broken.star"
    broken.write_text("def f(rows):\n    return 1 // 0\n")
    path = tmp_path / "p.star"
    private.dry_run(path, **ASKED)
    private.run(path, **ASKED)  # which tries it before it is charged
    assert refused(private.dry_run, broken, **ASKED).code == "program_failed"
    private.run(path, **ASKED)  # from store: nothing is tried
    with sf.open(tmp_path / "clinic") as other:
        monkeypatch.setattr(other.program_registry, "_clock", lambda: now[0])
        there = other.private("people", principal="staff")
        there.dry_run(path, **ASKED)
        assert refused(there.dry_run, path, **ASKED).code == "rehearsals_too_many"
    before = left(vault, "staff")
    error = refused(private.run, path, **{**ASKED, "epsilon": "0.2"})
    assert error.code == "rehearsals_too_many"
    assert left(vault, "staff") == before
    for who in ("external", "owner"):
        vault.private("people", principal=who).dry_run(path, **ASKED)
    now[0] += limits.WINDOW_SECONDS
    private.dry_run(path, **ASKED)


def test_rehearsals_are_limited_by_the_time_that_they_may_take(
    vault: sf.Vault, tmp_path: Path
) -> None:
    private = vault.private("people", principal="staff")
    asked = {**ASKED, "seconds": 250}
    for _ in range(2):
        private.dry_run(tmp_path / "p.star", **asked)
    assert refused(private.dry_run, tmp_path / "p.star", **asked).code == "rehearsals_too_many"
    private.dry_run(tmp_path / "p.star", **{**asked, "seconds": 1})
    # One of the longest blocks can be tried.
    longest = limits.MOST_REHEARSED_SECONDS / 600
    assert longest == request._REHEARSED


def test_an_approval_of_what_is_no_program_is_refused(vault: sf.Vault, tmp_path: Path) -> None:
    assert refused(vault.programs.approve, tmp_path / "p.py", **BY).code == "parameter_missing"
    missing = refused(vault.programs.approve, tmp_path / "no.py", function="f", **BY)
    assert missing.code == "program_invalid"
    assert refused(vault.programs.revoke, "x" * 500, **BY).code == "program_unknown"
    assert repr(vault.programs)
    made = vault.programs.approve(tmp_path / "p.py", function="f", **BY)
    assert made.digest in repr(made)
    assert isinstance(vault.programs, Programs)


def test_a_missing_interpreter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.methods.programs.language.find_spec", lambda _name: None)
    error = refused(executable, Program(b"def f(rows): return 1", "f", "starlark"), BlockLimits())
    assert (error.code, "sfumato[strict]" in error.message) == ("package_missing", True)
