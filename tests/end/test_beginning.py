"""`init`, killed at every step, is repeated with success; what holds a vault is never touched."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.cli.main import run
from sfumato.errors import SfumatoError
from sfumato.filesystem import MARK
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.sql.sqlite import open_sqlite
from sfumato.vault.config import load
from sfumato.vault.creation import create
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable

COMMAND = Path(sys.executable).with_name("sfumato")
KILLED_EVERYWHERE = """\
import os, signal, sys
from itertools import count
from pathlib import Path
from sfumato.vault.creation import create
from sfumato.vault.vault import open_vault
import sfumato.privacy.ledger.sql.sqlite
CHANGING = {"open", "os.mkdir", "os.rename", "os.link", "os.chmod", "os.rmdir", "os.remove",
            "fcntl.flock", "sqlite3.connect"}

def forked(work):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)

def die_at(wanted):
    seen = 0
    def watch(event, arguments):
        nonlocal seen
        if event in CHANGING and not (event == "open" and not arguments[2] & os.O_CREAT):
            seen += 1
            if seen == wanted:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    create(Path("clinic"))

def again():
    try:
        create(Path("clinic"))
    except Exception as error:
        assert error.code == "output_exists", error
    open_vault("clinic").close()

home = Path.cwd()
for step in count(1):
    folder = home / str(step)
    folder.mkdir()
    os.chdir(folder)
    outcomes = (forked(lambda: die_at(step)), forked(again))
    print(*outcomes, flush=True)
    if outcomes[0] == 0:
        break
"""
"""An `init` in a process of its own for each thing that it changes, killed there, and repeated."""
TRACED = "pwrite64,fdatasync,fsync,ftruncate,rename,link,mkdir,unlink,chmod"


def check_repeated(folder: Path) -> None:
    """The same command again makes a whole vault, or finds that it is one already."""
    again = subprocess.run(
        [COMMAND, "init", "clinic"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert again.returncode == 0 or "already holds a vault" in again.stderr, again.stderr
    open_vault(folder / "clinic").close()
    check_whole(folder)


def check_whole(folder: Path) -> None:
    """There is a vault and its head, and nothing else."""
    assert sorted(path.name for path in (folder / "clinic").iterdir()) == [
        *("answers", "ledger.sqlite", "vault.toml")
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["clinic", "clinic.head"]


def test_init_killed_at_any_step_is_repeated_with_success(tmp_path: Path) -> None:
    driver = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", KILLED_EVERYWHERE]
    done = subprocess.run(driver, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    *killed, last = done.stdout.splitlines()
    assert (set(killed), last) == ({"-9 0"}, "0 0"), done.stderr
    assert len(killed) >= 15
    for folder in tmp_path.iterdir():
        check_whole(folder)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_init_killed_at_system_calls_is_repeated_with_success(tmp_path: Path) -> None:
    killed = 0
    for call in TRACED.split(","):
        for when in range(1, 60, 5):
            folder = tmp_path / f"{call}-{when}"
            folder.mkdir()
            traced = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e"]
            inject = f"inject={call}:signal=KILL:when={when}"
            command: list[str | Path] = [
                *traced,
                inject,
                sys.executable,
                "-B",
                COMMAND,
                "init",
                "clinic",
            ]
            done = subprocess.run(command, cwd=folder, capture_output=True)
            if done.returncode == 0:
                break
            check_repeated(folder)
            killed += 1
    assert killed >= 9


def test_a_vault_without_its_configuration_is_not_made_anew(tmp_path: Path) -> None:
    config = create(tmp_path / "clinic")
    with_entries = open_sqlite(config.folder / config.database, head=config.head)
    with_entries.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    with_entries.close()
    kept = (config.folder / "vault.toml").read_bytes()
    (config.folder / "vault.toml").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(SfumatoError, match=r"put its vault\.toml back") as refusal:
        create(tmp_path / "clinic")
    assert refusal.value.code == "output_exists"
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    (config.folder / "vault.toml").write_bytes(kept)
    load(config.folder)


@pytest.mark.parametrize("content", [b"", b"notes of mine\n", bytes(10_000)])
def test_a_file_that_is_no_head_is_not_taken_for_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clinic.head").write_bytes(content)
    with pytest.raises(SfumatoError) as refusal:
        create(tmp_path / "clinic")
    assert refusal.value.code == "ledger_taken"
    assert [path.name for path in tmp_path.iterdir()] == ["clinic.head"]
    assert (tmp_path / "clinic.head").read_bytes() == content


@pytest.mark.parametrize(
    ("options", "status", "code"),
    [
        (("new", "--ledger", "../clinic/ledger.sqlite"), 2, "output_exists"),
        (
            ("a/new", "--head", "h", "--ledger", "../../clinic/ledger.sqlite"),
            2,
            "output_exists",
        ),
        (("new", "--ledger", "../kept/notes"), 2, "output_exists"),
        (("new", "--ledger", "../nowhere/ledger.sqlite"), 2, "output_unwritable"),
        (("new", "--ledger", "../kept/linked"), 1, "ledger_unusable"),
        (("new", "--head", "new/h"), 2, "head_unreadable"),
        (("new", "--head", "clinic.head"), 2, "ledger_taken"),
        (("a/new", "--head", "h", "--ledger", "postgresql://localhost:1/x"), 1, "ledger_unusable"),
        (("empty", "--ledger", "postgresql://localhost:1/x"), 1, "ledger_unusable"),
    ],
)
def test_a_refused_init_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    status: int,
    code: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    create(Path("clinic"))
    with open_vault(Path("clinic")) as vault:
        vault.ledger.open_account("a", budget=Budget.for_epsilon_delta(epsilon=1))
    Path("empty").mkdir()
    Path("kept").mkdir()
    Path("kept/notes").write_text("mine")
    Path("kept/linked").symlink_to("nothing")
    before = sorted(tmp_path.rglob("*"))
    assert run(["init", *options, "--json"]) == status
    said = capsys.readouterr()
    assert f'"code": "{code}"' in said.out
    assert "failures.log" not in said.err
    assert "onnection" in said.err or "postgresql" not in " ".join(options)
    assert sorted(tmp_path.rglob("*")) == before


def hold(path: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock of a file or a folder."""
    code = (
        "import fcntl, os, sys, time; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), "
        "fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.parametrize(
    ("held", "command", "code"),
    [
        ("clinic.head", ("ledger", "show"), "ledger_busy"),
        ("clinic.head", ("query", "SELECT COUNT(*) FROM visits"), "ledger_busy"),
        ("clinic", ("ledger", "limit", "--account", "a", "--epsilon", "1", "--operator", "o"),
         "file_in_use"),
    ],
    ids=["show", "query", "limit"],
)  # fmt: skip
def test_a_held_lock_is_waited_for_so_long_and_no_longer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    held: str,
    command: tuple[str, ...],
    code: str,
) -> None:
    create(tmp_path / "clinic")
    monkeypatch.setattr("sfumato.filesystem.PATIENCE_SECONDS", 0.2)
    holder = hold(tmp_path / held)
    try:
        started = time.monotonic()
        assert run([*command, "--vault", str(tmp_path / "clinic"), "--json"]) == 1
        assert time.monotonic() - started < 10
    finally:
        holder.kill()
        holder.communicate()
    said = capsys.readouterr()
    assert f'"code": "{code}"' in said.out
    if Path("/proc/locks").exists():
        assert f"process {holder.pid}" in said.err


def test_the_configuration_is_never_readable_by_others(tmp_path: Path) -> None:
    """Not for a moment: every name in the folder is watched while it is written."""
    before = os.umask(0)
    try:
        config = create(tmp_path / "clinic")
        exposed = watched(config.folder, lambda: rewrite(config.folder))
    finally:
        os.umask(before)
    assert exposed == set()
    assert stat.S_IMODE((config.folder / "vault.toml").stat().st_mode) == 0o600


def rewrite(folder: Path) -> None:
    from sfumato.vault.config import save

    text = (folder / "vault.toml").read_text()
    for _ in range(150):
        save(folder, text)


def watched(folder: Path, work: Callable[[], None]) -> set[str]:
    """What others could open in a folder at any time during some work, as `chmod 755` would let."""
    folder.chmod(0o755)
    exposed: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        mode = entry.stat(follow_symlinks=False).st_mode
                    except OSError:
                        continue
                    named = entry.name.startswith(("vault.toml", ".vault.toml"))
                    if named and mode & 0o077:
                        exposed.add(f"{entry.name} {mode:o}")

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        work()
    finally:
        over.set()
        watcher.join()
    assert not list(folder.glob(f"*{MARK}"))
    return exposed
