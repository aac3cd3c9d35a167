"""Stores of streams that are wrong on purpose: one forgets who was erased, one counts anew.

Each is put before a check that the real store passes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.stream.request import Participation
from sfumato.release.files_in_use import SECRET
from sfumato.release.fingerprint import new_secret, write_secret
from sfumato.vault.config import Config
from sfumato.vault.feeds.step_store import Reserved, StepStore
from sfumato.vault.streams import Arrival, Reached

if TYPE_CHECKING:
    from pathlib import Path

MOST = 2
PERSON = Participation(sf.Entity("who", max_rows=MOST))


class ForgetsTheErased(StepStore):
    """Gives whoever is erased from the table a new share when they come back."""

    def reserve(self, stream: str, step: int, arrival: Arrival, *given: Any, **said: Any) -> Any:
        """Forget everybody where the table holds nobody, and say that nobody was known."""
        if not arrival.people:
            with self._store.writing() as connection:
                connection.exec_driver_sql("DELETE FROM sfumato_stream_people")
                connection.exec_driver_sql("UPDATE sfumato_stream_reserved SET people = 0")
        return super().reserve(stream, step, arrival, *given, **said)


class CountsAnew(StepStore):
    """Counts the present table when a step is begun again, under the words of the first time."""

    def reserve(
        self, stream: str, step: int, arrival: Arrival, people: Participation, **said: Any
    ) -> Reserved | None:
        """What the table holds now."""
        found = super().reserve(stream, step, arrival, people, **said)
        used = np.zeros(len(arrival.people), dtype=np.int64)
        return found and replace(found, counts=arrival.bounded(used, people)[0])


def came(*people: str) -> Arrival:
    """Rows of these people, all in one cell."""
    rows = pa.array(people, type=pa.string())
    return Arrival.of_people(rows, np.zeros(len(people), dtype=np.int64), 1)


def largest_share(store: StepStore) -> int:
    """How often a person counts who is erased and comes back, three times."""
    total = 0
    for step, rows in enumerate([("ann",) * 5, ()] * 3, start=1):
        found = store.reserve("a", step, came(*rows), PERSON, consent={})
        assert found is not None
        total += int(found.counts[0])
        store.settle("a", Reached(step, {}, {"values": [0], "sd": [1.0]}))
    return total


def told_difference(store: StepStore) -> int:
    """What two runs of one step differ by, between which a row was added: noise cancels."""
    figures = []
    for rows in (("ann",), ("ann", "bob")):
        found = store.reserve("a", 1, came(*rows), PERSON, consent={})
        assert found is not None
        noise = int(store.tape("a", 1).words(1)[0])
        figures.append(int(found.counts[0]) + noise)
    return figures[1] - figures[0]


@pytest.mark.parametrize(
    ("store", "share", "difference"),
    [(StepStore, MOST, 0), (ForgetsTheErased, 3 * MOST, 0), (CountsAnew, None, 1)],
)
def test_wrong_stores_are_caught(
    tmp_path: Path, store: type[StepStore], share: int | None, difference: int
) -> None:
    found = []
    for name, check in (("share", largest_share), ("difference", told_difference)):
        folder = tmp_path / name
        folder.mkdir()
        write_secret(folder / SECRET, new_secret())
        config = Config(folder, "ledger.sqlite", folder / "head")
        opened = store(config)
        found.append(check(opened))
        opened.close()
    assert found[1] == difference
    assert share is None or found[0] == share
