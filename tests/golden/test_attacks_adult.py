"""Attacks on Adult, raw, k-anonymous and bucketized: rates in the order that the papers say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato.attack.finding import Finding
from sfumato.attack.runner import attack

if TYPE_CHECKING:
    from sfumato.data.schema.schema import Schema

ADULT = Path(__file__).parents[2] / "../shared/data/adult"
QUASI = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass")

pytestmark = pytest.mark.skipif(
    not ADULT.is_dir(), reason="the shared Adult data is not beside the repository"
)


def declared(folder: Path, sensitive: str) -> Schema:
    """Eight quasi-identifiers with their hierarchies, and what is sensitive."""
    text = ['table = "adult"']
    for name in (*QUASI, "occupation", "salary-class"):
        role = "sensitive" if name == sensitive else "quasi"
        kind = "integer" if name == "age" else "text"
        path = (ADULT / f"adult_hierarchy_{name}.csv").resolve()
        text += [f'[columns."{name}"]', f'role = "{role}"', f'kind = "{kind}"']
        text += [f'hierarchy = {{ file = "{path}" }}']
    (folder / "adult.toml").write_text("\n".join(text))
    return sf.Schema.load(folder / "adult.toml")


def found(name: str, release: Any, schema: Schema) -> Finding:
    told = attack(name, release, schema, original=ADULT / "adult.csv")
    assert isinstance(told, Finding)
    return told


def test_linking_by_eight_columns_raw_five_anonymous_and_synthetic(tmp_path: Path) -> None:
    """Rates in the order of what was done: 60 %, 1.3 % and nobody."""
    schema = declared(tmp_path, "salary-class")
    raw = found("link", ADULT / "adult.csv", schema)
    assert raw.success.value > 0.55
    with sf.read(ADULT / "adult.csv", schema) as people:
        people.anonymize(k=5, suppress="0.05").save(tmp_path / "safe.csv")
        private = sf.protect(people, epsilon=2, delta=1e-5)
        private.synthesize(epsilon=1, delta=1e-6).save(tmp_path / "twin.csv")
    safe = found("link", tmp_path / "safe.csv", schema)
    assert safe.success.value <= 1 / 5
    assert safe.success.high < raw.success.low
    assert raw.victims > 0 == safe.victims
    twin = found("link", tmp_path / "twin.csv", schema)
    assert twin.success.high < safe.success.low
    assert (twin.success.low, twin.victims) == (0, 0)


def test_definetti_beats_anatomy(tmp_path: Path) -> None:
    """Kifer 2009: occupations in groups of five are guessed better than one in five."""
    schema = declared(tmp_path, "occupation")
    with sf.read(ADULT / "adult.csv", schema) as people:
        people.anonymize(l=5, algorithm="anatomy").save(tmp_path / "buckets")
    told = found("definetti", tmp_path / "buckets", schema)
    assert told.baseline.value == pytest.approx(0.2, abs=0.02)
    assert told.success.low > 0.25
