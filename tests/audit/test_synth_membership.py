"""Whole synthesizers before the auditor: one run each, in which hundreds of canaries are at stake.

Every canary is in the table or not by the toss of a coin. From all that is released, rows and
model, a score says how likely each one was there; the highest are said to be in, the lowest to be
out, as many as was fixed before, and nothing is said of the others. If (epsilon, delta) is kept,
right guesses are no more than those of as many coins that are right with probability
e^epsilon / (1 + e^epsilon), but for the deltas. A twin that leaks must be caught.

*Reference*: Steinke, Nasr & Jagielski 2023, Theorem 5.2.
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.synth.methods import METHOD_WORDS
from sfumato.privacy.mechanisms.gaussian import Gaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CANARIES = 600
BOTH, INSIDE = (150, 150), (120, 0)
"""How many are said to be in and out: copies only tell who is in."""
ROWS = 4000
EPSILON, DELTA = 1, 1e-9

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column(
            "code", sf.Kind.INTEGER, domain=sf.Values(tuple(range(CANARIES + 1))), nullable=False
        ),
        sf.Column("paid", sf.Kind.INTEGER, domain=sf.Bounds(0, 99_999), nullable=False),
        sf.Column("sex", sf.Kind.TEXT, domain=sf.Values(("F", "M")), nullable=False),
        sf.Column("smoker", sf.Kind.BOOLEAN, nullable=False),
    ),
)


def people(coins: NDArray[np.bool_]) -> pa.Table:
    """Usual rows, and the canaries that are in: each has a code and an amount of its own."""
    draws = np.random.default_rng(1)
    canaries = np.flatnonzero(coins) + 1
    code = np.concatenate([np.zeros(ROWS, dtype=int), canaries])
    paid = np.where(draws.random(ROWS) < 0.6, 0, draws.integers(1, 50_000, ROWS))
    return pa.table(
        {
            "code": code,
            "paid": np.concatenate([paid, 50_000 + 80 * canaries]),
            "sex": np.where(code % 2, "F", "M"),
            "smoker": code % 3 == 0,
        }
    )


def scores(made: Any, copies: pa.Table) -> NDArray[np.float64]:
    """How likely each canary was there, by the noisy tables of the model and by the rows."""
    log, axes = made.model.log, made.model.encoding.axes
    names = [axis.column for axis in axes]
    place, found = names.index("code"), np.zeros(CANARIES)
    for table in log.tables:
        if place in table.columns:
            others = tuple(axis for axis, column in enumerate(table.columns) if column != place)
            counts = table.counts.sum(axis=others)  # of a canary's code, wherever else it is
            found += counts[1:] / (table.variance * table.counts.size / len(counts))
    amounts = 50_000 + 80 * np.arange(1, CANARIES + 1)
    # A row with the code and the amount of a canary is hardly drawn by chance.
    same = copies["code"].to_numpy() * 10**6 + copies["paid"].to_numpy()
    found += 1e9 * np.isin(np.arange(1, CANARIES + 1) * 10**6 + amounts, same)
    return found


def right_guesses(
    method: str,
    epsilon: float = EPSILON,
    leak: Callable[..., pa.Table] | None = None,
    guesses: tuple[int, int] = BOTH,
) -> int:
    """How many guesses about canaries are right after one synthesis."""
    coins = np.random.default_rng(2).integers(0, 2, CANARIES).astype(bool)
    table = people(coins)
    sets = [["code", "paid"], ["sex", "smoker"]] if method == "workload" else None
    with closing(sf.read(table, schema=SCHEMA)) as opened:
        private = sf.protect(opened, unit=sf.Rows(), epsilon=epsilon, delta=DELTA, max_epsilon=50)
        made = private.synthesize(epsilon=epsilon, delta=DELTA, method=method, workload=sets)
    rows = made.table if leak is None else leak(made.table, table)
    order = np.argsort(-scores(made, rows), kind="stable")
    inside, outside = order[: guesses[0]], order[CANARIES - guesses[1] :]
    return int(coins[inside].sum() + (~coins[outside]).sum())


def chance(right: int, epsilon: float, guesses: tuple[int, int] = BOTH) -> float:
    """How likely so many right guesses are at most, if (epsilon, delta) is kept."""
    each, made = math.exp(epsilon) / (1 + math.exp(epsilon)), sum(guesses)
    tail = sum(
        math.comb(made, count) * each**count * (1 - each) ** (made - count)
        for count in range(right, made + 1)
    )
    return tail + 2 * CANARIES * DELTA


@pytest.mark.slow
@pytest.mark.parametrize("method", METHOD_WORDS)
def test_one_run_of_a_synthesizer_tells_of_no_more_canaries_than_epsilon_allows(
    method: str,
) -> None:
    right = right_guesses(method)
    assert chance(right, EPSILON) > 1e-5, right


@pytest.mark.slow
def test_the_guesses_are_good_where_they_may_be() -> None:
    """At epsilon 40 much is known of canaries, more than epsilon 1 would allow."""
    right = right_guesses("independent", 40)
    assert chance(right, 1) < 1e-5, right
    assert chance(right, 40) > 1e-5, right


def some_rows_as_they_are(made: pa.Table, original: pa.Table) -> pa.Table:
    """A twin that fills up its table with rows of the original."""
    kept = np.random.default_rng(3).random(original.num_rows) < 0.4
    columns = {name: original[name].cast(made[name].type) for name in made.column_names}
    return pa.concat_tables([made, pa.table(columns).filter(pa.array(kept))])


@pytest.mark.slow
def test_a_twin_that_copies_rows_is_caught() -> None:
    assert chance(right_guesses("independent", guesses=INSIDE), EPSILON, INSIDE) > 1e-5
    right = right_guesses("independent", leak=some_rows_as_they_are, guesses=INSIDE)
    assert chance(right, EPSILON, INSIDE) < 1e-5, right


@pytest.mark.slow
def test_a_twin_whose_noise_is_a_thirtieth_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charged in full, but with the noise of a thousand times the price."""
    honest = Gaussian.steps

    def quiet(noise: Gaussian, values: Any, entropy: Any) -> Any:
        louder = Gaussian(rho=1000 * noise.rho, l2_sensitivity_squared=noise.l2_sensitivity_squared)
        return honest(louder, values, entropy)

    monkeypatch.setattr(Gaussian, "steps", quiet)
    right = right_guesses("independent")
    assert chance(right, EPSILON) < 1e-5, right
