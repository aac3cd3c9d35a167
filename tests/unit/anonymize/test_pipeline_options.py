"""Each algorithm refuses the options that it would ignore, and records only what it used."""

from __future__ import annotations

import signal
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize.perturbative_release import PERTURBATIVE
from sfumato.anonymize.pipeline import anonymize
from sfumato.anonymize.search import SEARCHES
from sfumato.errors import CriterionError, ParameterError
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from sfumato.data.schema.schema import Schema
    from sfumato.release.open_table import Table

PEOPLE = pa.table(
    {
        "name": [f"person {number}" for number in range(24)],
        "age": [0] * 24,
        "zip": [f"5{number % 5}{number % 7}0{number % 3}" for number in range(24)],
        "disease": [("flu", "cold", "gout", "none")[number % 4] for number in range(24)],
        "visits": [1] * 24,
        "salary": [1000] * 24,
    }
)
GIVEN: dict[str, Any] = {
    "cost": "loss",
    "suppress": "0.1",
    "suppressed": "star",
    "sensitive": ["disease"],
    "weights": {"age": 2.0},
    "refine": True,
    "limit_seconds": 10,
}
TAKES = {name: one.takes for name, one in SEARCHES.items()}
TAKES |= {name: one.takes for name, one in PERTURBATIVE.items()}
IGNORED = [(name, option) for name in TAKES for option in GIVEN if option not in TAKES[name]]


@pytest.mark.parametrize(("algorithm", "option"), IGNORED)
def test_what_would_be_ignored_is_refused(people: Table, algorithm: str, option: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        people.anonymize(sf.KAnonymity(2), algorithm=algorithm, **{option: GIVEN[option]})
    if option == "sensitive":
        assert f"sensitive= has no effect on {algorithm!r} without l=" in refusal.value.message
        return
    assert refusal.value.code == "option_not_applicable"
    keyword = option if option == "weights" else f"{option}="
    assert f"{algorithm!r} does not take {keyword}" in refusal.value.message


def test_a_population_that_nobody_asks_about_is_refused(people: Table) -> None:
    with pytest.raises(ParameterError) as refusal:
        people.anonymize(sf.KAnonymity(2), population=people)
    assert refusal.value.code == "option_not_applicable"


@pytest.mark.parametrize("algorithm", list(SEARCHES))
def test_provenance_has_what_was_used_and_nothing_else(people: Table, algorithm: str) -> None:
    if algorithm == "meyerson-williams":
        pytest.skip("24 rows are too many for it, and it has mondrian's options")
    parameters = anonymize(people, [sf.KAnonymity(2)], algorithm=algorithm).parameters
    assert set(parameters) == TAKES[algorithm] - {"population"}
    chosen = {"sweeney": "precision", "k-optimize": "discernability"}
    if "cost" in TAKES[algorithm]:
        assert parameters["cost"] == chosen.get(algorithm, "loss")


def test_without_suppression_nobody_is_told_to_allow_it(people: Table) -> None:
    with pytest.raises(CriterionError) as refusal:
        people.anonymize(sf.FolkDiversity(5, "disease"), algorithm="mondrian")
    assert "suppresses no rows" in refusal.value.message
    assert "rows suppressed" not in refusal.value.message


def test_a_search_that_ran_to_its_end_says_what_it_proved(people: Table) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], suppress="0.1")
    assert decided.figures["ended"] is None
    assert decided.remarks == ("Proven optimal: no release of its kind has less loss.",)
    boxes = anonymize(people, [sf.KAnonymity(3)], algorithm="mondrian")
    assert boxes.remarks == ()


def test_a_search_that_was_cut_off_says_so_everywhere(people: Table) -> None:
    decided = anonymize(people, [sf.KAnonymity(3)], suppress="0.1", limit_seconds=0)
    figures = decided.figures
    assert (figures["ended"], figures["optimal"]) == ("time", False)
    best = anonymize(people, [sf.KAnonymity(3)], suppress="0.1").figures["cost"]["loss"]
    assert best is not None
    assert figures["bound"] is not None
    assert figures["factor"] is not None
    assert figures["cost"]["loss"] is not None
    assert figures["bound"] <= best <= figures["cost"]["loss"]
    assert figures["cost"]["loss"] <= figures["factor"] * best * (1 + 1e-12)
    (note,) = decided.remarks
    assert note.startswith("Not proven optimal")
    assert note.endswith("the search was ended by its time limit.")
    assert "optimal" not in decided.guarantee.statement


@pytest.mark.parametrize(
    "algorithm", ["incognito", "sweeney", "mondrian", "mondrian-relaxed", "k-optimize"]
)
def test_ctrl_c_keeps_the_best_so_far(people: Table, algorithm: str) -> None:
    before, told = signal.getsignal(signal.SIGINT), []

    def interrupt(done: float, _total: float) -> None:
        told.append(done)
        if len(told) == 1:
            signal.raise_signal(signal.SIGINT)

    decided = anonymize(people, [sf.KAnonymity(3)], algorithm=algorithm, progress=interrupt)
    assert signal.getsignal(signal.SIGINT) is before
    assert (decided.figures["ended"], decided.figures["optimal"]) == ("interrupted", False)
    assert decided.remarks[-1].endswith("the search was interrupted.")
    table = decided.release().table
    labels = list(zip(table["age"].to_pylist(), table["zip"].to_pylist(), strict=True))
    assert min(map(labels.count, labels)) >= 3


def test_ctrl_c_while_looking_for_the_optimum(schema: Schema) -> None:
    """After the first node a bound is known, and the root is released at the latest."""
    rows = PEOPLE.set_column(1, "age", [[n * 7 % 100 for n in range(PEOPLE.num_rows)]])
    told = []

    def interrupt(done: float, _total: float) -> None:
        told.append(done)
        if len(told) == 1:
            signal.raise_signal(signal.SIGINT)

    criteria = [sf.KAnonymity(2), sf.EntropyDiversity(2, "disease")]
    with closing(read(rows, schema)) as table:
        decided = anonymize(table, criteria, suppress="0.3", progress=interrupt)
    assert (decided.figures["ended"], decided.figures["optimal"]) == ("interrupted", False)
    assert decided.figures["bound"] is not None


def test_a_second_ctrl_c_ends_everything(people: Table) -> None:
    def twice(_done: float, _total: float) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        anonymize(people, [sf.KAnonymity(3)], progress=twice)


@pytest.mark.parametrize("algorithm", ["optimal", "permute"])
@pytest.mark.parametrize(
    ("limit", "code"),
    [
        (float("nan"), "parameter_type_wrong"),
        (float("inf"), "parameter_out_of_range"),
        (float("-inf"), "parameter_out_of_range"),
        (Decimal("1e400"), "parameter_out_of_range"),
        (-1, "parameter_out_of_range"),
        (-0.5, "parameter_out_of_range"),
        (True, "parameter_type_wrong"),
        ("soon", "parameter_type_wrong"),
    ],
)
def test_no_clock_keeps_such_a_limit(people: Table, algorithm: str, limit: Any, code: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        people.anonymize(sf.KAnonymity(2), algorithm=algorithm, limit_seconds=limit)
    assert refusal.value.code == code
    assert "limit_seconds" in refusal.value.message


@pytest.mark.parametrize("algorithm", sorted(SEARCHES))
def test_without_any_time_there_is_a_release(people: Table, algorithm: str) -> None:
    release = people.anonymize(sf.KAnonymity(2), algorithm=algorithm, limit_seconds=0)
    assert release.table.num_rows == 24
    assert release.holder is not None
    if algorithm == "k-optimize":
        assert release.holder["figures"]["ended"] == "time"
