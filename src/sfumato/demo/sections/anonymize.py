"""Anonymize the table: nobody is unique any more, and some detail is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.anonymize.criteria.request import CriteriaRequest
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.schema.column import Role
from sfumato.demo.town import schema_of
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, KeyFigures, Note, PageTable, Paragraph
from sfumato.report.points import Point, draw_lines
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.anonymize.result import Anonymized
    from sfumato.demo.town import Town
    from sfumato.release.open_table import Table as People
    from sfumato.report.blocks import Block

K, L = 5, 3
_SUPPRESS = "0.05"
_SIZES = (2, 5, 10, 20, 50)
_ALGORITHMS = {"optimal": "one level per column", "mondrian": "boxes of their own"}
_SHOWN = 6
_SHOWN_COSTS = {
    "loss": "loss: mean share of a hierarchy that a label covers",
    "discernability": "discernability: number of pairs of rows that look alike",
    "average_class_size": f"average class size, in multiples of {K}",
    "entropy": "entropy: bits lost",
    "suppressed": "suppressed rows",
}


def section(town: Town) -> list[Block]:
    """Show the table before and after, every cost, and how the cost grows with k."""
    with read(town.people, schema_of("town")) as people:
        wide = _decide(people, CriteriaRequest(k=K))
        diverse = _decide(people, CriteriaRequest(k=K, l=L, diversity="entropy"))
        curves = _curves(people)
        released = wide.release().table
        shown = [c.name for c in people.schema.columns if c.role is Role.QUASI]
    return [
        Heading("Release the table"),
        Paragraph(
            f"Sfumato makes values coarser, as little as possible, until each row equals at least "
            f"{K - 1} others in all {len(shown)} columns that others may know. It found the "
            f"cheapest of {wide.figures['lattice'] or 0:,} ways to do this, and proved it by "
            f"examining {wide.figures['checked'] or 0:,}."
        ),
        _table("Before: six people, with the names already removed", town.people, shown),
        _table("After: six rows of the release, in its own order", released, shown),
        _figures(wide, released, shown),
        _costs(wide),
        Heading("The price of larger classes", level=3),
        Paragraph(
            "Larger classes protect better and leave less detail in the table. Labels chosen for "
            "each box of rows keep more detail than one level for a whole column, but they are "
            "harder to work with."
        ),
        draw_lines(
            curves,
            label="Information lost as k grows",
            x="k: rows that look alike",
            y="Loss",
            series="Labels",
            logarithmic=True,
            percent=True,
        ),
        Heading("What k-anonymity does not hide", level=3),
        _diversity(wide, diverse),
        Note(
            f"The release keeps {', '.join(wide.unprotected)} unchanged. No criterion protects "
            "these columns, and anyone who knows such a value can use it to find a row.",
            warning=True,
        ),
    ]


def _decide(people: People, asked: CriteriaRequest, algorithm: str = "optimal") -> Anonymized:
    criteria = asked.criteria(people.schema, ["disease"])
    # Boxes need no suppression: rows are divided only as long as each box is large enough.
    suppress = _SUPPRESS if algorithm == "optimal" else "0"
    return anonymize(people, criteria, algorithm=algorithm, suppress=suppress)


def _curves(people: People) -> list[Point]:
    """The loss for growing k, with two kinds of labels."""
    points = []
    for algorithm, name in _ALGORITHMS.items():
        for k in _SIZES:
            loss = _decide(people, CriteriaRequest(k=k), algorithm).figures["cost"]["loss"]
            points.append(Point(name, k, loss or 0.0))
    return points


def _table(caption: str, table: pa.Table, columns: list[str]) -> PageTable:
    names = [*columns, "disease"]
    # Rows spread over the table: the first six would be six neighbours.
    step = max(table.num_rows // _SHOWN, 1)
    rows = table.select(names).take(list(range(0, table.num_rows, step))[:_SHOWN]).to_pylist()
    headers = [name.replace("_", " ").capitalize() for name in names]
    return PageTable(caption, headers, [[str(row[name]) for name in names] for row in rows])


def _figures(wide: Anonymized, released: pa.Table, quasi: list[str]) -> KeyFigures:
    figures = wide.figures
    sizes = released.group_by(quasi).aggregate([([], "count_all")])["count_all"].to_pylist()
    in_small_classes = sum(size for size in sizes if size < K)
    return KeyFigures(
        [
            (f"{figures['released']:,}", f"of {figures['rows']:,} rows are released"),
            (
                f"{figures['classes']:,}",
                f"classes, compared with {wide.before['classes']:,} before",
            ),
            (f"{in_small_classes:,}", f"people are in a class smaller than {K}"),
        ]
    )


def _costs(wide: Anonymized) -> PageTable:
    cost = wide.figures["cost"]
    return PageTable(
        "What it cost, by several measures; smaller is better",
        ("Cost", "Before", "After"),
        [
            (measure, show(wide.before[name]), show(cost[name] or 0.0))
            for name, measure in _SHOWN_COSTS.items()
        ],
    )


def _diversity(wide: Anonymized, diverse: Anonymized) -> Paragraph:
    loss, diverse_loss = (decided.figures["cost"]["loss"] or 0.0 for decided in (wide, diverse))
    return Paragraph(
        f"If all {K} people who look alike have the same illness, the class hides nothing. Entropy "
        f"{L}-diversity requires that the illnesses in each class are at least as mixed as {L} "
        f"equally common ones. It raises the loss from {share(loss)} to {share(diverse_loss)}."
    )
