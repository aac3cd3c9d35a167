"""The private aggregate of a program's outputs on all blocks, and what it costs.

Outputs are clamped to a range, which is found in one of three ways, as in GUPT (Mohan et al. 2012):
*tight*, the declared range; *loose*, the private quartiles of the outputs within the declared
range; *helper*, a range that a function of the program computes from private quartiles of some
columns. The last two spend half of the price on the range. Decision `programs`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError, option
from sfumato.privacy.accounting.events import Composed, PureEvent
from sfumato.privacy.mechanisms.block_quantile import BlockQuantile
from sfumato.privacy.mechanisms.sample_aggregate import SampleAggregate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.arrays import FloatArray
    from sfumato.data.schema.unit import Neighbours
    from sfumato.methods.programs.outputs import ProgramOutput
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

LOWER, UPPER = Fraction(1, 4), Fraction(3, 4)
BETA = 0.05


@dataclass(frozen=True)
class Released:
    """One released number: its value, the range to which outputs were clamped, and its error."""

    value: float
    low: float
    high: float
    error: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """The parameters of the release; all of them are public."""

    outputs: tuple[ProgramOutput, ...]
    epsilon: Fraction
    blocks: int
    repeats: int
    relation: Neighbours
    how: str = "mean"
    ranges: str = "tight"

    def __post_init__(self) -> None:
        if self.how == "median" and self.ranges != "tight":
            raise ParameterError(
                "option_not_applicable",
                f"A median needs no narrower range than the declared one; {self.ranges!r} was "
                f"given. Leave {option('ranges')} out, or take the mean.",
            )
        for position in range(len(self.outputs)):
            self._declared(position)  # refuses what no mechanism could do

    @property
    def event(self) -> Event:
        """The cost of all outputs together, their ranges included."""
        spent: list[Event] = []
        if self.ranges == "helper":
            spent.append(PureEvent(epsilon=self.on_inputs))
        for position in range(len(self.outputs)):
            if self.ranges == "loose":
                spent += [quartile.event for quartile in self._quartiles(position)]
            # Which noise is drawn follows from the range that was found: its loss is what is known.
            known = self._declared(position).event
            spent.append(known if self.ranges == "tight" else PureEvent(epsilon=known.epsilon))
        return Composed(tuple(spent))

    @property
    def on_inputs(self) -> Fraction:
        """The epsilon of all quartiles of columns together: half of the price."""
        return self.epsilon / 2

    @property
    def error(self) -> dict[str, dict[str, Any]]:
        """The error of each output by the noise alone, from public facts."""
        return {
            output.name: self._error(self._declared(position))
            for position, output in enumerate(self.outputs)
        }

    def _error(self, mechanism: SampleAggregate | BlockQuantile) -> dict[str, Any]:
        if isinstance(mechanism, BlockQuantile):
            return {"blocks95": math.ceil(mechanism.bound(BETA))}
        return {"sd": mechanism.stddev, "bound95": mechanism.bound(BETA)}

    def release(
        self,
        values: FloatArray,
        entropy: Entropy,
        helped: Sequence[tuple[float, float]] | None = None,
    ) -> list[Released]:
        """One number for each output, from (blocks, outputs); failures are NaN, and so the middle.

        `helped` has the ranges that a helper gave; where it gave none the declared ones stay.
        """
        released = []
        for position, output in enumerate(self.outputs):
            column = values[:, position]
            low, high = output.ends
            # A constant of the declared range, whatever range is found by the others.
            filled = np.where(np.isfinite(column), column, float(low + high) / 2)
            mechanism = self._declared(position)
            if self.ranges == "loose":
                # Each quartile costs a quarter of the output's share, so both cost the half that
                # is set aside.
                quartiles = [
                    Fraction(float(quartile.sample(filled, entropy)))
                    for quartile in self._quartiles(position)
                ]
                mechanism = self._within(position, *quartiles)
            elif self.ranges == "helper" and helped is not None:
                mechanism = self._within(position, *map(Fraction, helped[position]))
            value = float(mechanism.sample(filled, entropy))
            ends = float(mechanism.low), float(mechanism.high)
            released.append(Released(value, *ends, self._error(mechanism)))
        return released

    def _share(self, position: int) -> Fraction:
        """The part of the price that one output has."""
        return (
            self.epsilon
            * self.outputs[position].share
            / sum(output.share for output in self.outputs)
        )

    def _build_mechanism(
        self, kind: Any, position: int, epsilon: Fraction, **overrides: Any
    ) -> Any:
        output = self.outputs[position]
        low, high = output.ends
        facts = {
            "epsilon": epsilon,
            "blocks": self.blocks,
            "low": low,
            "high": high,
            "granule": output.granule,
            "repeats": self.repeats,
            "relation": self.relation,
        }
        return kind(**(facts | overrides))

    def _declared(self, position: int) -> SampleAggregate | BlockQuantile:
        """The mechanism of one output within its declared range."""
        share = self._share(position)
        if self.how == "median":
            return self._build_mechanism(BlockQuantile, position, share)  # type: ignore[no-any-return]
        # The other half of the share paid for the range.
        noise = share if self.ranges == "tight" else share / 2
        return self._build_mechanism(SampleAggregate, position, noise)  # type: ignore[no-any-return]

    def _quartiles(self, position: int) -> list[BlockQuantile]:
        share = self._share(position) / 4
        return [
            self._build_mechanism(BlockQuantile, position, share, rank=rank)
            for rank in (LOWER, UPPER)
        ]

    def _within(self, position: int, low: Fraction, high: Fraction) -> SampleAggregate:
        """The mean within a range that was found, which is brought onto the grid, never empty."""
        output = self.outputs[position]
        step, (least, most) = output.granule, output.ends
        # Outwards onto the grid, at least one step wide, and never beyond the declared range: the
        # sensitivity of the mean follows from this width.
        first = min(max(step * (min(low, high) // step), least), most - step)
        last = max(min(step * -(-max(low, high) // step), most), first + step)
        share = self._share(position) / 2
        return self._build_mechanism(SampleAggregate, position, share, low=first, high=last)  # type: ignore[no-any-return]
