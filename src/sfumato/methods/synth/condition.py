"""A model given fixed values of some columns: drawing '1,000 rows with sex = F'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synth.fit.cliques import junction_tree
from sfumato.methods.synth.fit.junction import CalibratedTree
from sfumato.methods.synth.model import Conditional, FittedModel

if TYPE_CHECKING:
    from collections.abc import Mapping


def conditioned(model: FittedModel, fixed: Mapping[int, int]) -> FittedModel:
    """The distribution of all columns given these codes; `total` is how many rows have them.

    What the model holds for impossible leaves the other columns even.
    """
    factors = []
    for one in model.conditionals:
        places = (*one.parents, one.column)
        at = tuple(slice(fixed[c], fixed[c] + 1) if c in fixed else slice(None) for c in places)
        order = np.argsort(places)
        factors.append((tuple(sorted(places)), one.table[at].transpose(order)))
    sliced = {
        column: np.ones(1 if column in fixed else size)
        for column, size in enumerate(model.shape.sizes)
    }
    tree = junction_tree(model.shape, [places for places, _ in factors])
    calibrated = CalibratedTree(tree, sliced)
    share = calibrated.multiply(factors)
    drawn = calibrated.model(model.total * share)
    conditionals = tuple(_whole(one, fixed, model) for one in drawn.conditionals)
    return FittedModel(model.shape, conditionals, model.total * share)


def _whole(one: Conditional, fixed: Mapping[int, int], model: FittedModel) -> Conditional:
    """A conditional over all codes again; a fixed column has one code and tells others nothing."""
    parents = tuple(parent for parent in one.parents if parent not in fixed)
    free = [column for column in (*one.parents, one.column) if column not in fixed]
    table = one.table.reshape(model.shape.of_set(free))
    if one.column in fixed:
        certain = np.zeros(model.shape.sizes[one.column])
        certain[fixed[one.column]] = 1
        return Conditional(one.column, (), certain)
    return Conditional(one.column, parents, table)
