"""k^m-anonymity: any m known items of a basket match no released basket, or at least k.

Items are replaced by groups of a hierarchy, whole subtrees at a time: a *cut* assigns a group to
each item. A released basket is the set of its groups, so that several items of one group appear
once, without their number.

*Apriori* (`global_recoding`). The search checks sets of one group, then of two, up to m. While
fewer than k baskets have some set, the groups that appear in most such sets for the least loss are
replaced by their parents, and the sets are counted again. Sets that passed still pass then: let S
be a set of raised groups that occurs in a basket. The basket had a set of the former groups, no
larger than S, each within a group of S. At least k baskets had that set, and all of them now have
S.

*Local recoding* (`local_recoding`). Similar baskets, neighbours in the Gray order of the topmost
groups, form a part, and each part has its own cut. Any m known items match no basket or at least k
in each part, and therefore in the whole release.

An item may also be suppressed in all baskets of a part. An attacker who knows it learns nothing
from it.

The guarantee does not cover knowledge that an item is *not* in a basket.

*Reference*: Terrovitis, Mamoulis & Kalnis, Privacy-preserving anonymization of set-valued data,
2008, section 4; Local and global recoding methods for anonymizing set-valued data, 2011, section 5.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CriterionError, option
from sfumato.methods.itemsets.baskets import MOST_SETS, Baskets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.schema.hierarchy import Taxonomy


_RAISED_FRACTION, _MANY_RARE = 8, 1 << 16
"""Between two counts 1 in 8 of the rare sets is resolved, 1 in 2 if there are very many."""
LEFT_OUT = -1
"""The group of a suppressed item."""


@dataclass(frozen=True, eq=False)
class ItemTree:
    """The groups of items, numbered: first the single items from 0 on, last the root."""

    parents: IntArray
    """The parent of each group; the root is its own parent."""
    above: IntArray
    """(items, levels): the groups that contain each item, from the item to the root."""
    labels: tuple[str, ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy) -> ItemTree:
        """Make the tree of a taxonomy; a group with a single child is merged with the child."""
        leaves = len(taxonomy.leaves)
        above = np.zeros((leaves, taxonomy.height + 1), dtype=np.int64)
        above[:, 0] = np.arange(leaves)
        labels = [str(taxonomy.labels[0][code]) for code in taxonomy.codes[:, 0]]
        covered = np.ones(leaves, dtype=np.int64)
        for level in range(1, taxonomy.height + 1):
            codes, lower = taxonomy.codes[:, level], above[:, level - 1]
            unchanged = covered[lower] == taxonomy.sizes[level][codes]
            new, numbers = np.unique(codes[~unchanged], return_inverse=True)
            above[:, level] = lower
            above[~unchanged, level] = len(labels) + numbers
            labels += [str(taxonomy.labels[level][code]) for code in new]
            covered = np.concatenate([covered, taxonomy.sizes[level][new]])
        parents = np.arange(len(labels))
        for level in reversed(range(taxonomy.height)):
            raised = above[:, level] != above[:, level + 1]
            parents[above[raised, level]] = above[raised, level + 1]
        return cls(parents, above, tuple(labels))

    @property
    def groups(self) -> int:
        """The number of groups, single items included."""
        return len(self.parents)

    @property
    def losses(self) -> FloatArray:
        """The loss of each group: the other items of the group as a share of all other items."""
        leaves = len(self.above)
        leaf_counts = np.zeros(self.groups, dtype=np.int64)
        for level in range(self.above.shape[1]):
            ids, counts = np.unique(self.above[:, level], return_counts=True)
            leaf_counts[ids] = counts
        return (leaf_counts - 1) / max(leaves - 1, 1)


@dataclass(frozen=True, eq=False)
class Recoded:
    """A recoding: the group of each item in each part of the baskets, and the released baskets."""

    parts: IntArray
    """The part of each owner."""
    cuts: IntArray
    """(parts, items): the group that replaces each item."""
    baskets: Baskets
    """The released baskets of groups."""
    left_out: int
    """The number of suppressed pairs of a basket and an item."""
    loss: float
    """The mean loss over all pairs of a basket and an item."""


def violations(baskets: Baskets, k: int, m: int) -> tuple[IntArray, IntArray] | None:
    """Return the smallest itemsets of at most m items in fewer than k baskets, or None."""
    for size in range(1, m + 1):
        sets, counts = baskets.supports(size, most=MOST_SETS)
        rare = counts < k
        if rare.any():
            return sets[rare], counts[rare]
    return None


def global_recoding(
    baskets: Baskets, tree: ItemTree, k: int, m: int, *, suppress: int = 0
) -> Recoded:
    """Find one cut for all baskets by the apriori search, so that they are k^m-anonymous.

    At most `suppress` pairs of a basket and an item are suppressed.
    """
    cut = _apriori(baskets, tree, k, m, suppress)
    return _apply_cuts(baskets, tree, np.zeros(baskets.count, dtype=np.int64), cut[None])


def local_recoding(
    baskets: Baskets, tree: ItemTree, k: int, m: int, *, suppress: int = 0
) -> Recoded:
    """Find a cut for each part of similar baskets; a part is halved while this lowers the loss."""
    filled = np.flatnonzero(baskets.sizes)
    ordered = filled[np.argsort(_gray_ranks(baskets, tree)[filled], kind="stable")]
    parts = np.zeros(baskets.count, dtype=np.int64)
    cuts: list[IntArray] = []
    share = suppress / max(len(baskets.owners), 1)

    def best_cut(owners: IntArray) -> tuple[float, IntArray]:
        subset = baskets.of_owners(owners)
        cut = _apriori(subset, tree, k, m, int(share * len(subset.owners)))
        return float(_item_losses(tree, cut)[subset.items].sum()), cut

    queue = [(ordered, *best_cut(ordered))]
    while queue:
        owners, loss, cut = queue.pop()
        middle = len(owners) // 2
        # A part of fewer than k baskets can never be k^m-anonymous on its own.
        halves = [
            (half, *best_cut(half)) for half in (owners[:middle], owners[middle:]) if middle >= k
        ]
        if halves and sum(half[1] for half in halves) < loss:
            queue += reversed(halves)
            continue
        parts[owners] = len(cuts)
        cuts.append(cut)
    return _apply_cuts(baskets, tree, parts, np.stack(cuts))


def _apriori(baskets: Baskets, tree: ItemTree, k: int, m: int, suppress: int) -> IntArray:
    """A cut under which every set of at most m groups has support 0 or at least k."""
    cut = np.arange(len(tree.above))
    if len(baskets.owners) == 0:
        return cut
    if np.count_nonzero(baskets.sizes) < k:
        raise CriterionError(
            "criterion_not_reachable",
            f"Fewer than {k:,} baskets have an item, so that no {k:,} baskets can be alike. Lower "
            f"{option('k')}.",
        )
    search = _Search(tree, np.bincount(baskets.items, minlength=len(cut)), cut, suppress)
    current = baskets.recoded(cut, tree.groups)
    for size in range(1, m + 1):
        sets, counts = current.occurring_supports(size)
        while (counts < k).any():
            before = cut.copy()
            search.rise(sets[counts < k])
            group_of, released = np.arange(tree.groups), before != LEFT_OUT
            group_of[before[released]] = cut[released]
            current, sets, counts = _after_rise(current, group_of, sets, counts)
    return cut


def _after_rise(
    baskets: Baskets, group_of: IntArray, sets: IntArray, counts: IntArray
) -> tuple[Baskets, IntArray, IntArray]:
    """Update baskets and supports after some groups were raised, with few recounts.

    Only owners with a raised group or a target of raised groups are recounted, and of them only
    sets that contain a target: all other sets keep their owners.
    """
    # Only groups that occur in baskets matter.
    moved = group_of != np.arange(len(group_of))
    moved &= np.bincount(baskets.items, minlength=baskets.kinds) > 0
    targets = np.zeros(len(group_of), dtype=bool)
    targets[group_of[moved & (group_of != LEFT_OUT)]] = True
    affected = np.zeros(baskets.count, dtype=bool)
    affected[baskets.owners[(moved | targets)[baskets.items]]] = True
    is_affected = affected[baskets.owners]
    items = group_of[baskets.items[is_affected]]
    released = items != LEFT_OUT
    affected_baskets = Baskets.of(
        baskets.owners[is_affected][released], items[released], baskets.count, baskets.kinds
    )
    recounted, new_counts = affected_baskets.occurring_supports(sets.shape[1])
    has_target, untouched = targets[recounted].any(axis=1), ~(moved | targets)[sets].any(axis=1)
    sets = np.concatenate([sets[untouched], recounted[has_target]])
    counts = np.concatenate([counts[untouched], new_counts[has_target]])
    return affected_baskets.merged_with(baskets, ~is_affected), sets, counts


@dataclass
class _Search:
    """The state of the apriori search: a cut that it raises in place."""

    tree: ItemTree
    held: IntArray
    cut: IntArray
    suppressible: int
    """How many pairs of a basket and an item may still be suppressed."""

    def rise(self, rare: IntArray) -> None:
        """Raise or suppress groups of rare sets, first those that touch most of them per loss."""
        tree, cut = self.tree, self.cut
        # The number of rare sets that contain each group.
        in_rare = np.bincount(rare.ravel(), minlength=tree.groups)
        gains, costs = self._gains_and_costs(in_rare)
        released = cut != LEFT_OUT
        pair_counts = np.bincount(cut[released], self.held[released], minlength=tree.groups)
        suppression_costs = pair_counts * (1 - tree.losses)
        candidates = np.concatenate([np.flatnonzero(gains), np.flatnonzero(in_rare)])
        leaves_out = np.arange(len(candidates)) >= np.count_nonzero(gains)
        priorities = np.where(leaves_out, in_rare[candidates], gains[candidates])
        priorities = priorities / (
            np.where(leaves_out, suppression_costs[candidates], costs[candidates]) + 1e-9
        )
        # Many raises between two counts are faster; few raises lose less.
        few = len(rare) <= _MANY_RARE and rare.shape[1] > 1
        goal, touched = in_rare.sum() / (_RAISED_FRACTION if few else 2), 0.0
        changed = np.zeros(len(cut), dtype=bool)
        for position in np.argsort(-priorities, kind="stable"):
            group = candidates[position]
            if leaves_out[position]:
                below = cut == group
                if pair_counts[group] > self.suppressible or changed[below].any():
                    continue
                self.suppressible -= int(pair_counts[group])
                cut[below] = LEFT_OUT
            else:
                below = (tree.above == group).any(axis=1) & released
                if changed[below].any():
                    continue
                cut[below] = group
            changed |= below
            touched += in_rare[group] if leaves_out[position] else gains[group]
            if touched >= goal:
                return

    def _gains_and_costs(self, in_rare: IntArray) -> tuple[FloatArray, FloatArray]:
        """For each parent of a group in a rare set: the rare sets it touches, and its cost.

        Raising to the parent also raises all other groups below it.
        """
        tree, cut, losses = self.tree, self.cut, self.tree.losses
        is_parent = np.zeros(tree.groups, dtype=bool)
        rare = np.flatnonzero(in_rare)
        is_parent[tree.parents[rare[tree.parents[rare] != rare]]] = True
        gains, costs = np.zeros(tree.groups), np.zeros(tree.groups)
        groups, first = np.unique(cut, return_index=True)
        first = first[groups != LEFT_OUT]
        for level in range(1, tree.above.shape[1]):
            parent = tree.above[:, level]
            raised = is_parent[parent] & (parent != tree.above[:, level - 1]) & (cut != LEFT_OUT)
            raised_items = np.flatnonzero(raised & (losses[parent] > losses[cut]))
            added_loss = self.held[raised_items] * (
                losses[parent[raised_items]] - losses[cut[raised_items]]
            )
            costs += np.bincount(parent[raised_items], added_loss, minlength=tree.groups)
            raised_groups = first[raised[first]]
            gains += np.bincount(
                parent[raised_groups], in_rare[cut[raised_groups]], minlength=tree.groups
            )
        return gains, costs


def _gray_ranks(baskets: Baskets, tree: ItemTree) -> NDArray[np.uint64]:
    """Return the rank of each basket in the Gray order of the topmost groups, up to 64 of them."""
    levels = [np.unique(tree.above[:, level]) for level in range(tree.above.shape[1])]
    level = next(level for level, groups in enumerate(levels) if len(groups) <= 64)
    if len(levels[level]) == 1 and level > 0:
        level -= 1  # the root alone orders nothing: use the commonest groups below it
    groups = tree.above[baskets.items, level]
    common = np.argsort(-np.bincount(groups, minlength=tree.groups), kind="stable")[:64]
    bit_of = np.full(tree.groups, -1, dtype=np.int64)
    bit_of[common] = np.arange(63, 63 - len(common), -1)
    has_bit = bit_of[groups] >= 0
    marks = np.zeros(baskets.count, dtype=np.uint64)
    bits = np.uint64(1) << bit_of[groups[has_bit]].astype(np.uint64)
    np.bitwise_or.at(marks, baskets.owners[has_bit], bits)
    # The rank in Gray order is the prefix XOR of the bits.
    for shift in (1, 2, 4, 8, 16, 32):
        marks ^= marks >> np.uint64(shift)
    return marks


def _item_losses(tree: ItemTree, groups: IntArray) -> FloatArray:
    """Return the loss of each item: 1 if it is suppressed."""
    return np.where(groups == LEFT_OUT, 1.0, tree.losses[groups])


def _apply_cuts(baskets: Baskets, tree: ItemTree, parts: IntArray, cuts: IntArray) -> Recoded:
    groups = cuts[parts[baskets.owners], baskets.items]
    loss = float(_item_losses(tree, groups).mean()) if len(groups) else 0.0
    is_released = groups != LEFT_OUT
    released = Baskets.of(
        baskets.owners[is_released], groups[is_released], baskets.count, tree.groups
    )
    return Recoded(parts, cuts, released, int(np.count_nonzero(~is_released)), loss)
