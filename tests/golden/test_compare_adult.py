"""Adult raw, 5-anonymous and synthetic: linking by eight columns finds ever fewer of its people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.csv as csv
import pytest

import sfumato as sf

if TYPE_CHECKING:
    from sfumato.attack.comparison.result import Comparison

ADULT = Path(__file__).parents[2] / "../shared/data/adult"
SEVEN = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass")
QUASI = (*SEVEN, "occupation")
EVERY = 15
"""One in so many rows is taken."""

pytestmark = pytest.mark.skipif(
    not ADULT.is_dir(), reason="the shared Adult data is not beside the repository"
)


def declared(folder: Path) -> sf.Schema:
    text = ['table = "adult"']
    for name in (*QUASI, "salary-class"):
        role = "sensitive" if name == "salary-class" else "quasi"
        kind = "integer" if name == "age" else "text"
        path = (ADULT / f"adult_hierarchy_{name}.csv").resolve()
        text += [f'[columns."{name}"]', f'role = "{role}"', f'kind = "{kind}"', "nullable = false"]
        text += [f'hierarchy = {{ file = "{path}" }}']
    (folder / "adult.toml").write_text("\n".join(text))
    return sf.Schema.load(folder / "adult.toml")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("adult")
    rows = csv.read_csv(ADULT / "adult.csv", parse_options=csv.ParseOptions(delimiter=";"))
    rows = rows.take(list(range(0, len(rows), EVERY)))
    with sf.read(rows, declared(folder)) as people:
        safe = people.anonymize(k=5, suppress="0.05")
        twin = sf.protect(people, epsilon=1).synthesize(epsilon=1)
        made = sf.compare({"raw": people, "k = 5": safe, "epsilon 1": twin}, original=people)
    made.save_report(folder / "compare.html")
    return made


def test_linking_finds_ever_fewer(found: Comparison) -> None:
    raw, safe, twin = (one.findings["link"] for one in found)
    assert raw.success.value > 0.5
    assert raw.risk > 5 * safe.risk > 0
    assert safe.success.high < raw.success.low
    assert twin.risk <= safe.risk


def test_the_page_tells_the_three_rates(found: Comparison) -> None:
    from sfumato.attack.comparison.page import page
    from sfumato.attack.finding import percent

    text = page(found).replace("\u00a0", " ")
    for one in found:
        assert percent(one.findings["link"].success.value) in text
        assert f">{one.name}<" in text


def test_raw_is_useful_and_exposed_and_the_twin_is_neither_last(found: Comparison) -> None:
    raw, safe, twin = found.candidates
    assert raw.utility is not None
    assert twin.utility is not None
    assert safe.utility is not None
    assert raw.utility.kept == 1
    assert twin.utility.kept > safe.utility.kept
    assert (safe.k or 0) >= 5
    assert (twin.k, twin.epsilon) == (None, 1)
    assert raw in found.frontier
    assert twin in found.frontier
