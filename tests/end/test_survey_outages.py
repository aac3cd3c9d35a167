"""Two servers of one round, one of them killed in the middle: what was told accepted is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPException
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.end.survey_served import PROGRAM, serving

from sfumato.methods.local.collection import Collection
from sfumato.methods.local.rounds import new_round

if TYPE_CHECKING:
    from pathlib import Path

TOGETHER = 40
SERVE = ("survey", "serve", "--port", "0", "--json")


def post(url: str, round_id: str, item: dict[str, Any]) -> int | None:
    """How many a server says it took; none where it said nothing."""
    body = json.dumps({"reports": [item]}).encode()
    headers = {"Content-Type": "application/json"}
    try:
        with urlopen(Request(f"{url}/v1/reports/{round_id}", body, headers), timeout=30) as answer:
            return int(json.load(answer)["accepted"])
    except HTTPError as error:
        return int(json.load(error)["accepted"])
    except (OSError, HTTPException):
        return None


def test_two_servers_count_once_and_a_killed_one_loses_nothing_it_accepted(
    tmp_path: Path,
) -> None:
    file = tmp_path / "r.toml"
    made = new_round(file, "Really?", ("yes", "no"), epsilon=1)
    with ExitStack() as stack:
        collection = stack.enter_context(closing(Collection(file)))
        steady = stack.enter_context(serving(file, made))
        doomed = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *SERVE, str(file)],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(doomed.kill)
        assert doomed.stdout is not None
        other = json.loads(doomed.stdout.readline())["url"]
        pool = stack.enter_context(ThreadPoolExecutor(4))

        items = [{"ticket": one, "report": 1} for one in collection.tickets(TOGETHER)]
        both = [(url, one) for one in items for url in (steady.url, other)]
        taken = list(pool.map(lambda pair: post(pair[0], made.id, pair[1]), both))
        assert sum(filter(None, taken)) == TOGETHER
        told = steady.estimate()
        assert (told["n"], told["rejected_by_reason"]) == (TOGETHER, {"replayed": TOGETHER})

        more = [{"ticket": one, "report": 0} for one in collection.tickets(200)]
        some_arrived = Event()

        def deliver(item: dict[str, Any]) -> int | None:
            found = post(other, made.id, item)
            some_arrived.set()
            return found

        sending = [pool.submit(deliver, one) for one in more]
        some_arrived.wait()
        os.kill(doomed.pid, signal.SIGKILL)
        said = [one.result() for one in sending]
        accepted = sum(filter(None, said))
        assert 0 < accepted < len(more)
        kept = steady.held() - TOGETHER
        assert accepted <= kept <= accepted + 4  # at most what was on its way
        # Everybody sends again, by the other server: each is counted once in the end.
        list(pool.map(lambda one: post(steady.url, made.id, one), more))
        assert steady.held() == TOGETHER + len(more)
    with closing(Collection(file)) as after:
        assert after.close_round().n == TOGETHER + len(more)
    assert not list(tmp_path.glob("*-wal"))
