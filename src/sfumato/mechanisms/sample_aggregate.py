"""Sample and aggregate: run any program on disjoint blocks of people, release a noisy mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mechanisms.base import to_floats, whole
from sfumato.mechanisms.laplace import Geometric
from sfumato.noise.selection import uniform_integers
from sfumato.privacy import numbers
from sfumato.privacy.units import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import LaplaceNoise


@dataclass(frozen=True, kw_only=True)
class SampleAggregate:
    """Give the mean of a program's outputs on `blocks` blocks, each kept within [low, high].

    *Guarantee*: epsilon-differential privacy whatever the program does, if it sees one block at a
    time and nothing else.
    *Sensitivity*: (high - low) / blocks, derived here: each person is in one block, which changes
    one output (two under replace-one). Blocks, low and high are public; no output moves them.
    *Error*: Standard deviation about sqrt(2) (high - low) / (blocks epsilon), beside what the
    program loses by seeing only a part of the people.
    *Edges*: A block without people is run like any other. A program that fails or gives anything
    but a finite number counts as the middle of the range; how many failed is not told.
    *Reference*: Nissim, Raskhodnikova & Smith 2007, section 4; Mohan et al. 2012 (GUPT), Algorithm
    1.
    """

    epsilon: Fraction
    blocks: int
    low: Fraction
    high: Fraction
    granule: Fraction
    relation: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        low, high = numbers.bounds(self.low, self.high)
        granule = numbers.positive(self.granule, "granule")
        if (low / granule).denominator != 1 or (high / granule).denominator != 1:
            raise ParameterError(
                "granule_uneven",
                f"The ends [{low}, {high}] must be whole multiples of the granule {granule}.",
            )
        blocks = whole(self.blocks, "blocks", least=2)
        if blocks * max(-low, high) / granule >= 2**62:
            raise ParameterError(
                "granule_too_fine",
                f"{blocks} outputs within [{low}, {high}] do not add up in 64 bits at a granule of "
                f"{granule}. Give a coarser one.",
            )
        numbers.store(
            self,
            epsilon=numbers.positive(self.epsilon, "epsilon"),
            blocks=blocks,
            low=low,
            high=high,
            granule=granule,
        )

    @property
    def on_sum(self) -> Geometric:
        """The noise on the sum of the outputs, in granules."""
        changed = 1 if self.relation is Neighbours.ADD_REMOVE else 2
        reach = changed * (self.high - self.low) / self.granule
        return Geometric(epsilon=self.epsilon, l1_sensitivity=reach)

    @property
    def event(self) -> LaplaceNoise:
        """What one mean costs."""
        return self.on_sum.event

    def assign(self, people: int, entropy: Entropy) -> NDArray[np.int64]:
        """Put each person into a uniformly random block, independently of all others."""
        return uniform_integers(self.blocks, people, entropy)

    def run(
        self,
        program: Callable[[NDArray[np.int64]], float],
        people: ArrayLike,
        entropy: Entropy,
    ) -> float:
        """Run a program on the row numbers of each block; `people` names the person of each row."""
        owners, owner = np.unique(np.asarray(people), return_inverse=True)
        block = self.assign(len(owners), entropy)[owner]
        order = np.argsort(block, kind="stable")
        parts = np.split(order, np.searchsorted(block[order], np.arange(1, self.blocks)))
        return float(self.sample([_output(program, rows) for rows in parts], entropy))

    def sample(self, values: ArrayLike, entropy: Entropy) -> NDArray[np.float64]:
        """Release the mean of the outputs of all blocks, which lie on the last axis."""
        outputs = np.asarray(values, dtype=np.float64)
        if outputs.ndim == 0 or outputs.shape[-1] != self.blocks:
            raise ParameterError(
                "outputs_wrong_shape",
                f"There must be {self.blocks} outputs, one a block, on the last axis, "
                f"but the shape is {outputs.shape}.",
            )
        total = self._steps(outputs).sum(axis=-1)
        return to_floats(self.on_sum.steps(total, entropy), self.granule / self.blocks)

    def _steps(self, outputs: NDArray[np.float64]) -> NDArray[np.int64]:
        """Round each output onto the grid by itself, so that sums are of whole numbers."""
        first, last = int(self.low / self.granule), int(self.high / self.granule)
        finite = np.where(np.isfinite(outputs), outputs, float(self.low + self.high) / 2)
        kept = np.clip(finite, float(self.low), float(self.high))
        rounded = np.floor(kept / float(self.granule) + 0.5).astype(np.int64)
        return np.clip(rounded, first, last)

    @property
    def variance(self) -> float:
        """The variance of the noise on the mean."""
        return self.on_sum.variance * float(self.granule / self.blocks) ** 2

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise on the mean."""
        return self.on_sum.stddev * float(self.granule / self.blocks)

    def bound(self, beta: float) -> float:
        """Give an error of the mean by noise that is passed with probability at most beta."""
        return self.on_sum.bound(beta) * float(self.granule / self.blocks)


def _output(program: Callable[[NDArray[np.int64]], Any], rows: NDArray[np.int64]) -> float:
    try:
        return float(program(rows))
    except Exception:  # noqa: BLE001 - whatever a program raises must not be seen
        return float("nan")
