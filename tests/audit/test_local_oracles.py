"""Every local oracle before the auditor, and its draws against its exact channel.

Entropy is seeded, so every run draws the same. Each audit would accuse a sound mechanism with
probability at most 1e-6 over the seeds; there are no retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.methods import local
from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.audit import audit, fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

SMALL: dict[str, dict[str, Any]] = {
    "k-ary": {},
    "grid": {"columns": 2},
    "sue": {},
    "oue": {},
    "rappor": {"bits": 4, "cohorts": 2, "hashes": 1},
    "olh": {},
    "subset": {},
    "hadamard": {},
    "hadamard blocks": {"blocks": 2},
    "apple-cms": {"rows": 2, "columns": 4},
    "apple-hcms": {"rows": 2, "columns": 4},
}


def made(name: str, size: int = 4, epsilon: Any = 1) -> Any:
    return local.oracle(name.partition(" ")[0], size, epsilon=epsilon, **SMALL[name])


def numbered(oracle: Any, rows: NDArray[Any]) -> NDArray[np.int64]:
    """One number for each report, in the order of the channel's columns."""
    number = np.zeros(len(rows), dtype=np.int64)
    for code in oracle.layout.codes:
        number = number * code.limit + rows[code.name]
    if oracle.layout.width:
        bits = np.unpackbits(rows["bits"], axis=1, bitorder="little")[:, : oracle.layout.width]
        number = (number << oracle.layout.width) + bits @ (1 << np.arange(oracle.layout.width))
    return number


@pytest.mark.parametrize("name", SMALL)
def test_no_oracle_leaks_more_than_it_claims(name: str) -> None:
    oracle = made(name)

    def reports(value: int, count: int, entropy: Entropy) -> NDArray[np.int64]:
        return numbered(oracle, oracle.randomize(np.full(count, value), entropy).rows)

    pair = (0, 3)
    claim = Pure(epsilon=oracle.epsilon.upper)
    found = audit(reports, pair, claim, entropy=SeededEntropy(19), draws=60_000)
    assert not found.violated, found.sentence()
    # A report of RAPPOR alone has less than its permanent bits, of which any number is made.
    tight = oracle.one_report if name == "rappor" else float(oracle.epsilon)
    assert found.lower_bound > 0.6 * tight, found.sentence()


@pytest.mark.parametrize("epsilon", ["0.5", "log(3)", "4"])
@pytest.mark.parametrize("name", SMALL)
def test_reports_follow_the_exact_channel(name: str, epsilon: str) -> None:
    """Chi-square over all outputs; a sound draw is refused with probability 1e-7."""
    oracle = made(name, size=5 if name != "grid" else 4, epsilon=epsilon)
    channel = oracle.one_report_channel() if name == "rappor" else oracle.channel()
    outputs = channel.weights.shape[1]
    if name == "subset":
        patterns = np.arange(1 << oracle.size)
        places = patterns[np.bitwise_count(patterns) == oracle.chosen]
    else:
        places = np.arange(outputs)
    chances = channel.probabilities()
    for value in (0, oracle.size - 1):
        rows = oracle.randomize(np.full(200_000, value), SeededEntropy(value)).rows
        if name == "subset":
            member = (places[None, :] >> value & 1).astype(bool)[0]
            hit, miss = oracle.weights
            mass = np.where(member, hit, miss) / (channel.total)
        else:
            mass = chances[value]
        found = numbered(oracle, rows)
        law = np.zeros(int(places.max()) + 1)
        law[places] = mass
        fitted = fit(found, law.__getitem__)
        assert fitted.p_value > 1e-7, (value, fitted)
        assert np.isin(found, places).all()


def test_permanent_bits_of_rappor_follow_their_channel() -> None:
    oracle = made("rappor", epsilon=2)
    mass = oracle.channel().probabilities()[1]
    rows = oracle.permanent(np.full(200_000, 1), SeededEntropy(3)).rows
    assert fit(numbered(oracle, rows), lambda at: mass[at]).p_value > 1e-7
    again = [oracle.again(oracle.permanent([1], SeededEntropy(4))) for _ in range(2)]
    assert all((one.rows["cohort"] == again[0].rows["cohort"]).all() for one in again)


def test_the_auditor_of_draws_sees_a_channel_that_is_a_little_off() -> None:
    oracle, other = made("oue", epsilon=1), made("oue", epsilon="1.03")
    mass = other.channel().probabilities()[0]
    rows = oracle.randomize(np.zeros(200_000, dtype=np.int64), SeededEntropy(0)).rows
    assert fit(numbered(oracle, rows), lambda at: mass[at]).p_value < 1e-7
