"""Fit a network: every measured set of columns adds one column, given the others of the set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.consistency import consistent_tables
from sfumato.methods.synth.model import Conditional, FittedModel

if TYPE_CHECKING:
    from sfumato.methods.synth.log import MeasurementLog


def fit_network(log: MeasurementLog) -> FittedModel:
    """The model in which each set of the log, in order, gives its new column from the others."""
    tables, total = consistent_tables(log)
    conditionals: dict[int, Conditional] = {}
    for places in [one.places for one in log.tables if len(one.places) > 1]:
        new = [one for one in places if one not in conditionals]
        for one in new[:-1]:
            conditionals[one] = Conditional.from_counts(one, (), tables[(one,)])
        for column in new[-1:]:
            parents = tuple(one for one in places if one != column)
            counts = np.moveaxis(tables[places], places.index(column), -1)
            conditionals[column] = Conditional.from_counts(column, parents, counts)
    for column in log.shape.columns:
        if column not in conditionals:
            conditionals[column] = Conditional.from_counts(column, (), tables[(column,)])
    return FittedModel(log.shape, tuple(conditionals.values()), total)
