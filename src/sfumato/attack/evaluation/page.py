"""A synthetic table beside its original as a page for its owner, in pictures a layman reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.trajectory.page import path_blocks, paths_said
from sfumato.release.page_parts import ReportParts, report_page
from sfumato.release.sidecar import checksum
from sfumato.release.verification import digests
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
from sfumato.report.heat_maps import MapSide, draw_heat_map, draw_tiles
from sfumato.report.text_width import LONGEST_VALUE, cut
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.arrays import FloatArray
    from sfumato.attack.evaluation.learning import Learned
    from sfumato.attack.evaluation.measures import Range
    from sfumato.attack.evaluation.result import ComparedColumn, ComparedPair, Evaluation
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_OWNER = (
    "For the owner: computed from the original, without any noise. What stands on this page tells "
    "of real rows; it is not part of the synthetic table's promise and must not travel with it."
)
_PROMISES_NOTHING = (
    "An evaluation promises nothing. What the synthetic table guarantees is told by the report "
    "that was made with it, and by its side-car."
)
_NEARNESS = (
    "A table that is near to its original is useful; whether it is safe is another question. Few "
    "copies are a good sign and no proof."
)
_AGAIN = "To compare them again"
_COMMAND = "sfumato evaluate SYNTHETIC --original FILE --schema SCHEMA.toml"
_ORIGINAL, _SYNTHETIC = "Original", "Synthetic"
_WORST = 5
_TWO = 2 * LONGEST_VALUE
_FEWEST_DRAWN = 3
_KEPT = 2.0
"""So many times the copies that are expected are a sign that rows were kept."""
_VALUE = "Cramér's V"
_STRENGTHS = (0.05, 0.1, 0.2, 0.4, 0.7)
_DIFFERENCES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Where the shades of associations and of their differences change."""
_WAYS = {1: "a column", 2: "two columns together", 3: "three columns together"}
_TERMS = (
    (
        "Rows that would have to move",
        (
            "Total variation: the share of rows that would have to take other values for the two "
            "tables to have the same counts. 0 % is the same table, 100 % has nothing in common."
        ),
    ),
    (
        "A fresh sample",
        (
            "As many rows drawn by chance from the original itself. It differs from the original "
            "only by chance, so nothing that does not copy can be expected to be nearer."
        ),
    ),
    (
        "How strongly columns hang together",
        "Cramér's V: 0 where one column tells nothing about the other, 1 where it tells all.",
    ),
    (
        "Propensity ratio",
        (
            "How much better than by chance one can guess which table a row is from by two of its "
            "columns: 1 for rows drawn from the original, more the further the tables are apart."
        ),
    ),
    (
        "Invented combination",
        "Two values that stand together in synthetic rows and in no row of the original.",
    ),
)


def page(found: Evaluation) -> str:
    """The whole page."""
    figures = [
        (f"{found.rows[0]:,}", "rows in the original"),
        (f"{found.rows[1]:,}", "synthetic rows"),
        (f"{len(found.columns):,}", "columns compared"),
    ]
    marks = {one.name: checksum(one) for one in found.files if one.is_file()}
    return report_page(
        ReportParts(
            title="A synthetic table beside its original",
            promise="How near it is, what can be learned from it, and what it gives away.",
            audience=_OWNER,
            private=True,
            subject=[KeyFigures(figures), *_form(found)],
            guarantee=[Paragraph(_PROMISES_NOTHING)],
            limits=[Paragraph(_NEARNESS)],
            utility=[
                Listing(said(found)),
                *path_blocks(found.paths),
                *_columns(found),
                *_together(found),
                *_worst(found),
                *_questions(found),
                *_learned(found.learned),
                Glossary(_TERMS),
            ],
            found=_copies(found),
            verify=[*digests(marks, "compared"), Commands(_AGAIN, [_COMMAND])],
        )
    )


def said(found: Evaluation) -> list[str]:
    """What was found, in sentences."""
    told = [] if found.paths is None else paths_said(found.paths)
    told += [
        f"In {_WAYS[size]} {share(one.mean.tvd)} of rows would have to move on average; in a fresh "
        f"sample {share(one.mean.floor)}."
        for size, one in found.sets.items()
    ]
    if found.propensity is not None:
        told.append(
            f"By two columns the tables are told apart {show(found.propensity)} times as well as a "
            "fresh sample would be (propensity ratio; 1 is best)."
        )
    if found.told_apart is not None:
        told.append(
            f"A trained program picks the synthetic one of two rows in {share(found.told_apart)} "
            "of cases; guessing is right in 50 %."
        )
    if found.ranges:
        errors = [one.error for one in found.ranges]
        told.append(
            f"Of {len(errors):,} questions how many rows lie in a range, answers are off by "
            f"{share(sum(errors) / len(errors))} of all rows on average, {share(max(errors))} at "
            "worst."
        )
    if 2 in found.sets:
        mean = found.sets[2].mean
        told.append(
            f"{share(mean.fabricated)} of synthetic rows have a pair of values that no row of the "
            f"original has (new people would: {share(mean.unseen)}); {share(mean.lost)} of the "
            "original's rows have one that is lost."
        )
    told.append(_copied(found))
    if found.learned is not None:
        told.append(_learning(found.learned))
    return [*told, *found.remarks]


def _copied(found: Evaluation) -> str:
    copies = found.copies
    verdict = "so nothing says that rows were kept"
    if copies.exact > max(_KEPT * copies.expected, copies.expected + 10):
        verdict = "so rows of real people seem to have been kept"
    return (
        f"{copies.exact:,} of {copies.looked_at:,} synthetic rows are copies of real ones; as many "
        f"new people would have about {copies.expected:,.0f}, {verdict}."
    )


def _learning(one: Learned) -> str:
    return (
        f"Trained on the synthetic table, {one.best} guesses {one.question} right in "
        f"{share(one.synthetic)} of real rows that it has not seen; trained on the original in "
        f"{share(one.real)}. Always saying the commonest is right in {share(one.baseline)}."
    )


def _form(found: Evaluation) -> list[Block]:
    """How columns were compared where that is not value by value."""
    binned = [(one.name, one.coding.told) for one in found.columns if one.coding.told]
    if not binned:
        return []
    return [PageTable("How columns are compared", ("Column", "How"), binned, folded=True)]


def _columns(found: Evaluation) -> list[Block]:
    """Every column in a picture, that which is furthest off first; of many, most are fold."""
    ordered = sorted(found.columns, key=lambda one: one.distance.floor - one.distance.tvd)
    drawn = (
        (f"{one.name}: {share(one.distance.tvd)} would move", column_picture(one))
        for one in ordered
    )
    return [Heading("Each column, original beside synthetic", 3), *fold(drawn)]


def column_picture(one: ComparedColumn) -> Picture:
    """A column of both tables: two lines where it is long, else two bars for each value."""
    coding = one.coding
    sides = [
        Distribution(name, np.array(counts) / sum(counts))
        for name, counts in ((_ORIGINAL, one.original), (_SYNTHETIC, one.synthetic))
    ]
    labels = [coding.label(code) for code in range(coding.size)]
    shown = ColumnComparison(one.name, labels, sides, coding.starts, dates=coding.dates)
    return draw_comparison(shown, label=_label(one), series="Table")


def _label(one: ComparedColumn) -> str:
    moved = f"{one.name}: {share(one.distance.tvd)} of rows would have to move"
    return f"{moved}, in a fresh sample {share(one.distance.floor)}"


def _together(found: Evaluation) -> list[Block]:
    """A map of how strongly columns hang together, in both tables, and where it differs."""
    names = [one.name for one in found.columns]
    if len(names) < _FEWEST_DRAWN:
        return []
    original, synthetic = (_matrix(found.pairs, names, side) for side in (0, 1))
    maps = association_maps(found)
    looked_at, total = found.sets[2].looked_at, found.sets[2].of
    sampled = "" if looked_at == total else f" Of {total:,} pairs {looked_at:,} were looked at."
    side = MapSide("", names)
    return [
        Heading("How columns hang together", 3),
        Paragraph(
            "Each square stands for two columns, in the order of the list below; the fuller its "
            "tone, the more one of them tells about the other. The two maps should look alike."
            + sampled
        ),
        maps,
        draw_heat_map(
            np.abs(original - synthetic),
            (side, side),
            label="Where they differ: by how much Cramér's V is off",
            table=maps.table,
            value=f"Difference in {_VALUE}",
            steps=_DIFFERENCES,
        ),
    ]


def association_maps(found: Evaluation) -> Picture:
    """How strongly columns hang together, the original's map beside the synthetic one's."""
    names = [one.name for one in found.columns]
    rows = [
        (" and ".join(one.columns), *(f"{v:.2f}" for v in one.association), _correlated(one))
        for one in found.pairs
    ]
    headers = ("Columns", _ORIGINAL, _SYNTHETIC, "Correlation")
    sides = ((_ORIGINAL, 0), (_SYNTHETIC, 1))
    return draw_tiles(
        [(name, _matrix(found.pairs, names, side)[::-1]) for name, side in sides],
        label="How strongly columns hang together in either table",
        table=PageTable("How strongly columns hang together", headers, rows, folded=True),
        value=_VALUE,
        steps=_STRENGTHS,
    )


def _matrix(pairs: Sequence[ComparedPair], names: Sequence[str], side: int) -> FloatArray:
    place = {name: number for number, name in enumerate(names)}
    matrix = np.eye(len(names))
    for one in pairs:
        first, second = (place[name] for name in one.columns)
        matrix[first, second] = matrix[second, first] = one.association[side]
    return matrix


def _correlated(one: ComparedPair) -> str:
    if one.correlation is None or None in one.correlation:
        return "–"
    first, second = one.correlation
    return f"{first:+.2f} and {second:+.2f}"


def _worst(found: Evaluation) -> list[Block]:
    """The pairs that are furthest off, and what was invented, in words."""
    worst = found.worst_pairs[:_WORST]
    if not worst:
        return []
    told = [
        f"{' and '.join(one.columns)}: {share(one.distance.tvd)} of rows would have to move. Most "
        f"at {_shares(one.furthest)}."
        for one in worst
    ]
    blocks: list[Block] = [Heading("Where it is furthest off", 3), Listing(told)]
    invented = [one.fabricated for one in found.pairs if one.fabricated is not None]
    invented.sort(key=lambda one: -one.synthetic)
    if invented:
        rows = [
            (cut(one.words, _TWO), f"{round(one.synthetic * found.rows[1]):,}")
            for one in invented[:_WORST]
        ]
        headers = ("Values that never stand together in the original", "Synthetic rows")
        blocks.append(PageTable("Invented combinations", headers, rows))
    return blocks


def _shares(one: Range) -> str:
    values = cut(one.words, _TWO)
    return f"{values}: {share(one.original)} in the original, {share(one.synthetic)} here"


def _questions(found: Evaluation) -> list[Block]:
    worst = sorted(found.ranges, key=lambda one: -one.error)[:_WORST]
    if not worst:
        return []
    rows = [(cut(one.words, _TWO), share(one.original), share(one.synthetic)) for one in worst]
    headers = ("How many rows have", _ORIGINAL, _SYNTHETIC)
    caption = f"The {len(rows)} answers that are furthest off, of {len(found.ranges):,}"
    return [Heading("Questions asked of both", 3), PageTable(caption, headers, rows)]


def _learned(learned: Learned | None) -> list[Block]:
    if learned is None:
        return []
    bars: list[tuple[str, float]] = [("Always the commonest", learned.baseline)]
    for name, (real, synthetic) in learned.models.items():
        bars += [(f"{name.capitalize()}, trained on the synthetic table", synthetic)]
        bars += [(f"{name.capitalize()}, trained on the original", real)]
    label = f"Right guesses of {learned.question}, on {learned.tested:,} real rows not seen before"
    picture = draw_bars(bars, label=label, what="Model", value="Right", percent=True)
    return [Heading("What can be learned from it", 3), Paragraph(_learning(learned)), picture]


def _copies(found: Evaluation) -> list[Block]:
    copies = found.copies
    rows = [
        ("of any row", f"{copies.exact:,}", f"{copies.expected:,.0f}"),
        ("of a row that is one of a kind", f"{copies.unique:,}", f"{copies.unique_expected:,.0f}"),
    ]
    headers = ("Copies", "Synthetic rows", "As many new people")
    return [
        Heading("Copies of real rows", 3),
        Paragraph(_copied(found)),
        PageTable("Rows that are the same in all columns compared", headers, rows),
    ]
