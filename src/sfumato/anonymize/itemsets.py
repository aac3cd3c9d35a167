"""Anonymizing a table of items: baskets of groups in which m known items find k, or none.

Decision `itemsets`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato import arguments
from sfumato.anonymize.taxonomy import grow
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Items
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.exact_numbers import probability
from sfumato.methods.itemsets.baskets import Baskets
from sfumato.methods.itemsets.km_anonymity import ItemTree, global_recoding, local_recoding
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.privacy.noise.selection import permutation
from sfumato.release.release import Guarantee, Provenance, Release, today

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.exact_numbers import Number
    from sfumato.methods.itemsets.km_anonymity import Recoded
    from sfumato.release.open_table import Table

_SEARCHES = {"apriori": global_recoding, "local": local_recoding}
MOST_KNOWN = 8
"""The largest m: sets of more items are too many to count."""


def anonymize_items(
    table: Table,
    *,
    k: int | None,
    m: int,
    algorithm: str = "apriori",
    suppress: Number = 0,
    by: str | None = None,
    ignored: Mapping[str, object] | None = None,
) -> Release:
    """Anonymize baskets of items: m known items of a basket fit at least k baskets, or none.

    Items are replaced by groups of the hierarchy of their column, and each basket gets a new
    number; no other column is released. `suppress` is the largest share of items that may be left
    out. `ignored` has options of other algorithms, which must be unset.
    """
    form = table.schema.form
    if not isinstance(form, Items):
        raise ParameterError(
            "form_invalid",
            f"{option('m')} needs a table of items, and the schema of "
            f"{quoted(table.schema.table)} declares none. Add "
            'form = { items = { of = "basket", item = "product" } }.',
        )
    if k is None:
        raise ParameterError(
            "parameter_missing",
            f"{option('m')} needs {option('k')}: how many baskets must fit. Add {option('k', 5)}.",
            parameter="k",
        )
    _check(algorithm, ignored or {})
    people, known = arguments.whole(k, "k"), arguments.whole(m, "m")
    for name, value, most in (("k", people, 1 << 30), ("m", known, MOST_KNOWN)):
        if not 1 <= value <= most:
            raise ParameterError(
                "parameter_out_of_range",
                f"{name} must be from 1 to {most:,}, not {value:,}.",
                parameter=name,
                given=value,
            )
    share = probability(suppress, "suppress")
    baskets, tree = _read(table, form)
    allowed = int(Fraction(share) * len(baskets.owners))
    recoded = _SEARCHES[algorithm](baskets, tree, people, known, suppress=allowed)
    return _release(table, form, recoded, tree, k=people, m=known, algorithm=algorithm, by=by)


def _check(algorithm: str, ignored: Mapping[str, object]) -> None:
    if algorithm not in _SEARCHES:
        raise ParameterError(
            "choice_unknown",
            f"Algorithm {quoted(algorithm)} is not known for items; take apriori or local.",
            parameter="algorithm",
        )
    for name, value in ignored.items():
        if value not in (None, False, (), [], ""):
            raise ParameterError(
                "option_not_applicable",
                f"A release of items does not take {option(name)}; it takes {option('k')}, "
                f"{option('m')}, {option('algorithm')} and {option('suppress')}. Leave it out.",
            )


def _read(table: Table, form: Items) -> tuple[Baskets, ItemTree]:
    """Read every pair of a basket and an item once, and the groups of the items."""
    columns = [exp.column(name, quoted=True) for name in (form.owner, form.item)]
    present = [column.copy().is_(exp.Null()).not_() for column in columns]
    query = exp.select(*columns).distinct().from_(table.engine.table.copy()).where(*present)
    rows = table.engine.run(query)
    owners, items = (column.combine_chunks().dictionary_encode() for column in rows.columns)
    values = items.dictionary.to_pylist()
    column = table.schema.column(form.item)
    if column.hierarchy is None:
        raise SchemaError(
            "hierarchy_missing",
            f"Items in {quoted(form.item)} have no groups to stand for them. Add to the column "
            'hierarchy = { file = "items.csv" }, one row per item, from the item up to *.',
        )
    taxonomy = grow(column, values)
    leaf_numbers = taxonomy.locate(values).astype(np.int64)
    codes = leaf_numbers[items.indices.to_numpy()] if values else np.zeros(0, dtype=np.int64)
    numbers = owners.indices.to_numpy().astype(np.int64)
    leaves = len(taxonomy.leaves)
    return Baskets.of(numbers, codes, len(owners.dictionary), leaves), ItemTree.of(taxonomy)


def _release(
    table: Table, form: Items, recoded: Recoded, tree: ItemTree, **request: Any
) -> Release:
    """Release the baskets in random order, so that their numbers reveal nothing."""
    k, m, algorithm, by = (request[name] for name in ("k", "m", "algorithm", "by"))
    baskets = recoded.baskets
    # Basket numbers of the original must not leave, nor their order: both could be linked.
    numbers = 1 + permutation(baskets.count, SystemEntropy())
    owners = numbers[baskets.owners]
    filled = np.bincount(owners, minlength=baskets.count + 1) > 0
    pairs = np.sort(np.cumsum(filled)[owners] * np.int64(tree.groups) + baskets.items)
    labels = pa.array(tree.labels).take(pa.array(pairs % tree.groups))
    rows = pa.table({form.owner: pa.array(pairs // tree.groups), form.item: labels})
    statement = (
        f"Someone who knows up to {m} items of a basket finds no basket that fits, or at least "
        f"{k}: every set of at most {m} of the released groups is in no basket or in at least {k}. "
        "This does not cover knowledge that an item is not in a basket."
    )
    facts = {"k": k, "m": m, "algorithm": algorithm, "baskets": int(filled.sum()),
              "rows": len(rows), "groups": len(np.unique(baskets.items))}  # fmt: skip
    holder = {"loss": recoded.loss, "left_out": recoded.left_out, "parts": len(recoded.cuts),
              "baskets_before": baskets.count}  # fmt: skip
    return Release(
        {table.schema.table: rows},
        Guarantee.syntactic(statement, {"criteria": [f"{k}^{m}-anonymity"], **facts}),
        Provenance(algorithm, {"k": k, "m": m}, fingerprint="", made=today(), by=by),
        holder=holder,
        kept=table.files,
    )
