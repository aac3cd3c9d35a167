"""What streams remember, in SQLite and in PostgreSQL: one figure a step, the same words again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.contract.ledger.conftest import fresh_schema

from sfumato.vault.feeds.steps import StepStore
from sfumato.vault.streaming import Reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POSTGRES = [pytest.mark.postgres, pytest.mark.xdist_group("postgres")]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=_POSTGRES)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], StepStore]]:
    database = "ledger.sqlite"
    if request.param == "postgres":
        database = fresh_schema(request.getfixturevalue("postgres_url"))
    config: Any = SimpleNamespace(folder=tmp_path, database=database)
    stores: list[StepStore] = []

    def one() -> StepStore:
        stores.append(StepStore(cast("Any", config)))
        return stores[-1]

    yield one
    for each in stores:
        each.close()


def test_a_step_stands_once_and_its_words_are_the_same_until_then(
    opened: Callable[[], StepStore],
) -> None:
    store, other = opened(), opened()
    assert store.reached("a") is None
    for step in (1, 2):
        drawn = [store.tape("a", step), other.tape("a", step), opened().tape("a", step)]
        words = [[one.words(count).tolist() for count in (4, 1024)] for one in drawn]
        assert words[0] == words[1] == words[2]
        assert words[0][0] != words[0][1][:4]
        made = Reached(step, {"sum": [2**70]}, {"values": [step], "sd": [1.5]})
        assert store.settle("a", made) == made
        late = Reached(step, {"sum": [0]}, {"values": [99], "sd": [1.5]})
        assert other.settle("a", late) == made, "the second gets what the first came to"
        assert opened().tape("a", step).words(4).tolist() != words[0][0], "they are forgotten"
    assert other.reached("a") == made
    gap = Reached(9, {}, {"values": [9], "sd": [1.0]})
    assert store.settle("a", gap) == made, "no step is left out"
    assert store.reached("b") is None
    first = Reached(1, {}, {"values": [7], "sd": [1.0]})
    assert store.settle("b", first) == first
