"""What an operator is told: an old ledger, a full disk, and why the ledger failed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.cli.main import run
from sfumato.vault import accounts
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = Path(sys.executable).with_name("sfumato")
COUNT = "SELECT COUNT(*) AS n FROM visits"
SCHEMA = """\
table = "visits"
unit = "row"
[columns.age]
kind = "integer"
bounds = [0, 110]
nullable = false
"""
ASKED = (
    ("ledger", "show"),
    ("ledger", "export"),
    ("ledger", "verify"),
    ("ledger", "limit", "--account", "visits", "--epsilon", "2", "--operator", "ann"),
    ("query", COUNT, "--epsilon", "0.1"),
    ("publish", "histogram", "visits", "--columns", "age", "--epsilon", "0.1", "-o", "out.csv"),
)

CHARGING = """\
import os, sys
from fractions import Fraction
from pathlib import Path
from sfumato.errors import LedgerError
from sfumato.privacy.ledger.sql.sqlite import open_sqlite
from sfumato.privacy.accounting.events import PureEvent
from sfumato.privacy.accounting.filters import Budget
from sfumato.vault.creation import create
disk, head = map(Path, sys.argv[1:])
database = disk / "clinic" / "ledger.sqlite"
event = PureEvent(epsilon=Fraction(1, 1000))

def charge(number):
    ledger = open_sqlite(database, head=head)
    ledger.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    receipt = ledger.reserve(
        event, accounts=["visits"], principal="ann", request_id=f"r{number}", body_digest="0" * 64
    )
    ledger.store(receipt, bytes(20_000))
    ledger.close()

def free():
    room = os.statvfs(disk)
    return room.f_bavail * room.f_frsize

def fill(left):
    with (disk / "fill").open("wb", buffering=0) as file:
        while (extra := free() - left) > 0:
            try:
                file.write(bytes(max(1024, extra // 2)))
            except OSError:
                break
            os.fsync(file)

create(disk / "clinic", head=head)
charge(0)
for left in (1600, *range(0, 96, 4)):
    fill(left * 1024)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            charge(left)
            os._exit(0)
        except LedgerError as error:
            os.write(writing, error.code.encode())
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(writing)
    print(left, os.read(reading, 100).decode() or code, flush=True)
    (disk / "fill").unlink()
"""
"""A process for each level of a disk that fills up, in which it opens the ledger and charges."""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("age\n" + "\n".join(map(str, range(100))) + "\n")
    (tmp_path / "visits.toml").write_text(SCHEMA)
    create(Path("clinic"))
    schema = Path("visits.toml")
    Registration(name="visits", source="visits.csv", schema=schema, epsilon=1).add_to(
        Path("clinic")
    )
    return tmp_path / "clinic"


def spend(clinic: Path, epsilon: str) -> None:
    assert run(["query", COUNT, "--epsilon", epsilon, "--vault", str(clinic), "--json"]) == 0


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: "-".join(asked[:2]).split(" ")[0])
def test_L6_an_old_ledger_says_so_whatever_is_asked(
    clinic: Path, asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    old = (clinic / "ledger.sqlite").read_bytes()
    spend(clinic, "0.5")
    (clinic / "ledger.sqlite").write_bytes(old)
    capsys.readouterr()
    assert run([*asked, "--vault", str(clinic), "--json"]) == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["code"] == "ledger_rolled_back"
    assert "older than its outside head" in said.err
    accounts.acknowledge(clinic, operator="ann")
    assert run(["ledger", "show", "--vault", str(clinic)]) == 0


def test_the_cause_of_a_failed_ledger_can_be_found(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An analyst is told that it failed; its operator why."""
    content = bytearray((clinic / "ledger.sqlite").read_bytes())
    content[:16] = b"no SQLite format"
    (clinic / "ledger.sqlite").write_bytes(content)
    for verbose in ([], ["--verbose"]):
        assert run([*verbose, "ledger", "show", "--vault", str(clinic)]) == 1
        said = capsys.readouterr().err
        assert "failures.log" in said
        assert ("file is not a database [SQLITE_NOTADB]" in said) == bool(verbose)
    log = clinic / "failures.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("ledger: DatabaseError: file is not a database [SQLITE_NOTADB]")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_failing_disk_is_named_by_the_systems_error(clinic: Path) -> None:
    traced = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync,pwrite64"]
    inject = ["-e", "inject=fdatasync:error=EIO:when=1+"]
    asked = ["--verbose", "query", COUNT, "--epsilon", "0.1", "--vault", str(clinic)]
    done = subprocess.run([*traced, *inject, COMMAND, *asked], capture_output=True, text=True)
    assert done.returncode == 1
    assert "cause: " in done.stderr
    assert "INSERT" not in done.stderr
    words = (clinic / "failures.log").read_text()
    assert "ledger: " in words
    assert "SQLITE_IOERR" in words or "Input/output error" in words


def test_no_password_in_any_word_about_a_ledger_that_is_not_there(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = clinic / "vault.toml"
    for address in (
        "postgresql://me:canary@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=me&password=canary",
        "postgresql://me:can@ary@127.0.0.1:1/db?password=canary",
    ):
        text = config.read_text().replace("ledger.sqlite", address)
        config.write_text(text)
        assert run(["--verbose", "ledger", "show", "--vault", str(clinic), "--json"]) == 1
        config.write_text(text.replace(address, "ledger.sqlite"))
        said = capsys.readouterr()
        words = said.out + said.err + (clinic / "failures.log").read_text()
        assert "canary" not in words
        assert "ary@" not in words
        assert "cause: OperationalError" in said.err


def test_a_full_disk_fails_closed_before_anything_is_touched(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in clinic.rglob("*") if path.is_file()}
    real = os.statvfs(clinic)
    full = os.statvfs_result((*real[:4], 3, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    for asked in ASKED:
        assert run([*asked, "--vault", str(clinic), "--json"]) == 1
        code = json.loads(capsys.readouterr().out)["error"]["code"]
        assert code in {"ledger_disk_full", "disk_full"}
    assert {path: path.read_bytes() for path in clinic.rglob("*") if path.is_file()} == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB with blocks smaller than a page of memory, where SQLite gets signals."""
    image, point = tmp_path / "image", tmp_path / "disk"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(3 << 20)
    made: list[str | Path] = ["mkfs.ext4", "-q", "-F", "-m", "0", "-b", "1024", image]
    mounted: list[str | Path] = ["mount", "-o", "loop", image, point]
    for command in (made, mounted):
        if shutil.which(str(command[0])) is None or subprocess.run(command, check=False).returncode:
            pytest.skip("no disk can be made and mounted here")
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")
def test_no_process_is_killed_by_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    """Without the check, some of these levels end a process with SIGBUS."""
    driver: list[str | Path] = [
        sys.executable,
        "-c",
        CHARGING,
        small_disk / "ledger.sqlite",
        tmp_path / "head",
    ]
    done = subprocess.run(driver, capture_output=True, text=True, timeout=120)
    outcomes = [line.split() for line in done.stdout.splitlines()]
    assert len(outcomes) == 25, done.stderr
    assert {outcome for _, outcome in outcomes} == {"0", "ledger_disk_full"}
    assert outcomes[0] == ["1600", "0"]


def test_a_limit_interrupted_half_way_is_settled_by_the_same_command(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed after the entry and before the file has its name, it says what is to be done."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from sfumato.privacy.ledger.base import Ledger\n"
        "from sfumato.vault import accounts; done = Ledger.amend\n"
        "def die(*given, **more):\n"
        "    done(*given, **more)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Ledger.amend = die\n"
        "accounts.set_limit(Path(sys.argv[1]), 'visits', epsilon='2', delta='0', operator='ann')\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, clinic], capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    asked = ["query", COUNT, "--epsilon", "0.1", "--vault", str(clinic), "--json"]
    assert run(asked) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["code"] == "budget_changed"
    assert "sfumato ledger limit" in said.err
    limit = ["ledger", "limit", "--account", "visits", "--epsilon", "2", "--operator", "ann"]
    settled: list[str | Path] = [COMMAND, *limit, "--vault", str(clinic)]
    subprocess.run(settled, check=True, capture_output=True)
    assert run(asked) == 0
    assert sorted(path.name for path in clinic.iterdir()) == [
        *("answers", "fingerprint.key", "ledger.sqlite", "vault.toml")
    ]


def test_a_question_under_a_deadline_ends_in_order_too(clinic: Path, tmp_path: Path) -> None:
    """The database works in another thread then; it is stopped and its spill is gone."""
    rows = tmp_path / "visits.csv"
    with rows.open("a") as file:
        file.write("\n".join(str(place % 111) for place in range(3_000_000)) + "\n")
    config = clinic / "vault.toml"
    text = config.read_text().replace("# deadline_seconds = 600", "deadline_seconds = 60")
    config.write_text(text)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    asked: list[str | Path] = [COMMAND, "query", COUNT, "--epsilon", "0.1", "--vault", clinic]
    process = subprocess.Popen(
        asked,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(temporary.glob("sfumato-*")):  # not the file by which Python tries the folder
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert said.startswith("sfumato: Interrupted; nothing was written. 'sfumato ledger show' tells")
    assert list(temporary.iterdir()) == []
