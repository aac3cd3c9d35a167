"""The page that compares a synthetic table with its original, for the owner of the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.page import trajectory_blocks, trajectory_summary
from sfumato.release.page_parts import ReportParts, digests, report_page
from sfumato.release.sidecar import checksum
from sfumato.report.bars import draw_bars
from sfumato.report.blocks import (
    Commands,
    Glossary,
    Heading,
    KeyFigures,
    Listing,
    PageTable,
    Paragraph,
)
from sfumato.report.distributions import ColumnComparison, Distribution, draw_comparison, fold
from sfumato.report.drawing import LONGEST_VALUE, cut
from sfumato.report.heat_maps import MapSide, draw_heat_map, draw_tiles
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.attack.evaluation.learning import Learned
    from sfumato.attack.evaluation.result import ComparedColumn, ComparedPair, Evaluation
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_OWNER = (
    "For the owner only: computed from the original, without noise. This page describes real rows. "
    "The promise of the synthetic table does not cover it, so do not share it with the table."
)
_PROMISES_NOTHING = (
    "An evaluation promises nothing. The report that was made with the synthetic table, and its "
    "side-car, state what the table guarantees."
)
_LIMIT = (
    "A table close to its original is useful; whether it is safe is another question. Few copies "
    "of real rows are a good sign and no proof."
)
_COMMAND = "sfumato evaluate SYNTHETIC --original FILE --schema SCHEMA.toml"
_ORIGINAL, _SYNTHETIC = "Original", "Synthetic"
_WORST = 5
_LONGEST_PAIR = 2 * LONGEST_VALUE
_LEAST_COLUMNS_FOR_MAP = 3
_SUSPICIOUS_FACTOR = 2.0
"""This many times the expected number of copies suggests that rows were copied."""
_SUSPICIOUS_EXCESS = 10
"""And at least this many more copies than expected."""
_ASSOCIATION = "Cramér's V"
ASSOCIATION_STEPS = (0.05, 0.1, 0.2, 0.4, 0.7)
"""Where the shades of associations change: from none to strong by the usual reading of V."""
_DIFFERENCE_STEPS = (0.02, 0.05, 0.1, 0.2, 0.4)
_SET_NAMES = {1: "Single columns", 2: "Two-way marginals", 3: "Three-way marginals"}
_TERMS = (
    (
        "Total variation distance",
        (
            "The share of rows that would need other values for two tables to have the same "
            "counts. 0 % means equal counts, 100 % nothing in common."
        ),
    ),
    ("Marginal", "The counts of rows by the values of some columns, such as two (two-way)."),
    (
        "Fresh sample",
        (
            "As many rows drawn at random from the original. It differs from the original only by "
            "chance, so a table without copied rows cannot be expected to be closer."
        ),
    ),
    (
        "Association (Cramér's V)",
        "0 if one column says nothing about the other, 1 if it determines it.",
    ),
    (
        "Propensity ratio",
        (
            "How well two columns of a row tell which table it is from, compared with chance: 1 "
            "for rows drawn from the original, larger if the tables differ more."
        ),
    ),
    (
        "Invented combination",
        "Two values that occur together in synthetic rows but in no row of the original.",
    ),
)


def page(evaluation: Evaluation) -> str:
    """Return the whole page."""
    figures = [
        (f"{evaluation.rows[0]:,}", "rows in the original"),
        (f"{evaluation.rows[1]:,}", "synthetic rows"),
        (f"{len(evaluation.columns):,}", "columns compared"),
    ]
    checksums = {path.name: checksum(path) for path in evaluation.files if path.is_file()}
    return report_page(
        ReportParts(
            title="A synthetic table compared with its original",
            promise="How close it is, what can be learned from it, and what it reveals.",
            audience=_OWNER,
            private=True,
            subject=[KeyFigures(figures), *_binned_columns(evaluation)],
            guarantee=[Paragraph(_PROMISES_NOTHING)],
            limits=[Paragraph(_LIMIT)],
            utility=[
                Listing(summary(evaluation)),
                *trajectory_blocks(evaluation.paths),
                *_column_blocks(evaluation),
                *_association_blocks(evaluation),
                *_worst_pairs(evaluation),
                *_worst_ranges(evaluation),
                *_learning_blocks(evaluation.learned),
                Glossary(_TERMS),
            ],
            risk=_copy_blocks(evaluation),
            verify=[
                *digests(checksums, "compared"),
                Commands("Compare the tables again", [_COMMAND]),
            ],
        )
    )


def summary(evaluation: Evaluation) -> list[str]:
    """Return the results in sentences."""
    sentences = [] if evaluation.paths is None else trajectory_summary(evaluation.paths)
    sentences += [
        f"{_SET_NAMES[size]} differ by {share(distances.mean.tvd)} on average (total variation "
        f"distance); those of a fresh sample by {share(distances.mean.floor)}."
        for size, distances in evaluation.sets.items()
    ]
    if evaluation.propensity is not None:
        sentences.append(
            "Two columns at a time tell the synthetic table from the original "
            f"{show(evaluation.propensity)} times as well as they tell a fresh sample from it "
            "(propensity ratio; 1 is best)."
        )
    if evaluation.told_apart is not None:
        sentences.append(
            f"A trained classifier picks the synthetic one of two rows in "
            f"{share(evaluation.told_apart)} of cases; a guess is right in 50 %."
        )
    if evaluation.ranges:
        errors = [answer.error for answer in evaluation.ranges]
        sentences.append(
            f"{len(errors):,} counts of rows in a range are off by "
            f"{share(sum(errors) / len(errors))} of all rows on average, and by "
            f"{share(max(errors))} at worst."
        )
    if 2 in evaluation.sets:
        mean = evaluation.sets[2].mean
        sentences.append(
            f"{share(mean.fabricated)} of synthetic rows have a pair of values that no row of the "
            f"original has (new people would: {share(mean.unseen)}). {share(mean.lost)} of the "
            "original rows have a pair that no synthetic row has."
        )
    sentences.append(_copies_sentence(evaluation))
    if evaluation.learned is not None:
        sentences.append(_learning_sentence(evaluation.learned))
    return [*sentences, *evaluation.remarks]


def _copies_sentence(evaluation: Evaluation) -> str:
    copies = evaluation.copies
    most = max(_SUSPICIOUS_FACTOR * copies.expected, copies.expected + _SUSPICIOUS_EXCESS)
    if copies.exact > most:
        verdict = "The synthetic table seems to contain rows of real people."
    else:
        verdict = "This gives no sign that rows were copied."
    return (
        f"{copies.exact:,} of {copies.looked_at:,} synthetic rows equal a real row; of as many new "
        f"people about {copies.expected:,.0f} would. {verdict}"
    )


def _learning_sentence(learned: Learned) -> str:
    return (
        f"Trained on the synthetic table, {learned.best} predicts {learned.question} correctly for "
        f"{share(learned.synthetic)} of real rows that it has not seen; trained on the original, "
        f"for {share(learned.real)}. Always predicting the most common value is correct for "
        f"{share(learned.baseline)}."
    )


def _binned_columns(evaluation: Evaluation) -> list[Block]:
    """List the columns that are not compared value by value."""
    rows = [
        (column.name, column.coding.told) for column in evaluation.columns if column.coding.told
    ]
    if not rows:
        return []
    return [PageTable("How columns are compared", ("Column", "How"), rows, folded=True)]


def _column_blocks(evaluation: Evaluation) -> list[Block]:
    """Draw every column, the least similar first; most of many columns are folded."""
    ordered = sorted(
        evaluation.columns, key=lambda column: column.distance.floor - column.distance.tvd
    )
    pictures = (
        (f"{column.name}: distance {share(column.distance.tvd)}", column_picture(column))
        for column in ordered
    )
    return [Heading("Each column: original and synthetic", 3), *fold(pictures)]


def column_picture(column: ComparedColumn) -> Picture:
    """Draw a column of both tables: two lines if it is long, else two bars for each value."""
    coding = column.coding
    sides = [
        Distribution(name, np.array(counts) / sum(counts))
        for name, counts in ((_ORIGINAL, column.original), (_SYNTHETIC, column.synthetic))
    ]
    labels = [coding.label(code) for code in range(coding.size)]
    comparison = ColumnComparison(column.name, labels, sides, coding.starts, dates=coding.dates)
    distance = column.distance
    label = (
        f"{column.name}: total variation distance {share(distance.tvd)}, for a fresh sample "
        f"{share(distance.floor)}"
    )
    return draw_comparison(comparison, label=label, series="Table")


def _association_blocks(evaluation: Evaluation) -> list[Block]:
    """Draw maps of the associations between columns in both tables, and of their differences."""
    names = [column.name for column in evaluation.columns]
    if len(names) < _LEAST_COLUMNS_FOR_MAP:
        return []
    original, synthetic = (_association_matrix(evaluation.pairs, names, side) for side in (0, 1))
    maps = association_maps(evaluation)
    compared, total = evaluation.sets[2].looked_at, evaluation.sets[2].of
    sampled = "" if compared == total else f" {compared:,} of {total:,} pairs were compared."
    side = MapSide("", names)
    return [
        Heading("Associations between columns", 3),
        Paragraph(
            "Each square is a pair of columns, in the order of the list below. A fuller tone means "
            f"that one column says more about the other. Both maps should look alike.{sampled}"
        ),
        maps,
        draw_heat_map(
            np.abs(original - synthetic),
            (side, side),
            label="Difference of the associations (Cramér's V)",
            table=maps.table,
            value=f"Difference of {_ASSOCIATION}",
            steps=_DIFFERENCE_STEPS,
        ),
    ]


def association_maps(evaluation: Evaluation) -> Picture:
    """Draw the associations between columns: the map of the original beside the synthetic one."""
    names = [column.name for column in evaluation.columns]
    rows = [
        (
            " and ".join(pair.columns),
            *(f"{association:.2f}" for association in pair.association),
            _correlation_text(pair),
        )
        for pair in evaluation.pairs
    ]
    headers = ("Columns", _ORIGINAL, _SYNTHETIC, "Correlation")
    return draw_tiles(
        [
            (name, _association_matrix(evaluation.pairs, names, side)[::-1])
            for side, name in enumerate((_ORIGINAL, _SYNTHETIC))
        ],
        label="Associations between columns in both tables",
        table=PageTable("Associations between columns", headers, rows, folded=True),
        value=_ASSOCIATION,
        steps=ASSOCIATION_STEPS,
    )


def _association_matrix(
    pairs: Sequence[ComparedPair], names: Sequence[str], side: int
) -> FloatArray:
    index = {name: number for number, name in enumerate(names)}
    matrix = np.eye(len(names))
    for pair in pairs:
        first, second = (index[name] for name in pair.columns)
        matrix[first, second] = matrix[second, first] = pair.association[side]
    return matrix


def _correlation_text(pair: ComparedPair) -> str:
    if pair.correlation is None or None in pair.correlation:
        return "–"
    original, synthetic = pair.correlation
    return f"{original:+.2f} and {synthetic:+.2f}"


def _worst_pairs(evaluation: Evaluation) -> list[Block]:
    """List the pairs of columns that differ most, and invented combinations of values."""
    worst = evaluation.worst_pairs[:_WORST]
    if not worst:
        return []
    sentences = []
    for pair in worst:
        furthest = pair.furthest
        sentences.append(
            f"{' and '.join(pair.columns)}: total variation distance {share(pair.distance.tvd)}. "
            f"Largest difference at {cut(furthest.words, _LONGEST_PAIR)}: "
            f"{share(furthest.original)} in the original, {share(furthest.synthetic)} in the "
            "synthetic table."
        )
    blocks: list[Block] = [Heading("The largest differences", 3), Listing(sentences)]
    invented = [pair.fabricated for pair in evaluation.pairs if pair.fabricated is not None]
    invented.sort(key=lambda combination: -combination.synthetic)
    if invented:
        rows = [
            (
                cut(combination.words, _LONGEST_PAIR),
                f"{round(combination.synthetic * evaluation.rows[1]):,}",
            )
            for combination in invented[:_WORST]
        ]
        headers = ("Values that never occur together in the original", "Synthetic rows")
        blocks.append(PageTable("Invented combinations", headers, rows))
    return blocks


def _worst_ranges(evaluation: Evaluation) -> list[Block]:
    worst = sorted(evaluation.ranges, key=lambda answer: -answer.error)[:_WORST]
    if not worst:
        return []
    rows = [
        (cut(answer.words, _LONGEST_PAIR), share(answer.original), share(answer.synthetic))
        for answer in worst
    ]
    headers = ("Rows with", _ORIGINAL, _SYNTHETIC)
    caption = f"The {len(rows)} counts with the largest error, of {len(evaluation.ranges):,}"
    return [Heading("Counts in ranges", 3), PageTable(caption, headers, rows)]


def _learning_blocks(learned: Learned | None) -> list[Block]:
    if learned is None:
        return []
    bars: list[tuple[str, float]] = [("Always the most common value", learned.baseline)]
    for name, (real, synthetic) in learned.models.items():
        bars += [(f"{name.capitalize()}, trained on the synthetic table", synthetic)]
        bars += [(f"{name.capitalize()}, trained on the original", real)]
    label = f"Correct predictions of {learned.question}, for {learned.tested:,} unseen real rows"
    drawn = draw_bars(bars, label=label, category="Model", value="Correct", percent=True)
    return [
        Heading("Models trained on the table", 3),
        Paragraph(_learning_sentence(learned)),
        drawn,
    ]


def _copy_blocks(evaluation: Evaluation) -> list[Block]:
    copies = evaluation.copies
    rows = [
        ("of any row", f"{copies.exact:,}", f"{copies.expected:,.0f}"),
        ("of a row that is unique", f"{copies.unique:,}", f"{copies.unique_expected:,.0f}"),
    ]
    headers = ("Copies", "Synthetic rows", "As many new people")
    return [
        Heading("Copies of real rows", 3),
        Paragraph(_copies_sentence(evaluation)),
        PageTable("Rows that are equal in all compared columns", headers, rows),
    ]
