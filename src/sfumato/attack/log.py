"""Logs: people search for their own names, and for where they live.

*Attacker*: has a log of searches without names, and a list of people with words that can stand in a
search: names, towns. For each person of the log, the attacker claims the person of the list whose
words weigh most in the searches; a word weighs more if fewer people of the list have it. Nobody is
claimed if two weigh the same. If the list has two columns or more, words of two must occur.
*Success*: the share of people in the log who are claimed rightly, where the list has the column of
the person; else of those who are claimed.
*Baseline*: anybody of the list.
*Victims*: those who are claimed (rightly).
*Reference*: Barbaro and Zeller, A face is exposed for AOL searcher No. 4417749, 2006; Jones, Kumar,
Pang and Tomkins, Vanity fair: privacy in querylog bundles, 2008.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attack.case import PERSON, cannot_run, needed, needed_column
from sfumato.attack.finding import MOST_EXAMPLES, Finding, Rate, percent, plain
from sfumato.attack.matching import by_key
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.attack.case import Case
    from sfumato.data.counting.frequencies import Frequencies


NAME = "log"
_BREAKS = r"[^\p{L}\p{N}]+"
_MOST_SHARED = 20_000
"""Words that more people of the list share are skipped: they identify nobody and cost most."""


def run(case: Case) -> Finding:
    """Look for the people of a list in the searches of a log."""
    known = needed(case.known, NAME, "a list of people with names or places", "known")
    person, query = (needed_column(case, NAME, role) for role in (PERSON, "query"))
    clues = [
        column.name
        for column in known.columns
        if column.kind is Kind.TEXT and column.name not in (person, query)
    ]
    if not clues:
        raise cannot_run(NAME, "the list has no column of text, such as names or towns.")
    log = case.release.table.counted([person, query])
    named = person in known.names
    people = known.counted([*([person] if named else []), *clues])
    best, claimed = _claims(log, people, clues)
    tried = len(best)
    ids = log.axis(person).decode(np.arange(tried)).cast(pa.string())
    if named:
        theirs = people.axis(person).decode(people.codes[0]).cast(pa.string())
        equal_names = pc.fill_null(pc.equal(theirs.take(pa.array(best)), ids), fill_value=False)
        hits = claimed & np.asarray(equal_names)
        tried = int(np.asarray(pc.is_in(ids, value_set=theirs)).sum())
        remark = f"{percent(hits.sum() / max(claimed.sum(), 1))} of {claimed.sum():,} claims right."
    else:
        hits = claimed
        remark = f"The list does not name people by {person}, so that no claim can be checked."
    shown = ids.take(pa.array(np.flatnonzero(hits)[:MOST_EXAMPLES])).to_pylist()
    return Finding(
        attack=NAME,
        attacker=f"has a list of people with {', '.join(clues)}, and reads their searches",
        meaning="People who are found by their searches"
        if named
        else "People in whose searches somebody of the list is found",
        success=Rate.share(float(hits.sum()), tried),
        baseline=Rate.share(tried / max(people.total, 1), tried),
        victims=int(hits.sum()),
        examples=[{person: plain(person_id)} for person_id in shown],
        remarks=[remark],
        rows=log.total + people.total,
        reference="Jones et al. 2008",
    )


def _claims(log: Frequencies, people: Frequencies, clues: list[str]) -> tuple[IntArray, BoolArray]:
    """Return for each person of the log the best of the list, and whether that one is claimed."""
    searchers = log.axes[0].size
    scores, columns = np.zeros(0), np.zeros(0, dtype=np.int64)
    pairs = np.zeros(0, dtype=np.int64)
    for number, clue in enumerate(clues):
        mine, theirs, weights = _met(log, people, clue)
        pairs = np.concatenate([pairs, mine * len(people) + theirs])
        scores = np.concatenate([scores, weights])
        columns = np.concatenate([columns, np.full(len(mine), number)])
    present, owner = np.unique(pairs, return_inverse=True)
    total = np.bincount(owner, scores, len(present))
    # The number of columns of the list with a common word, for each pair.
    met = np.bincount(np.unique(np.stack([owner, columns]), axis=1)[0], minlength=len(present))
    total[met < min(len(clues), 2)] = 0.0
    searcher, listed = np.divmod(present, len(people))
    order = np.lexsort((-total, searcher))
    searcher, listed, total = searcher[order], listed[order], total[order]
    first = np.flatnonzero(np.diff(searcher, prepend=-1))
    after = np.append(total, 0.0)[1:]
    second = np.where(np.append(searcher, -1)[1:] == searcher, after, 0.0)
    best, claimed = np.zeros(searchers, dtype=np.int64), np.zeros(searchers, dtype=bool)
    best[searcher[first]] = listed[first]
    # Sums of weights that differ by rounding alone are ties, and a tie is no claim.
    claimed[searcher[first]] = total[first] > second[first] + 1e-9
    return best, claimed


def _met(log: Frequencies, people: Frequencies, clue: str) -> tuple[IntArray, IntArray, FloatArray]:
    """Return pairs of a searcher and a person of the list with a common word, and its weight."""
    axis = people.axis(clue)
    value_of, value_words = _words(axis.decode(np.arange(axis.size)))
    known = value_words.unique()
    word_of = pc.index_in(value_words, value_set=known).to_numpy(zero_copy_only=False)
    query_of, asked = _words(log.axes[1].decode(np.arange(log.axes[1].size)))
    heard = pc.index_in(asked, value_set=known).to_numpy(zero_copy_only=False)
    heard = np.nan_to_num(heard, nan=-1).astype(np.int64)
    asked_words = np.unique(query_of[heard >= 0] * len(known) + heard[heard >= 0])
    search, word_code = np.divmod(asked_words, max(len(known), 1))
    # From searches to who searched, and from words to who has a value with the word.
    mine, matched = by_key(np.arange(len(search)), search, log.codes[1])
    searched = np.unique(log.codes[0][matched].astype(np.int64) * len(known) + word_code[mine])
    searcher, word_code = np.divmod(searched, max(len(known), 1))
    codes = people.codes[people.columns.index(clue)]
    of_value, matched = by_key(np.arange(len(value_of)), value_of, codes)
    has = np.unique(word_of[of_value].astype(np.int64) * len(people) + matched)
    held, listed = np.divmod(has, len(people))
    holders = np.bincount(held, minlength=len(known))
    # Inverse document frequency: a word that few people have says more.
    rarity = np.log((len(people) + 1) / holders.clip(min=1))
    telling = holders[word_code] <= _MOST_SHARED
    searcher, word_code = searcher[telling], word_code[telling]
    left, right = by_key(np.arange(len(word_code)), word_code, held)
    return searcher[left], listed[right], rarity[word_code[left]]


def _words(values: pa.Array) -> tuple[IntArray, pa.Array]:
    """Return the words of texts, and the text of each word."""
    lists = pc.split_pattern_regex(pc.utf8_lower(values.cast(pa.string())), _BREAKS)
    owners = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    tokens = lists.flatten()
    # Single letters and digits are initials and punctuation, not words.
    is_long = np.asarray(pc.greater(pc.utf8_length(tokens), 1))
    return owners[is_long].astype(np.int64), tokens.filter(pa.array(is_long))
