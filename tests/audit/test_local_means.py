"""Local mechanisms beside frequency oracles: what a report realises, and that draws follow it.

The epsilon comes from the exact channel; that a client draws from that channel, and from no other,
is a test of fit for the inputs between which it is realised. False alarms: 1e-6 in all, seeded.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.methods.local.locations import PlanarLaplace
from sfumato.methods.local.longitudinal import Longitudinal
from sfumato.methods.local.means import Duchi, Hybrid, Piecewise
from sfumato.methods.local.range_trees import Haar
from sfumato.testing.audit import fit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.local.mechanism import Channel

EPSILONS = [("0.5", 0.5), ("1", 1.0), ("log(3)", float(np.log(3))), ("2", 2.0), ("4", 4.0)]
DRAWS = 40_000
ALPHA = 1e-8

Audited = tuple["Callable[[str], Any]", list[Any], "Callable[[Any], Any]"]


def signs_of(amounts: int) -> Audited:
    return (
        lambda epsilon: Duchi((0, 1), epsilon=epsilon, columns=amounts),
        [[0.0] * amounts, [1.0] * amounts],
        lambda rows: rows["bits"][:, 0],
    )


MADE: dict[str, Audited] = {
    # For each: the mechanism, its values for the first and the last row of the channel, and the
    # column of each report.
    "piecewise": (
        lambda epsilon: Piecewise((0, 1), epsilon=epsilon, cells=24),
        [0.0, 1.0],
        lambda rows: rows["report"],
    ),
    "hybrid": (
        lambda epsilon: Hybrid((0, 1), epsilon=epsilon, cells=24),
        [0.0, 1.0],
        lambda rows: rows["report"],
    ),
    **{f"duchi {d}": signs_of(d) for d in (1, 2, 3, 4)},
    "marginals": (
        lambda epsilon: sf.local.marginals(["a", "b", "c"], epsilon=epsilon, width=2),
        [[0, 0, 0], [1, 1, 1]],
        lambda rows: 2 * rows["set"].astype(int) + rows["odd"],
    ),
    "haar": (
        lambda epsilon: Haar(8, epsilon=epsilon),
        [0, 7],
        lambda rows: 2 * (rows["row"].astype(int) - 1) + rows["odd"],
    ),
    "longitudinal": (
        lambda epsilon: Longitudinal(4, epsilon=epsilon, forever=5),
        [0, 3],
        lambda rows: rows["report"],
    ),
}


@pytest.mark.parametrize(("epsilon", "claim"), EPSILONS)
@pytest.mark.parametrize("name", MADE)
def test_the_channel_realises_the_claim_and_no_more(name: str, epsilon: str, claim: float) -> None:
    oracle = MADE[name][0](epsilon)
    channel: Channel = oracle.channel()
    assert channel.ratio is not None
    assert oracle.epsilon.allows(channel.ratio)
    assert channel.ratio == oracle.ratio
    assert channel.epsilon == pytest.approx(claim, abs=1e-7)


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
@pytest.mark.parametrize("name", MADE)
def test_reports_are_drawn_from_the_channel(name: str, epsilon: str) -> None:
    make, ends, column = MADE[name]
    oracle = make(epsilon)
    chances = oracle.channel().probabilities()
    for row, value in ((0, ends[0]), (len(chances) - 1, ends[1])):
        people = np.array([value] * DRAWS)
        rows = oracle.randomize(people, SeededEntropy(row + 1)).rows
        own = chances[row]
        found = fit(column(rows).astype(np.int64), own.__getitem__)
        assert found.p_value > ALPHA, (name, row)
    # The test can fail: those draws do not fit the other end.
    wrong = fit(column(rows).astype(np.int64), lambda at: chances[0, at])
    assert wrong.p_value < ALPHA


def cell_chances(place: tuple[float, float], epsilon: float, reach: int) -> np.ndarray[Any, Any]:
    """The chance of every cell of side 1, from -reach to reach, by Gauss-Legendre integration.

    Cells are cut where the place lies, as the density has its peak there.
    """
    nodes, weights = np.polynomial.legendre.leggauss(24)
    axes = []
    for at in place:
        ends = np.unique([*range(-reach, reach + 1), at])
        middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
        axes.append((middle[:, None] + half[:, None] * nodes, half[:, None] * weights, ends[:-1]))
    (x, wx, x_start), (y, wy, y_start) = axes
    lengths = np.hypot(x[:, :, None, None] - place[0], y[None, None] - place[1])
    density = epsilon**2 / (2 * np.pi) * np.exp(-epsilon * lengths)
    pieces = np.einsum("ai,bj,aibj->ab", wx, wy, density)
    total = np.zeros((2 * reach, 2 * reach))
    at_x, at_y = (np.floor(one).astype(int) + reach for one in (x_start, y_start))
    np.add.at(total, np.ix_(at_x, at_y), pieces)
    return total


@pytest.mark.parametrize("epsilon", ["0.8", "1.5"])
@pytest.mark.parametrize("place", [(0.5, 0.5), (0.01, 0.99), (0.0, 0.3)])
def test_places_follow_their_law(epsilon: str, place: tuple[float, float]) -> None:
    reach = 40
    oracle = PlanarLaplace((-reach, -reach), step=1, cells=(2 * reach, 2 * reach), epsilon=epsilon)
    chances = cell_chances(place, float(epsilon), reach)
    assert chances.sum() == pytest.approx(1, abs=1e-5)
    rows = oracle.randomize(np.tile(place, (DRAWS, 1)), SeededEntropy(8)).rows
    codes = rows["east"].astype(np.int64) * 2 * reach + rows["north"]
    assert fit(codes, lambda at: chances.ravel()[at]).p_value > ALPHA
    # 15 % more noise would be seen.
    wide = cell_chances(place, float(epsilon) / 1.15, reach)
    assert fit(codes, lambda at: wide.ravel()[at]).p_value < ALPHA


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_places_on_both_sides_of_every_border_keep_epsilon_of_their_distance(
    epsilon: float,
) -> None:
    """The loss of every report at pairs across borders and corners of a cell, by integration."""
    reach = 6
    gaps = [0.002, 0.1, 0.7]
    borders = [(0.0, 0.4), (1.0, 0.4), (0.4, 0.0), (0.4, 1.0), (0.0, 0.0), (1.0, 1.0)]
    worst = 0.0
    for (x, y), gap in itertools.product(borders, gaps):
        for turn in np.linspace(0, np.pi, 5):
            off = np.array([np.cos(turn), np.sin(turn)]) * gap / 2
            first, second = (cell_chances((x + s * off[0], y + s * off[1]), epsilon, reach)
                             for s in (1, -1))  # fmt: skip
            loss = np.abs(np.log(first / second)).max()
            worst = max(worst, loss / (epsilon * gap))
            assert loss <= epsilon * gap + 2e-3 * min(1, epsilon * gap) + 2e-5
    assert worst > 0.95


def test_any_number_of_reports_about_one_value_stays_below_forever() -> None:
    for epsilon, forever in (("0.5", 1), ("1", "log(9)"), ("2", 4)):
        oracle = Longitudinal(3, epsilon=epsilon, forever=forever)
        for reports in (1, 2, 5):
            ratio = oracle.channel(reports).ratio
            assert ratio is not None
            assert oracle.forever.allows(ratio)
