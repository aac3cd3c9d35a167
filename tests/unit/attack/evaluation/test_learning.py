"""What is learned from a synthetic table, tried on rows of the original."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.attack.evaluation import learning
from sfumato.errors import ParameterError

pytest.importorskip("sklearn", reason="scikit-learn is not installed")


def people(seed: int, *, shuffled: bool = False) -> pd.DataFrame:
    """People whose illness follows from their age and job, or does not."""
    draw = np.random.default_rng(seed)
    age, job = draw.integers(0, 100, 2_000), draw.integers(0, 3, 2_000)
    ill = (age > 60) ^ (job == 1)
    frame = pd.DataFrame({"age": age, "job": np.array(["a", "b", "c"])[job], "ill": ill})
    return frame.assign(ill=draw.permutation(ill)) if shuffled else frame


SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 99)),
        sf.Column("job", sf.Kind.TEXT, domain=sf.Values(("a", "b", "c"))),
        sf.Column("ill", sf.Kind.BOOLEAN),
    ),
)


def test_a_good_table_teaches_what_the_original_does_and_a_shuffled_one_nothing() -> None:
    with sf.read(people(1), SCHEMA) as original:
        good = sf.evaluate(people(2), original, target="ill")
        bad = sf.evaluate(people(3, shuffled=True), original, target="ill")
    assert good.learned is not None
    assert bad.learned is not None
    assert good.learned.best == "gradient boosting"
    assert good.learned.real > 0.95
    assert good.learned.synthetic > 0.95
    assert bad.learned.synthetic < bad.learned.baseline + 0.1 < 0.8
    assert good.told_apart is not None
    assert bad.told_apart is not None
    assert abs(good.told_apart - 0.5) < 0.08
    assert bad.told_apart > 0.7


def test_it_says_the_same_twice() -> None:
    with sf.read(people(1), SCHEMA) as original:
        once, again = (sf.evaluate(people(2), original, target="ill").json() for _ in range(2))
    assert once == again


def test_a_number_is_learned_as_above_or_below_its_middle() -> None:
    with sf.read(people(1), SCHEMA) as original:
        found = sf.evaluate(people(2), original, target="age").learned
    assert found is not None
    assert found.question.startswith("whether age is above ")
    assert found.baseline == pytest.approx(0.5, abs=0.05)


def test_a_synthetic_table_of_one_answer_teaches_to_give_it() -> None:
    with sf.read(people(1), SCHEMA) as original:
        found = sf.evaluate(people(2).assign(ill=True), original, target="ill").learned
    assert found is not None
    assert found.synthetic == pytest.approx(1 - found.baseline, abs=0.01) or (
        found.synthetic == pytest.approx(found.baseline)
    )


@pytest.mark.parametrize(
    ("target", "code"), [("illl", "column_unknown"), ("none", "column_unsuitable")]
)
def test_what_cannot_be_learned_is_refused(target: str, code: str) -> None:
    columns = (*SCHEMA.columns, sf.Column("none", sf.Kind.BOOLEAN))
    real, made = (people(seed).assign(none=True) for seed in (1, 2))
    schema = sf.Schema("people", columns)
    with sf.read(real, schema) as original, pytest.raises(ParameterError) as refused:
        sf.evaluate(made, original, target=target)
    assert refused.value.code == code
    assert "--" not in refused.value.message


def test_without_the_library_all_else_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "find_spec", lambda _: None)
    with sf.read(people(1), SCHEMA) as original:
        found = sf.evaluate(people(2), original)
        with pytest.raises(ParameterError) as refused:
            sf.evaluate(people(2), original, target="ill")
    assert found.told_apart is None
    assert found.propensity is not None
    assert refused.value.code == "package_missing"
