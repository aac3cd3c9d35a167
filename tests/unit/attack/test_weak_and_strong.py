"""Every attack beats a guess on its planted weak release, and is a guess on the strong one.

The table says where: here, by the functions below, or in the tests that it names.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from sfumato.attack.registry import ATTACKS
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Tree
from sfumato.data.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]
    Rows = dict[str, list[Any]]

SIZE = 300
ORGANS = ("ulcer", "gastritis", "flu", "bronchitis")
SCHEMA = Schema(
    "people",
    (
        Column("name", Kind.TEXT, Role.IDENTIFIER),
        Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, SIZE - 1)),
        Column("ward", Kind.TEXT, Role.QUASI, Values(tuple(f"w{n}" for n in range(75)))),
        Column("ill", Kind.TEXT, Role.SENSITIVE, Values(("asthma", "cancer", "flu", "gout"))),
        Column(
            "organ",
            Kind.TEXT,
            Role.SENSITIVE,
            hierarchy=Tree(ORGANS, tuple((("stomach", "lung")[n // 2], "*") for n in range(4))),
        ),
        Column("pay", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 9999)),
    ),
)


def people() -> Rows:
    """Ages are people's own; four to a ward, and nothing else goes together."""
    draws = np.random.default_rng(3)
    return {
        "name": [f"p{n}" for n in range(SIZE)],
        "age": list(range(SIZE)),
        "ward": [f"w{n // 4}" for n in range(SIZE)],
        "ill": draws.choice(["asthma", "cancer", "flu", "gout"], SIZE).tolist(),
        "organ": draws.choice(ORGANS, SIZE).tolist(),
        "pay": draws.integers(0, 10_000, SIZE).tolist(),
    }


def raw() -> Rows:
    return {name: values for name, values in people().items() if name != "name"}


def starred() -> Rows:
    return raw() | {"age": ["*"] * SIZE, "ward": ["*"] * SIZE}


def in_wards(**values: list[Any]) -> Rows:
    """Classes are wards alone."""
    return {"ward": people()["ward"], **values}


def one_to_a_ward() -> Rows:
    kinds = [("asthma", "cancer", "flu", "gout")[n // 4 % 4] for n in range(SIZE)]
    return in_wards(ill=kinds)


def two_to_a_ward() -> Rows:
    """Two illnesses in each; of the four no ward has more."""
    kinds = ("asthma", "cancer", "flu", "gout")
    return in_wards(ill=[kinds[(n // 4 + n % 2) % 4] for n in range(SIZE)])


def rare_in_few_wards() -> Rows:
    """Cancer is that of one in 25, and in three wards of all."""
    return in_wards(ill=["cancer" if n < 12 else ("flu", "gout")[n % 2] for n in range(SIZE)])


def alike_in_wards() -> Rows:
    return in_wards(organ=[ORGANS[n // 4 % 2 * 2 + n % 2] for n in range(SIZE)])


def near_in_wards() -> Rows:
    return in_wards(pay=[n // 4 % 10 * 1000 + n % 4 for n in range(SIZE)])


def ills() -> Rows:
    return in_wards(ill=people()["ill"])


class Planted(NamedTuple):
    """Two releases, and what an attack is given besides."""

    weak: Callable[[], Rows]
    strong: Callable[[], Rows]
    given: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


HERE: dict[str, list[Planted]] = {
    "link": [Planted(raw, starred, ("known", "original"))],
    "link-fuzzy": [Planted(raw, starred, ("known", "original"))],
    "uniqueness": [Planted(raw, starred, ("known",))],
    "homogeneity": [Planted(one_to_a_ward, ills)],
    "background": [Planted(two_to_a_ward, ills)],
    "skewness": [Planted(rare_in_few_wards, ills, options=(("gain", 15.0),))],
    "similarity": [
        Planted(alike_in_wards, lambda: in_wards(organ=people()["organ"])),
        Planted(near_in_wards, lambda: in_wards(pay=people()["pay"])),
    ],
    "predict": [Planted(one_to_a_ward, starred, ("original",), (("sensitive", "ill"),))],
    "join": [Planted(raw, starred, ("original", "other", "other_original"))],
}

ELSEWHERE = {
    "minimality": (
        "test_inference.py",
        "test_minimality_breaks_a_release_that_stopped_as_soon_as_it_could",
        "test_minimality_is_wrong_about_a_release_that_was_merged_anyway",
    ),
    "definetti": (
        "test_inference.py",
        "test_definetti_beats_the_bucket_where_traits_tell_of_values",
        "test_definetti_learns_nothing_from_columns_that_are_independent",
    ),
    "composition": ("test_inference.py", *["test_two_releases_say_what_neither_says"] * 2),
    "downcoding": (
        "test_inference.py",
        "test_downcoding_takes_minimal_labels_back",
        "test_downcoding_fails_where_labels_are_coarser_than_need_be",
    ),
    **dict.fromkeys(
        ("differencing", "tracker"),
        (
            "test_games.py",
            "test_exact_answers_about_many_give_every_coin_away",
            "test_hardly_anything_is_paid_and_hardly_anything_is_learnt",
        ),
    ),
    "averaging": (
        "test_games.py",
        "test_a_door_that_charges_once_for_a_script_is_caught",
        "test_hardly_anything_is_paid_and_hardly_anything_is_learnt",
    ),
    "reconstruct": (
        "test_games.py",
        *["test_every_secret_is_reconstructed_from_exact_counts_and_none_at_the_door"] * 2,
    ),
    **dict.fromkeys(
        ("membership", "singling-out", "linkability", "inference", "copies"),
        (
            "test_synthetic.py",
            "test_a_release_that_keeps_people_is_caught",
            "test_a_release_of_other_people_tells_no_more_of_these_than_of_others",
        ),
    ),
    "scoreboard": (
        "test_other_data.py",
        "test_a_few_ratings_find_a_person",
        "test_ratings_dealt_out_anew_find_nobody",
    ),
    "path": ("test_other_data.py", *["test_points_are_looked_for_in_the_release"] * 2),
    "log": (
        "test_other_data.py",
        "test_people_who_search_for_themselves_are_found",
        "test_searches_without_names_find_nobody",
    ),
    "neighbourhood": (
        "test_other_data.py",
        *["test_a_star_shows_its_centre_and_a_ring_nobody"] * 2,
    ),
}


def test_the_table_has_every_attack() -> None:
    assert HERE.keys() | ELSEWHERE.keys() == ATTACKS.keys()
    assert not HERE.keys() & ELSEWHERE.keys()
    for file, *names in ELSEWHERE.values():
        tree = ast.parse((Path(__file__).parent / file).read_text())
        assert {*names} <= {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


CASES = [(name, number) for name, planted in HERE.items() for number in range(len(planted))]


def run(found: Attacked, name: str, planted: Planted, release: Rows) -> Finding:
    tables = {"known": people(), "original": people(), "other": raw(), "other_original": people()}
    if name == "predict":
        tables["original"] = people() | {k: v for k, v in release.items() if "*" not in v}
    given = {one: tables[one] for one in planted.given}
    return found(name, release, SCHEMA, **given, **dict(planted.options))


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_weak_release_is_broken(name: str, number: int, found: Attacked) -> None:
    planted = HERE[name][number]
    told = run(found, name, planted, planted.weak())
    assert told.beats_baseline
    assert told.victims > 0 or name == "predict"


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_strong_release_leaves_a_guess(name: str, number: int, found: Attacked) -> None:
    planted = HERE[name][number]
    told = run(found, name, planted, planted.strong())
    assert told.success.value <= told.baseline.high + 1e-9
    assert told.baseline.low <= told.success.high
    assert not told.beats_baseline
