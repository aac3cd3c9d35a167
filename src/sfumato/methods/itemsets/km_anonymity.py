"""k^m-anonymity: whoever knows up to m items of a basket finds none, or at least k, that fit.

Items are replaced by groups of a hierarchy, whole subtrees at a time: a *cut* says for each item
which group stands for it. A basket is the set of its groups, so that of several items of one group
nothing is told, not even how many there are.

*Apriori* (`global_recoding`). Sets of one group are looked at first, then of two, up to m. While
there are sets that fewer than k baskets have, the groups whose rise touches most such sets for the
least loss are replaced by their parents, and the sets are counted anew. What held stays so: a set S
of the raised groups in some basket has there a set of the groups before, no larger, each within one
of S; at least k baskets have that one, and all of these have S.

*Local recoding* (`local_recoding`). Baskets that are alike, neighbours in the Gray order of the
topmost groups, are made a part, and each part has a cut of its own. Whatever m items somebody
knows, in each part none or at least k baskets fit, so in all of them too.

An item may also be left out of every basket of a part, which tells nothing of it: whoever knows it
is as far as without it.

Nothing is promised of items that somebody knows *not* to be in a basket.

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


_AT_ONCE, _MANY = 8, 1 << 16
"""Of the rare sets one in so many is dealt with between two counts; of very many every second."""
LEFT_OUT = -1
"""Stands for the group of an item that is left out of every basket."""


@dataclass(frozen=True, eq=False)
class ItemTree:
    """The groups of items: first the items themselves, from 0 on, the group of all last."""

    parents: IntArray
    """The next larger group of each; that of the last is itself."""
    above: IntArray
    """(items, levels): the groups that each item is in, the item first and the root last."""
    labels: tuple[str, ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy) -> ItemTree:
        """The tree that a taxonomy of items spans; a group of one group alone is that group."""
        leaves = len(taxonomy.leaves)
        above = np.zeros((leaves, taxonomy.height + 1), dtype=np.int64)
        above[:, 0] = np.arange(leaves)
        labels = [str(taxonomy.labels[0][code]) for code in taxonomy.codes[:, 0]]
        covered = np.ones(leaves, dtype=np.int64)
        for level in range(1, taxonomy.height + 1):
            codes, below = taxonomy.codes[:, level], above[:, level - 1]
            same = covered[below] == taxonomy.sizes[level][codes]
            new, numbers = np.unique(codes[~same], return_inverse=True)
            above[:, level] = below
            above[~same, level] = len(labels) + numbers
            labels += [str(taxonomy.labels[level][code]) for code in new]
            covered = np.concatenate([covered, taxonomy.sizes[level][new]])
        parents = np.arange(len(labels))
        for level in reversed(range(taxonomy.height)):
            raised = above[:, level] != above[:, level + 1]
            parents[above[raised, level]] = above[raised, level + 1]
        return cls(parents, above, tuple(labels))

    @property
    def groups(self) -> int:
        """How many there are, items among them."""
        return len(self.parents)

    @property
    def losses(self) -> FloatArray:
        """What each loses: the other items of a group as a share of all other items."""
        leaves = len(self.above)
        held = np.zeros(self.groups, dtype=np.int64)
        for level in range(self.above.shape[1]):
            ids, counts = np.unique(self.above[:, level], return_counts=True)
            held[ids] = counts
        return (held - 1) / max(leaves - 1, 1)


@dataclass(frozen=True, eq=False)
class Recoded:
    """What was decided: the group of each item in each part of the baskets."""

    parts: IntArray
    """The part that each owner is in."""
    cuts: IntArray
    """(parts, items): the group that stands for each item."""
    baskets: Baskets
    """The baskets of groups."""
    left_out: int
    """How many pairs of a basket and an item are not told of."""
    loss: float
    """The loss of an item on average over all pairs of a basket and an item."""


def violations(baskets: Baskets, k: int, m: int) -> tuple[IntArray, IntArray] | None:
    """The smallest sets of at most m items that fewer than k baskets have, or None."""
    for size in range(1, m + 1):
        sets, counts = baskets.supports(size, most=MOST_SETS)
        rare = counts < k
        if rare.any():
            return sets[rare], counts[rare]
    return None


def global_recoding(
    baskets: Baskets, tree: ItemTree, k: int, m: int, *, suppress: int = 0
) -> Recoded:
    """One cut for all baskets by the apriori search, under which they are k^m-anonymous.

    At most `suppress` pairs of a basket and an item are lost to groups that are left out.
    """
    cut = _apriori(baskets, tree, k, m, suppress)
    return _recoded(baskets, tree, np.zeros(baskets.count, dtype=np.int64), cut[None])


def local_recoding(
    baskets: Baskets, tree: ItemTree, k: int, m: int, *, suppress: int = 0
) -> Recoded:
    """A cut for each part of like baskets: a part is halved as long as less is lost by that."""
    filled = np.flatnonzero(baskets.sizes)
    ordered = filled[np.argsort(_gray_ranks(baskets, tree)[filled], kind="stable")]
    parts = np.zeros(baskets.count, dtype=np.int64)
    cuts: list[IntArray] = []
    share = suppress / max(len(baskets.owners), 1)

    def decided(owners: IntArray) -> tuple[float, IntArray]:
        part = baskets.part(owners)
        cut = _apriori(part, tree, k, m, int(share * len(part.owners)))
        return float(_lost(tree, cut)[part.items].sum()), cut

    waiting = [(ordered, *decided(ordered))]
    while waiting:
        owners, loss, cut = waiting.pop()
        middle = len(owners) // 2
        halves = [(one, *decided(one)) for one in (owners[:middle], owners[middle:]) if middle >= k]
        if halves and sum(half[1] for half in halves) < loss:
            waiting += reversed(halves)
            continue
        parts[owners] = len(cuts)
        cuts.append(cut)
    return _recoded(baskets, tree, parts, np.stack(cuts))


def _apriori(baskets: Baskets, tree: ItemTree, k: int, m: int, suppress: int) -> IntArray:
    """The group of each item under which every set of at most m has support 0 or k."""
    cut = np.arange(len(tree.above))
    if len(baskets.owners) == 0:
        return cut
    if np.count_nonzero(baskets.sizes) < k:
        raise CriterionError(
            "criterion_not_reachable",
            f"Fewer than {k:,} baskets have an item, so that none can be among {k:,}. Lower "
            f"{option('k')}.",
        )
    search = _Search(tree, np.bincount(baskets.items, minlength=len(cut)), cut, suppress)
    now = baskets.renamed(cut, tree.groups)
    for size in range(1, m + 1):
        sets, counts = now.used(size)
        while (counts < k).any():
            before = cut.copy()
            search.rise(sets[counts < k])
            became, inside = np.arange(tree.groups), before != LEFT_OUT
            became[before[inside]] = cut[inside]
            now, sets, counts = _risen(now, became, sets, counts)
    return cut


def _risen(
    baskets: Baskets, became: IntArray, sets: IntArray, counts: IntArray
) -> tuple[Baskets, IntArray, IntArray]:
    """Baskets with other groups, and their sets: only those of owners whom it concerns are counted.

    Whoever has a group that rose, or one that others rose to, is counted anew, and of these only
    sets with a group that others rose to: all other sets have the owners that they had.
    """
    moved = became != np.arange(len(became))
    moved &= np.bincount(baskets.items, minlength=baskets.kinds) > 0
    risen = np.zeros(len(became), dtype=bool)
    risen[became[moved & (became != LEFT_OUT)]] = True
    concerned = np.zeros(baskets.count, dtype=bool)
    concerned[baskets.owners[(moved | risen)[baskets.items]]] = True
    mine = concerned[baskets.owners]
    items = became[baskets.items[mine]]
    kept = items != LEFT_OUT
    part = Baskets.of(baskets.owners[mine][kept], items[kept], baskets.count, baskets.kinds)
    found, many = part.used(sets.shape[1])
    new, same = risen[found].any(axis=1), ~(moved | risen)[sets].any(axis=1)
    sets = np.concatenate([sets[same], found[new]])
    return part.beside(baskets, ~mine), sets, np.concatenate([counts[same], many[new]])


@dataclass
class _Search:
    """A cut on its way up, which it changes in place."""

    tree: ItemTree
    held: IntArray
    cut: IntArray
    left: int
    """How many pairs of a basket and an item may still be left out."""

    def rise(self, rare: IntArray) -> None:
        """Replace groups of rare sets by parents, or leave them out, where least is lost for it."""
        tree, cut = self.tree, self.cut
        in_rare = np.bincount(rare.ravel(), minlength=tree.groups)
        gains, costs = self._raised(in_rare)
        inside = cut != LEFT_OUT
        held = np.bincount(cut[inside], self.held[inside], minlength=tree.groups)
        lost = held * (1 - tree.losses)
        tops = np.concatenate([np.flatnonzero(gains), np.flatnonzero(in_rare)])
        leaves_out = np.arange(len(tops)) >= np.count_nonzero(gains)
        worth = np.where(leaves_out, in_rare[tops], gains[tops])
        worth = worth / (np.where(leaves_out, lost[tops], costs[tops]) + 1e-9)
        wanted, done = (
            in_rare.sum() / (2 if len(rare) > _MANY or rare.shape[1] == 1 else _AT_ONCE),
            0.0,
        )
        changed = np.zeros(len(cut), dtype=bool)
        for place in np.argsort(-worth, kind="stable"):
            group = tops[place]
            if leaves_out[place]:
                below = cut == group
                if held[group] > self.left or changed[below].any():
                    continue
                self.left -= int(held[group])
                cut[below] = LEFT_OUT
            else:
                below = (tree.above == group).any(axis=1) & inside
                if changed[below].any():
                    continue
                cut[below] = group
            changed |= below
            done += in_rare[group] if leaves_out[place] else gains[group]
            if done >= wanted:
                return

    def _raised(self, in_rare: IntArray) -> tuple[FloatArray, FloatArray]:
        """For each group that is a parent of a rare one: how many rare sets it touches, its cost.

        Whatever lies below it rises with it, direct child or not.
        """
        tree, cut, losses = self.tree, self.cut, self.tree.losses
        wanted = np.zeros(tree.groups, dtype=bool)
        rare = np.flatnonzero(in_rare)
        wanted[tree.parents[rare[tree.parents[rare] != rare]]] = True
        gains, costs = np.zeros(tree.groups), np.zeros(tree.groups)
        groups, first = np.unique(cut, return_index=True)
        first = first[groups != LEFT_OUT]
        for level in range(1, tree.above.shape[1]):
            over = tree.above[:, level]
            new = wanted[over] & (over != tree.above[:, level - 1]) & (cut != LEFT_OUT)
            higher = np.flatnonzero(new & (losses[over] > losses[cut]))
            rise = self.held[higher] * (losses[over[higher]] - losses[cut[higher]])
            costs += np.bincount(over[higher], rise, minlength=tree.groups)
            once = first[new[first]]
            gains += np.bincount(over[once], in_rare[cut[once]], minlength=tree.groups)
        return gains, costs


def _gray_ranks(baskets: Baskets, tree: ItemTree) -> NDArray[np.uint64]:
    """The place of each basket in the Gray order of the largest groups that fit 64 bits."""
    levels = [np.unique(tree.above[:, level]) for level in range(tree.above.shape[1])]
    level = next(place for place, groups in enumerate(levels) if len(groups) <= 64)
    if len(levels[level]) == 1 and level > 0:
        level -= 1  # the root tells nothing: then the commonest groups below it
    groups = tree.above[baskets.items, level]
    common = np.argsort(-np.bincount(groups, minlength=tree.groups), kind="stable")[:64]
    bit = np.full(tree.groups, -1, dtype=np.int64)
    bit[common] = np.arange(63, 63 - len(common), -1)
    known = bit[groups] >= 0
    marks = np.zeros(baskets.count, dtype=np.uint64)
    one = np.uint64(1) << bit[groups[known]].astype(np.uint64)
    np.bitwise_or.at(marks, baskets.owners[known], one)
    for shift in (1, 2, 4, 8, 16, 32):
        marks ^= marks >> np.uint64(shift)
    return marks


def _lost(tree: ItemTree, cuts: IntArray) -> FloatArray:
    """What each item loses: all, where it is left out."""
    return np.where(cuts == LEFT_OUT, 1.0, tree.losses[cuts])


def _recoded(baskets: Baskets, tree: ItemTree, parts: IntArray, cuts: IntArray) -> Recoded:
    groups = cuts[parts[baskets.owners], baskets.items]
    loss = float(_lost(tree, groups).mean()) if len(groups) else 0.0
    kept = groups != LEFT_OUT
    released = Baskets.of(baskets.owners[kept], groups[kept], baskets.count, tree.groups)
    return Recoded(parts, cuts, released, int(np.count_nonzero(~kept)), loss)
