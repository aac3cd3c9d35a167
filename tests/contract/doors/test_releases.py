"""What is published, watched and made up is the same by both doors, and so is its use."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.contract.doors.alike import assert_alike
from tests.contract.doors.conftest import FIRST, LAST, REMOTE
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.release.sidecar import sidecar_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.doors.conftest import Doors

    from sfumato.vault.vault_api import AnyVault

AGES = np.array([[[0, 17]], [[18, 64]], [[65, 110]]])
DAYS = [[[date(1951, 1, 1), date(1952, 6, 30)]], [[FIRST, LAST]]]

PUBLICATIONS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "nothing said": ("histogram", {"columns": "age"}, AGES),
    "chosen": ("auto", {"columns": ["smoker"], "epsilon": 0.1}, [[[False, True]]]),
    "workload": ("tree", {"columns": ["age"], "workload": AGES, "epsilon": 0.1}, AGES),
    "dates": (
        "histogram",
        {"columns": ["born"], "workload": DAYS, "rho": "1/1000", "delta": 1e-8},
        DAYS,
    ),
    "days": ("wavelet", {"columns": ["born"], "epsilon": 0.1}, np.array(DAYS, "datetime64[ns]")),
    "reals": ("wavelet", {"columns": ["income"], "epsilon": 0.1}, [[[0.5, 20.0]]]),
    "texts": (
        "histogram",
        {"columns": "city,smoker", "workload": [[["Ulm", "Ulm"], [True, True]]], "epsilon": 0.1},
        [[["Ulm", "Bonn"], [False, True]]],
    ),
    "options": (
        "marginals",
        {"columns": ["age", "city", "smoker"], "way": 2, "epsilon": 0.1},
        None,
    ),
    "steps": (
        "histogram",
        {"columns": ["city"], "postprocess": ["nonnegative", "integer"], "rho": 0.001},
        None,
    ),
    "boxes": ("quadtree", {"columns": ["age", "income"], "epsilon": 0.1}, [[[0, 9], [0, 50]]]),
    "quantiles": (
        "quantiles",
        {"columns": ["age"], "ranks": [0.25, 0.5, 0.1 + 0.2], "epsilon": 0.1},
        None,
    ),
    "sparse": ("sparse", {"columns": ["age", "income"], "epsilon": 0.1, "delta": 1e-8}, None),
}


@pytest.mark.parametrize("name", few_fast(PUBLICATIONS, 5))
def test_a_publication_is_the_same_by_both_doors(
    local: AnyVault, remote: AnyVault, name: str
) -> None:
    kind, asked, ranges = PUBLICATIONS[name]
    ours, theirs = (one.plan(kind, "people", **asked) for one in (local, remote))
    assert repr(ours) == repr(theirs)
    assert ours.parameters == theirs.parameters
    assert ours.error == theirs.error
    fresh = remote.publish(kind, "people", **asked)
    again = local.publish(kind, "people", **asked)
    assert (fresh.charged, again.charged) == (True, False)
    assert_alike(fresh, again)
    if ranges is not None:
        assert fresh.ranges(ranges).tolist() == again.ranges(ranges).tolist()


def test_a_plan_is_published_by_the_door_that_made_it(local: AnyVault, remote: AnyVault) -> None:
    planned = remote.private("people").plan("wavelet", columns=["income"], epsilon="0.07")
    left, words = remote.private("people").left_after(planned)
    fresh = remote.private("people").publish_planned(planned)
    assert (fresh.remaining, fresh.balance) == (left, words)
    assert_alike(fresh, local.publish("wavelet", "people", columns=["income"], epsilon="0.07"))
    with pytest.raises(SfumatoError) as foreign:
        local.private("people").publish_planned(planned)
    assert foreign.value.code == "plan_foreign"
    other = local.private("people").plan("wavelet", columns=["income"], epsilon="0.08")
    with pytest.raises(SfumatoError) as foreign:
        remote.private("people").publish_planned(other)
    assert foreign.value.code == "plan_foreign"


def test_ranges_are_watched_alike(local: AnyVault, remote: AnyVault) -> None:
    asked: dict[str, Any] = {"columns": "age", "workload": AGES, "threshold": 40, "at_most": 2}
    fresh = remote.private("people").above(**asked, epsilon=0.3)
    assert_alike(fresh, local.private("people").above(**asked, epsilon=0.3))


def test_a_workload_in_a_file_of_this_machine_is_sent(
    local: AnyVault, remote: AnyVault, tmp_path: Path
) -> None:
    ranges, sets = tmp_path / "ranges.csv", tmp_path / "sets.txt"
    ranges.write_text("born_low,born_high\n1951-01-01,1952-06-30\n1950-01-01,1959-12-31\n")
    sets.write_text("age,city\ncity,smoker\n")
    asked: dict[str, Any] = {"columns": "born", "workload": ranges, "epsilon": 0.09}
    fresh = remote.publish("histogram", "people", **asked)
    assert_alike(fresh, local.publish("histogram", "people", **{**asked, "workload": DAYS}))
    made = remote.synthesize("people", workload=str(sets), epsilon=0.2, rows=20)
    named = [["age", "city"], ["city", "smoker"]]
    assert_alike(made, local.synthesize("people", workload=named, epsilon=0.2, rows=20))


SYNTHESES: dict[str, dict[str, Any]] = {
    "independent": {"method": "independent", "epsilon": 0.3, "rows": 30},
    "target": {"method": "mst", "target": "smoker", "rho": "0.01", "delta": 1e-8, "rows": 30},
    "quantiles": {"columns": ["age", "city"], "quantiles": "age", "epsilon": 0.2},
}


@pytest.mark.parametrize("name", SYNTHESES)
def test_a_synthesis_is_the_same_by_both_doors(
    local: AnyVault, remote: AnyVault, name: str, tmp_path: Path
) -> None:
    asked = SYNTHESES[name]
    ours, theirs = (one.private("people").plan_synthesis(**asked) for one in (local, remote))
    assert ours.to_json() == theirs.to_json()
    fresh, again = remote.synthesize("people", **asked), local.synthesize("people", **asked)
    assert (fresh.charged, again.charged) == (True, False)
    assert_alike(fresh, again)
    question = "SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY city"
    assert fresh.query(question).equals(again.query(question))
    for door, made in (("here", again), ("there", fresh)):
        folder = tmp_path / door
        folder.mkdir()
        made.save(folder / "twin.csv", model=folder / "model.arrow")
    for file in ("twin.csv", "model.arrow", sidecar_file(tmp_path / "twin.csv").name):
        assert (tmp_path / "here" / file).read_bytes() == (tmp_path / "there" / file).read_bytes()


def test_a_pair_of_tables_is_the_same_by_both_doors(local: AnyVault, remote: AnyVault) -> None:
    asked: dict[str, Any] = {
        "columns": ["age", "city"],
        "child": "visits",
        "key": "id",
        "method": "independent",
        "epsilon": 0.5,
    }
    fresh: Any = remote.synthesize("people", **asked)
    assert_alike(fresh, local.synthesize("people", **asked))
    assert [*fresh.models] == ["people", "visits"]


def test_what_needs_the_rows_is_refused_elsewhere(remote: AnyVault) -> None:
    before = remote.accounts()
    private = remote.private("people")
    for ask in (
        lambda: private.publish("histogram", columns="age", epsilon=1, require="link<0.5"),
        lambda: private.synthesize(epsilon=1, attacks=True),
        lambda: private.check_all([private.plan("histogram", columns="age", epsilon=1)]),
        private.owners_rows,
    ):
        with pytest.raises(sf.SfumatoError) as refused:
            ask()
        assert refused.value.code == "rows_elsewhere"
    assert remote.accounts() == before


def test_jobs_and_releases_are_had_again_by_both_doors(local: Any, remote: Any) -> None:
    asked: dict[str, Any] = {"columns": ["city"], "epsilon": 0.11, "request_id": "again"}
    made = remote.publish("histogram", "people", **asked)
    [job] = [one for one in remote.jobs.list() if one.request_id == "again"]
    assert job == remote.jobs.wait(job) == local.jobs.get(job.id)
    assert remote.jobs.cancel(job) == job, "what has ended stays as it is"
    ours, theirs = local.releases.get(job.release), remote.releases.get(job.release)
    assert ours.to_json()["release"] in {one.id for one in remote.releases.list()}
    assert_alike(theirs.answer(), ours.answer())
    assert_alike(theirs.release, made)
    assert theirs.files == ours.files
    for name in ours.files:
        assert theirs.file(name) == ours.file(name)
    assert theirs.described() == ours.described()
    assert [repr(one) for one in (theirs, remote.jobs, remote.releases)]
    for vault in (local, remote):
        for kept, code in ((vault.jobs, "job_unknown"), (vault.releases, "release_unknown")):
            with pytest.raises(SfumatoError) as refused:
                kept.get("0" * 32)
            assert refused.value.code == code
    for found in (ours, theirs):
        for odd in ("relase.csv", "../../people.parquet", "%2e%2e"):
            with pytest.raises(SfumatoError) as refused:
                found.file(odd)
            assert refused.value.code == "release_unknown"


def test_a_release_that_was_opened_is_had_by_others(doors: Doors, remote: Any) -> None:
    made = remote.publish("histogram", "people", columns="city", epsilon=0.05, request_id="open")
    [release] = [one.release for one in remote.jobs.list() if one.request_id == "open"]
    with doors.open(REMOTE, "ann") as ann:
        with pytest.raises(SfumatoError) as refused:
            ann.releases.get(release)
        assert refused.value.code == "release_unknown"
        doors.vault.releases.open_to(release, "ann", operator="root")
        found = ann.releases.get(release)
        assert not found.is_own
        assert found.release.table.to_pylist() == made.table.to_pylist()
        assert found.release.guarantee.statement == made.guarantee.statement
