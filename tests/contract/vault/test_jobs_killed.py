"""Jobs whose process was killed: resumed or failed cleanly, and never paid for twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from tests.contract.vault.job_worker import STEPS
from tests.fixtures.ledgers import opened_ledger

import sfumato as sf
from sfumato.vault.creation import create
from sfumato.vault.jobs.job import JobState
from sfumato.vault.registration import Registration

WORKER = Path(__file__).with_name("job_worker.py")
SCHEMA = 'table = "t"\n[columns.x]\nkind = "integer"\nbounds = [0, 9]\nnullable = false\n'
QUICK = ("charged", "drawn", "stored")
_POSTGRES = [pytest.mark.postgres, pytest.mark.xdist_group("postgres"), pytest.mark.slow]
_CASES = [
    *(
        pytest.param("sqlite", step, marks=() if step in QUICK else pytest.mark.slow)
        for step in STEPS
    ),
    *(pytest.param("postgres", step, marks=_POSTGRES) for step in STEPS),
]


@pytest.fixture
def vault(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> Path:
    """A vault of epsilon 2 with one job of epsilon 1 that waits."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x\n" + "".join(f"{at % 10}\n" for at in range(1000)))
    Path("t.toml").write_text(SCHEMA)
    address = "ledger.sqlite"
    if database == "postgres":
        import psycopg

        url, schema = request.getfixturevalue("postgres_url"), f"jobs_{uuid4().hex}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        address = f"{url}&options=-csearch_path%3D{schema}"
    folder = Path("vault")
    create(folder, database=address)
    Registration(name="t", source="t.csv", schema=Path("t.toml"), epsilon=2).add_to(folder)
    with sf.open(folder) as opened:
        opened.jobs.submit("publish", "t", kind="histogram", columns="x", epsilon=1)
    return folder


def charges(vault: Path) -> int:
    """How many charges the ledger keeps, once it is found whole."""
    with closing(opened_ledger(vault)) as ledger:
        ledger.verify()
        return sum(json.loads(entry.body)["kind"] == "charge" for entry in ledger.entries())


@pytest.mark.parametrize(("database", "step"), _CASES)
def test_a_job_whose_server_was_killed_is_resumed_or_fails_cleanly(vault: Path, step: str) -> None:
    command = [sys.executable, str(WORKER), str(vault), step]
    killed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with sf.open(vault) as opened:
        [job] = opened.jobs.list()
        assert job.state is (JobState.DONE if step == "noted" else JobState.RUNNING)
        end = time.monotonic() + 30
        while not job.is_over and time.monotonic() < end:
            opened.jobs.work()  # once the lease of the dead one is over
            job = opened.jobs.get(job)
        if step == "drawn":
            assert job.error is not None
            assert (job.state, job.error["code"]) == (JobState.FAILED, "answer_lost")
            assert list(opened.releases.list()) == []
        else:
            assert job.state is JobState.DONE
            kept = opened.releases.get(job.id)
            assert kept.release.table.num_rows == 10
            assert kept.release.receipt is not None
        assert round(opened.private("t").remaining["epsilon"], 6) == 1
    assert charges(vault) == 1
