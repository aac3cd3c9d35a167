"""Counters of a continual feed: the rows since its beginning, told again after every period.

The whole price is charged with the first period, and the noise of every step is drawn then and kept
by the ledger; a step adds to its own noise what is counted of the periods of its block, once, and
what it gave is an entry of the ledger before anybody sees it. Decision 0311.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.method import Plan
from sfumato.methods.publish.measurement import ColumnNorms, least_noise, noise_name
from sfumato.methods.publish.request import Request
from sfumato.methods.stream.factorization import DyadicTree
from sfumato.release.release import Provenance, Release

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.release import Guarantee

_BETA = 0.05


@dataclass(frozen=True, repr=False)
class Counters(Plan):
    """The noise of all steps of a continual feed, over dyadic blocks of its periods.

    *Guarantee*: the price in full, epsilon or rho, for all steps together, whatever becomes of the
    table meanwhile.
    *Sensitivity*: the levels of the tree times that of a histogram under the privacy unit. Whoever
    counts the blocks remembers by person and level how many rows counted, so that over all blocks
    of one level, whenever they were counted, no more than `max_rows` of a person do.
    *Error*: as many noises as the number of periods has digits 1; `sd` says how much that is.
    *Edges*: a row that comes after its period was told is in no smaller block but in those that
    end later.
    *Reference*: Dwork, Naor, Pitassi & Rothblum 2010; Chan, Shi & Song 2011.
    """

    feed: str
    dataset: str
    column: str
    days: tuple[tuple[date, date], ...]
    """The first and the last day of each step."""
    unit: Unit
    price: Price

    name = "feed continual"

    @cached_property
    def noise(self) -> Noise:
        """The noise of least variance that the price pays for."""
        request = Request(dataset=self.dataset, axes=(), unit=self.unit, price=self.price)
        levels = self._tree.levels
        return least_noise(request, ColumnNorms(l1=levels, l2_squared=levels, signed=False))

    @property
    def _tree(self) -> DyadicTree:
        return DyadicTree(len(self.days))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data set it counts."""
        return (self.dataset,)

    @property
    def event(self) -> Event:
        """What all steps cost together."""
        return self.noise.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked."""
        return {
            "feed": self.feed,
            "by": self.column,
            "days": [[one.isoformat() for one in step] for step in self.days],
            "cost": self.price.to_record(),
            "unit": self.unit.sentence(),
            "method": {"noise": noise_name(self.noise)},
        }

    def of(self, plan: Plan) -> Plan:
        """The plan itself: the part of the rows that it is about are those up to each step."""
        return plan

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """The noise of every step, which is never shown; no row is read for it."""
        del datasets
        steps = self.noise.steps(np.zeros(len(self.days), dtype=np.int64), entropy)
        return Release(
            {"noise": pa.table({"noise": pa.array(steps)})},
            self.guarantee,
            Provenance(self.name, self.parameters, fingerprint=""),
            {},
        )

    @property
    def guarantee(self) -> Guarantee:
        """What all steps together promise."""
        return self._promise(self.price, self.unit)

    def block(self, step: int) -> tuple[date, date]:
        """The first and the last day of the block that ends with a step."""
        return self.days[step - (step & -step)][0], self.days[step - 1][1]

    @staticmethod
    def level(step: int) -> int:
        """Which length the block has that ends with a step: a person counts once per length."""
        return (step & -step).bit_length() - 1

    def running(self, blocks: Mapping[int, int], step: int) -> tuple[int, dict[str, float]]:
        """The rows up to a step by the noisy blocks that make it up, and how far off that is.

        The bound of several noises is Chebyshev's, which holds whatever their distribution.
        """
        total, left, parts = 0, step, 0
        while left:
            total += blocks[left]
            left -= left & -left
            parts += 1
        sd = self.noise.stddev * math.sqrt(parts)
        bound = self.noise.bound(_BETA) if parts == 1 else sd / math.sqrt(_BETA)
        return total, {"sd": sd, "bound95": bound}
