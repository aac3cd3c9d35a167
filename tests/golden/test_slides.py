"""Tables and figures of the lecture slides on releasing data: operators, t-closeness, worlds."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.anonymize.buckets import ReleasedCodes, as_they_are, deal, permute, rows_of
from sfumato.anonymize.criteria import DistinctDiversity, KAnonymity
from sfumato.anonymize.measure import measure_counts
from sfumato.anonymize.perturbative_release import perturb
from sfumato.anonymize.problem import Problem
from sfumato.anonymize.search import run
from sfumato.anonymize.taxonomy import grow
from sfumato.anonymize.worlds import AnswerBounds, answer
from sfumato.data.counting.axes import Listed
from sfumato.data.counting.frequencies import Frequencies, count
from sfumato.data.counting.grouping import group
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Mask, Tree
from sfumato.data.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.criteria import Criterion
    from sfumato.release.recoding import Recoding

NAMES = ("birth", "sex", "zip", "salary")
JANUARY, FEBRUARY, APRIL = date(1976, 1, 21), date(1976, 2, 28), date(1986, 4, 13)
CENSUS = [
    (JANUARY, "M", "53715", 50_000),
    (APRIL, "F", "53715", 55_000),
    (FEBRUARY, "M", "53703", 60_000),
    (JANUARY, "M", "53703", 65_000),
    (APRIL, "F", "53706", 70_000),
    (FEBRUARY, "F", "53706", 75_000),
]
SALARY = Column("salary", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 100_000, 5_000))
COLUMNS = (
    Column("birth", Kind.DATE, Role.QUASI),
    Column("sex", Kind.TEXT, Role.QUASI, Values(("M", "F"))),
    Column("zip", Kind.TEXT, Role.QUASI, hierarchy=Mask()),
    SALARY,
)
SCHEMA = Schema("census", COLUMNS)


GENERALIZED = [(row[0], "*" if row[0] == FEBRUARY else row[1], "537**", row[3]) for row in CENSUS]


def frequencies(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Frequencies:
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    axes, codes = [], []
    for name in names:
        coded = table[name].combine_chunks().dictionary_encode()
        order = pc.sort_indices(coded.dictionary)
        axes.append(Listed(name, coded.dictionary.take(order), declared=False))
        codes.append(np.argsort(order.to_numpy())[coded.indices.to_numpy()])
    groups = group(codes, [axis.size for axis in axes], np.ones(len(rows), dtype=np.int64))
    return Frequencies(
        tuple(axes), tuple(code[groups.representatives] for code in codes), groups.counts
    )


def released(recoding: Recoding) -> list[tuple[object, ...]]:
    """Apply a recoding to the census in the engine."""
    table = pa.table(dict(zip(NAMES, map(list, zip(*CENSUS, strict=True)), strict=True)))
    engine = open_source(table)
    try:
        with recoding.released(engine, engine.table) as query:
            return [tuple(row.values()) for row in engine.run(query).to_pylist()]
    finally:
        engine.close()


def test_suppression_leaves_the_slide_rows() -> None:
    """Everyone who is alone is suppressed: k = 2 on birth and sex alone takes two rows away."""
    table = frequencies(("birth", "sex"), [row[:2] for row in CENSUS])
    taxonomies = {c.name: grow(c, {row[i] for row in CENSUS}) for i, c in enumerate(COLUMNS[:2])}
    problem = Problem.build(
        table, taxonomies, ("birth", "sex"), [KAnonymity(2)], suppression_limit="0.34"
    )
    found = run(problem, "samarati", cost="suppressed")
    assert found.levels == {"birth": 0, "sex": 0}
    rows = released(found.recoding(["salary"]))
    assert Counter(rows) == Counter(
        (row[0].isoformat(), row[1], row[3]) for row in CENSUS if row[0] != FEBRUARY
    )


def test_generalization_yields_the_slide_table() -> None:
    """Given its labels: sex starred for those born 2/28/76 alone, ZIP masked twice for all."""
    table = frequencies(NAMES, CENSUS)
    rows = rows_of(table)
    sex = as_they_are(table, "sex", rows)
    births = table.axes[0].decode(table.codes[0]).to_pylist()
    starred = np.array([birth == FEBRUARY for birth in births])[rows]
    zips = grow(COLUMNS[2], {row[2] for row in CENSUS})
    masked = zips.codes[zips.locate(table.axes[2].decode(table.codes[2]).to_pylist()), 2][rows]
    labels = [
        as_they_are(table, "birth", rows),
        ReleasedCodes(
            "sex", np.where(starred, 2, sex.codes), pa.array([*sex.values.to_pylist(), "*"])
        ),
        ReleasedCodes("zip", masked, pa.array(zips.labels[2])),
    ]
    assert Counter(released(deal(table, rows, labels, ["salary"]))) == Counter(GENERALIZED)


def test_permutation_yields_the_slide_table() -> None:
    """Groups of equal ZIP; the slide swaps the salaries of the first and of the last."""
    table = frequencies(NAMES, CENSUS)
    zips = frequencies(("zip", "salary"), [row[2:] for row in CENSUS])
    taxonomy = grow(COLUMNS[2], {row[2] for row in CENSUS})
    groups = run(Problem.build(zips, {"zip": taxonomy}, ["zip"], [KAnonymity(2)]), "mondrian")
    keyed = {row: place for place, row in enumerate(CENSUS)}
    order = [
        keyed[tuple(row)]
        for row in zip(*(c.to_pylist() for c in table.table().columns[:4]), strict=True)
    ]
    slide = {0: 1, 1: 0, 2: 2, 3: 3, 4: 5, 5: 4}

    def swap(of: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.array([order.index(slide[place]) for place in order])
        assert (of[found] == of).all()
        return found

    rows = released(permute(table, groups, ["salary"], shuffle=swap))
    salaries = [55_000, 50_000, 60_000, 65_000, 75_000, 70_000]
    assert Counter(rows) == Counter(
        (*row[:3], salary) for row, salary in zip(CENSUS, salaries, strict=True)
    )


def test_perturbation_yields_the_slide_table() -> None:
    table = frequencies(["salary"], [row[3:] for row in CENSUS])
    offsets = dict(zip([row[3] for row in CENSUS], [2, -2, 0, -2, 2, 0], strict=True))
    values = table.axes[0].decode(table.codes[0]).to_pylist()
    recoding = perturb(
        table,
        [SALARY],
        stddev={"salary": 10_000},
        unchanged=NAMES[:3],
        draw=lambda variance, size: np.array([offsets[v] for v in values])[:size] * (variance == 4),
    )
    salaries = [60_000, 45_000, 60_000, 55_000, 80_000, 75_000]
    assert Counter(released(recoding)) == Counter(
        (salary, *row[:3]) for row, salary in zip(CENSUS, salaries, strict=True)
    )


def test_answers_on_the_generalized_census() -> None:
    table = frequencies(NAMES, GENERALIZED)
    one = "birth = DATE '1976-01-21' AND sex = 'M' AND zip = '53715'"
    found = answer(f"SELECT AVG(salary) FROM census WHERE {one}", table, SCHEMA)
    assert found == AnswerBounds(50_000, 65_000, 57_500)
    males = "SELECT MAX(salary) FROM census WHERE sex = 'M' AND zip = '53706'"
    found = answer(males, table, SCHEMA)
    assert (found.lower, found.upper) == (50_000, 75_000)


YEARS = Schema(
    "census",
    (Column("birth", Kind.INTEGER, Role.QUASI, Bounds(0, 99)), *COLUMNS[1:]),
)


def test_answers_on_the_census_of_years() -> None:
    """Six rows of 76-86: raw estimate 6/11; with tight labels one row is 76 and one is not."""
    table = frequencies(NAMES, [("76-86", row[1], "537**", row[3]) for row in CENSUS])
    born = "SELECT COUNT(*) FROM census WHERE birth = 76"
    public = answer(born, table, YEARS)
    assert (public.lower, public.upper) == (0, 6)
    assert public.estimate == pytest.approx(6 / 11)
    assert answer(born, table, YEARS, labels="tight") == AnswerBounds(1, 5, 1)
    mean = "SELECT AVG(salary) FROM census WHERE birth = 76"
    for labels in ("public", "tight"):
        found = answer(mean, table, YEARS, labels=labels)
        assert (found.lower, found.upper) == (50_000, 75_000)
    actual = frequencies(NAMES, [(row[0].year - 1900, *row[1:]) for row in CENSUS])
    assert answer(born, actual, YEARS) == AnswerBounds(4, 4, 4)
    assert answer(mean, actual, YEARS) == AnswerBounds(62_500, 62_500, 62_500)


def test_the_engine_counts_what_worlds_answers() -> None:
    table = pa.table(dict(zip(NAMES, map(list, zip(*GENERALIZED, strict=True)), strict=True)))
    engine = open_source(table)
    try:
        counted = count(engine, engine.table, list(NAMES))
    finally:
        engine.close()
    found = answer("SELECT COUNT(*) FROM census WHERE sex = 'M'", counted, SCHEMA)
    assert found == AnswerBounds(2, 4, 3)


CLASSES = "aaabbbccc"


def measured(values: Sequence[object], column: Column) -> dict[str, object]:
    """Three classes of three rows each, whose quasi-identifier is named by a letter."""
    quasi = Column("class", Kind.TEXT, Role.QUASI, Values(("a", "b", "c")))
    table = frequencies(("class", column.name), list(zip(CLASSES, values, strict=True)))
    found = measure_counts(table, [quasi, column])
    assert (found.k, found.classes, found.reference) == (3, 3, "release")
    return dict(found.sensitive[column.name])


def test_salaries_are_one_sixth_close() -> None:
    column = Column("salary", Kind.INTEGER, Role.SENSITIVE)
    found = measured([3, 5, 9, 6, 8, 11, 4, 7, 10], column)
    assert found["t_ordered"] == pytest.approx(1 / 6, abs=1e-15)
    assert found["distinct"] == found["folk"] == 3
    assert found["entropy"] == pytest.approx(3)


@pytest.mark.parametrize(("height", "close"), [(4, 5 / 18), (3, 8 / 27)])
def test_diseases_by_organ_in_trees_of_two_heights(height: int, close: float) -> None:
    ills = ["gastric ulcer", "gastritis", "stomach cancer", "bronchitis", "flu", "pneumonia"]
    ways = [
        tuple(f"{'stomach' if place < 3 else 'lung'} {level}" for level in range(1, height))
        for place in range(6)
    ]
    tree = Tree(tuple(ills), tuple((*way, "*") for way in ways))
    column = Column("disease", Kind.TEXT, Role.SENSITIVE, hierarchy=tree)
    rows = [0, 2, 5, 1, 4, 3, 3, 1, 2]
    found = measured([ills[place] for place in rows], column)
    assert found["t_hierarchy"] == pytest.approx(close, abs=1e-15)


ZIPS = ["13053", "13068", "13068", "13053", "14853", "14853", "14850", "14850"]
ZIPS += ["13053", "13053", "13068", "13068"]
AGES = [28, 29, 21, 23, 50, 55, 47, 49, 31, 37, 36, 35]
ILLS = ["heart", "heart", "viral", "viral", "cancer", "heart", "viral", "viral", *["cancer"] * 4]
PATIENTS = list(zip(ZIPS, AGES, ILLS, strict=True))


def _age(age: int) -> tuple[str, str, str]:
    young = "<30" if age < 30 else "3*" if age < 40 else ">40"
    return young, "<40" if age < 40 else ">40", "*"


MEDICAL = (
    Column(
        "zip",
        Kind.TEXT,
        Role.QUASI,
        hierarchy=Tree(
            tuple(sorted(set(ZIPS))),
            tuple((f"{z[:4]}*", "130**" if z < "14" else "1485*", "*") for z in sorted(set(ZIPS))),
        ),
    ),
    Column(
        "age",
        Kind.INTEGER,
        Role.QUASI,
        hierarchy=Tree(tuple(sorted(AGES)), tuple(map(_age, sorted(AGES)))),
    ),
    Column("ill", Kind.TEXT, Role.SENSITIVE),
)


@pytest.mark.parametrize(
    ("criteria", "levels", "k", "distinct"),
    [
        ([KAnonymity(4)], (2, 1), 4, 1),
        ([KAnonymity(4), DistinctDiversity(3, of="ill")], (1, 2), 4, 3),
    ],
)
def test_medical_tables_measure_as_the_slides_say(
    criteria: list[Criterion], levels: tuple[int, int], k: int, distinct: int
) -> None:
    """The 4-anonymous table has a class of cancer alone; the other table has 3 ills in each."""
    original = frequencies(("zip", "age", "ill"), PATIENTS)
    taxonomies = {column.name: grow(column, []) for column in MEDICAL[:2]}
    found = run(Problem.build(original, taxonomies, ("zip", "age"), criteria), "incognito")
    assert dict(zip(("zip", "age"), levels, strict=True)) in (found.minimal or ())
    labels = [
        dict(
            zip(
                map(str, tree.leaves),
                (tree.labels[level][c] for c in tree.codes[:, level]),
                strict=True,
            )
        )
        for tree, level in zip(taxonomies.values(), levels, strict=True)
    ]
    release = frequencies(
        ("zip", "age", "ill"), [(labels[0][z], labels[1][str(a)], i) for z, a, i in PATIENTS]
    )
    alone = measure_counts(release, MEDICAL)
    against = measure_counts(release, MEDICAL, original=original)
    for one in (alone, against):
        assert one.k == k
        assert one.sensitive["ill"]["distinct"] == distinct
    assert against.cost["suppressed"] == 0
    if found.levels == dict(zip(("zip", "age"), levels, strict=True)):
        # 1485* is a label of two levels, of which a table does not tell.
        assert (against.cost["precision"] or 0) < found.cost["precision"]
        same = {name: cost for name, cost in found.cost.items() if name != "precision"}
        assert {name: against.cost[name] for name in same} == pytest.approx(same)
