"""Post-processing of estimated shares: clipping, scaling, projection to the simplex, and EM.

Estimated shares are unbiased, so some come out below 0 and they do not sum to 1. Adjusting them
costs no privacy, but adds bias: rare values look more common than they are, and sums of many rare
values far more. It helps if most values are empty and the noise is large, and harms if the noise is
small. So it is done only on request, with a simulation of its effect on the error: noise of the
known size around the adjusted shares, adjusted again and compared. Decision `local-privacy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.mechanism import Oracle
from sfumato.methods.local.reports import ReportSketch, check_same
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.arrays import FloatArray


# Runs of the simulation, and the most random numbers that it draws.
_RUNS = 200
_MOST_DRAWS = 1 << 22
# EM stops after so many rounds, or when no share moves by more than this.
_ROUNDS = 10_000
_STILL = 1e-9


@dataclass(frozen=True, repr=False)
class Adjusted(Shown):
    """Adjusted shares, and the effect of the adjustment on their error."""

    how: str
    table: pa.Table
    """Columns value, share (adjusted), unbiased (as estimated) and sd (of the unbiased share)."""

    @cached_property
    def effect(self) -> dict[str, float]:
        """The typical error of a share, and of the rarer half of all values together.

        Root mean squares of the unbiased and the adjusted shares, by simulation. It takes the
        adjusted shares for the truth, which favours them: a small gain may be none.
        """
        return _effect(self.table, _METHODS[self.how][0])

    def _card(self) -> Card:
        effect = self.effect
        change = effect["adjusted"] / effect["unbiased"] - 1 if effect["unbiased"] else 0.0
        comparison = "more" if change > 0 else "less"
        line = f"{self.how} shares, {abs(change):.0%} {comparison} error than unbiased ones"
        facts = {
            "what was done": _METHODS[self.how][1],
            "typical error of a share, unbiased": effect["unbiased"],
            "adjusted": effect["adjusted"],
            "typical error of half of the values together, unbiased": effect["unbiased_half"],
            "adjusted ": effect["adjusted_half"],
        }
        rows = self.table.slice(0, 10)
        shown = list(zip(*(rows.column(name).to_pylist() for name in _SHOWN), strict=True))
        more_rows = max(0, self.table.num_rows - 10)
        return Card(line, facts, CardTable(_SHOWN, shown, more_rows))


_SHOWN = ("value", "share", "unbiased", "sd")


def adjust(estimate: pa.Table, how: str) -> Adjusted:
    """Adjust estimated shares; see `sfumato.local.adjust`.

    *Guarantee*: unchanged: post-processing reads no report.
    *Error*: biased; `effect` of the result estimates the change.
    """
    arguments.one_of(how, "how", tuple(_METHODS))
    lacking = {"value", "share", "sd"} - set(getattr(estimate, "column_names", ()))
    if lacking:
        raise ParameterError(
            "parameter_type_wrong",
            "estimate must be what `estimate` of an oracle gives: a table of value, share and sd.",
            parameter="estimate",
        )
    shares = estimate["share"].to_numpy()
    if not (len(shares) and np.isfinite(shares).all()):
        raise ParameterError(
            "parameter_type_wrong",
            "estimate must hold shares, and none of them missing.",
            parameter="estimate",
        )
    facts = {
        "value": estimate["value"],
        "share": pa.array(_METHODS[how][0](shares[None, :])[0]),
        "unbiased": estimate["share"],
        "sd": estimate["sd"],
    }
    return Adjusted(how, pa.table(facts))


def _nonnegative(shares: FloatArray) -> FloatArray:
    return np.maximum(shares, 0.0)


def _scale_shares(shares: FloatArray) -> FloatArray:
    clipped = np.maximum(shares, 0.0)
    total = clipped.sum(axis=1, keepdims=True)
    return np.where(total > 0, clipped / np.where(total > 0, total, 1.0), 1 / shares.shape[1])


def _simplex(shares: FloatArray) -> FloatArray:
    """The nearest shares of at least 0 that sum to 1, for each row.

    *Reference*: Held, Wolfe & Crowder 1974; as Norm-Sub in Wang, Lopuhaa-Zwakenberg, Li, Skoric &
    Li 2020.
    """
    falling = -np.sort(-shares, axis=1)
    ranks = np.arange(1, shares.shape[1] + 1)
    levels = (np.cumsum(falling, axis=1) - 1) / ranks
    kept_count = (falling > levels).sum(axis=1)
    level = levels[np.arange(len(shares)), kept_count - 1]
    return np.asarray(np.maximum(shares - level[:, None], 0.0))


_METHODS: dict[str, tuple[Callable[[FloatArray], FloatArray], str]] = {
    "nonnegative": (_nonnegative, "shares below 0 became 0"),
    "scaled": (_scale_shares, "shares below 0 became 0, and all were divided by their sum"),
    "simplex": (_simplex, "the nearest shares that are at least 0 and sum to 1"),
}


def _effect(table: pa.Table, method: Callable[[FloatArray], FloatArray]) -> dict[str, float]:
    truth, spread = table["share"].to_numpy(), table["sd"].to_numpy()
    runs = max(2, min(_RUNS, _MOST_DRAWS // len(truth)))
    noisy = truth + spread * _normal(runs * len(truth)).reshape(runs, -1)
    off = {"unbiased": noisy - truth, "adjusted": method(noisy) - truth}
    # The rarer half of the values, where biases add up.
    half = np.argsort(truth, kind="stable")[: max(1, len(truth) // 2)]
    effects = {}
    for name, errors in off.items():
        effects[name] = float(np.sqrt(np.mean(errors**2)))
        effects[f"{name}_half"] = float(np.sqrt(np.mean(errors[:, half].sum(axis=1) ** 2)))
    return effects


def _normal(count: int) -> FloatArray:
    """Draw normal variables by Box and Muller, for a simulation only: never to protect data."""
    drawn = SystemEntropy().words(2 * count).astype(np.float64).reshape(2, count)
    uniform = (drawn + 1.0) * 2.0**-64
    return np.asarray(np.sqrt(-2 * np.log(uniform[0])) * np.cos(2 * np.pi * uniform[1]))


def most_likely(oracle: Oracle, sketch: ReportSketch) -> pa.Table:
    """Estimate shares by maximum likelihood (EM); see `sfumato.local.most_likely`.

    It suits oracles whose channel matrix fits in memory and whose sketch counts each report. On a
    grid it avoids the noise that inverting the channel adds.
    *Guarantee*: unchanged: post-processing reads the sketch alone.
    *Reference*: Dempster, Laird & Rubin 1977; Agrawal & Aggarwal 2001 for reports.
    """
    if not isinstance(oracle, Oracle):
        raise ParameterError(
            "parameter_type_wrong", "oracle must be one for shares of values.", parameter="oracle"
        )
    arguments.require(sketch, "sketch", ReportSketch, "a sketch of this oracle")
    check_same(oracle.made_by, sketch.made_by, "Sketches")
    channel = oracle.channel().probabilities()
    counts = sketch.tally.astype(np.float64)
    if counts.shape != (channel.shape[1],):
        raise ParameterError(
            "estimate_not_possible",
            f"The sketch of {oracle.name} does not count each report, so that their likelihood "
            "cannot be told. Use k-ary, warner or grid, or `adjust`.",
        )
    if sketch.n == 0:
        raise SourceError("estimate_not_possible", "There is no report to estimate from.")
    return pa.table({"value": oracle.choices.array(), "share": climb(channel, counts)})


def climb(channel: FloatArray, counts: FloatArray) -> FloatArray:
    """The shares of inputs that maximize the likelihood of these counts of outputs."""
    inputs = len(channel)
    shares = np.full(inputs, 1 / inputs)
    seen = counts / counts.sum()
    for _ in range(_ROUNDS):
        expected = shares @ channel
        ratio = np.divide(seen, expected, out=np.zeros_like(seen), where=expected > 0)
        moved = shares * (channel @ ratio)
        moved /= moved.sum()
        still = np.abs(moved - shares).max() < _STILL
        shares = moved
        if still:
            break
    return shares
