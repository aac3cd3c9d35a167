"""Counting the blocks of several levels with independent noise, and the least-squares estimate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.publish.tree.budget import precisions
from sfumato.publish.tree.diagonal import Diagonal, Measured
from sfumato.publish.tree.estimate import assembled, projected, totals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.sensitivity import Sensitivity
    from sfumato.publish.purse import Purse
    from sfumato.publish.tree.estimate import Level
    from sfumato.publish.tree.ladder import Ladder


@dataclass(frozen=True, eq=False)
class Blocks(Diagonal):
    """Counts of the blocks of some levels, and the weighted least-squares estimate of all cells.

    *Guarantee*: the price in full, epsilon or rho, for all levels together: the shares of the
    levels sum to 1.
    *Sensitivity*: of a histogram, for each level: its blocks and the cells of missing values are a
    partition of all rows.
    *Error*: unbiased; the variance of any range is exact and in closed form, because counts of
    equal blocks are diagonal in the projections between levels. It is the least of any unbiased
    estimate from these counts that does not use which cells behind the last are empty.
    *Edges*: levels may be left out and have unequal shares; cells are always measured. Fan-outs
    that do not divide the cells go on behind the last cell, where counts are zero for everyone.
    *Reference*: Hay, Rastogi, Miklau & Suciu 2010, Theorem 3; Qardaji, Yang & Li 2013; Cormode,
    Procopiuc, Srivastava, Shen & Yu 2012, section 5; Li, Miklau, Hay, McGregor & Rastogi 2015.
    """

    @classmethod
    def shared(
        cls,
        ladders: tuple[Ladder, ...],
        shares: Mapping[Level, Fraction],
        purse: Purse,
        sensitivity: Sensitivity,
    ) -> Blocks:
        """Measure each level with the noise that its share of a purse buys."""
        assert sum(shares.values()) == 1
        noises = {level: purse.noise(sensitivity, share) for level, share in shares.items()}
        found = (Measured(level, shares[level], noise) for level, noise in noises.items())
        return cls(ladders, tuple(found))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The blocks that are counted, and what is spent on each level."""
        return {
            "fanouts": [list(ladder.fanouts) for ladder in self.ladders],
            "cells": [ladder.cells for ladder in self.ladders],
            "levels": [[list(one.level), str(one.share)] for one in self.measured],
            "noise": type(self.measured[0].noise).__name__.lower(),
        }

    @cached_property
    def precisions(self) -> NDArray[np.float64]:
        """1 / variance of the estimate in each projection."""
        information = np.zeros([ladder.depth + 1 for ladder in self.ladders])
        for one in self.measured:
            sizes = [ladder.widths[at] for ladder, at in zip(self.ladders, one.level, strict=True)]
            information[one.level] = np.prod(sizes, dtype=np.float64) / one.noise.variance
        return np.asarray(precisions(information[None])[0])

    @cached_property
    def rim_precision(self) -> float:
        """1 / variance of the estimate of a cell of missing values."""
        return sum(1 / one.noise.variance for one in self.measured)

    def estimate(
        self, cells: NDArray[np.int64], rim: NDArray[np.int64], entropy: Entropy
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Count all levels with noise; give the least-squares estimate of cells and rim."""
        counts = totals(cells, self.ladders, [one.level for one in self.measured])
        weighed: dict[Level, NDArray[np.float64]] = {}
        around = np.zeros(len(rim))
        for level, _, noise in self.measured:
            blocks = counts[level]
            noisy = noise.steps(np.concatenate([blocks.ravel(), rim]), entropy)
            inside, outside = np.split(noisy.astype(np.float64), [blocks.size])
            weighed[level] = inside.reshape(blocks.shape) / noise.variance
            around += outside / noise.variance
        found = projected(weighed, self.ladders)
        scaled = {level: array / self.precisions[level] for level, array in found.items()}
        return assembled(scaled, self.ladders), around / self.rim_precision
