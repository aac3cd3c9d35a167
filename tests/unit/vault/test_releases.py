"""Releases: whose they are, to whom they are opened, and what files they can be had as."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.vault.creation import create
from sfumato.vault.publications import Published
from sfumato.vault.registration import Registration
from sfumato.vault.releases import TOPIC
from sfumato.vault.syntheses import Synthesized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLINIC = Path("clinic")
PLACES = """\
table = "places"
[columns.lon]
role = "quasi"
kind = "real"
bounds = [-1, 1]
step = 0.25
hierarchy = { widths = [1, 2] }
nullable = false
[columns.lat]
role = "quasi"
kind = "real"
bounds = [-1, 1]
step = 0.25
hierarchy = { widths = [1, 2] }
nullable = false
[columns.ill]
role = "sensitive"
kind = "boolean"
nullable = false
"""


def make_clinic() -> None:
    Path("places.toml").write_text(PLACES)
    rows = [f"{(at % 9 - 4) / 4},{(at % 7 - 3) / 4},{at % 2 == 0}" for at in range(700)]
    Path("places.csv").write_text("\n".join(["lon,lat,ill", *rows]) + "\n")
    create(CLINIC)
    for name in ("visits", "places"):
        Registration(
            name=name, source=f"{name}.csv", schema=Path(f"{name}.toml"), epsilon=8, delta="1e-6"
        ).add_to(CLINIC)
    with sf.open(CLINIC) as opened:
        for name in ("ann", "bob"):
            given: dict[str, Any] = {"epsilon": 4, "delta": "1e-7", "population": "visits"}
            opened.people.add(name, "permanent-staff", **given, operator="me")
        opened.people.add("eve", "public", operator="me")


@pytest.fixture
def vault(
    as_made: Callable[[Callable[[], None]], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[sf.Vault]:
    """Data sets 'visits' and 'places'; ann and bob may publish, eve may download alone."""
    monkeypatch.chdir(as_made(make_clinic))
    with sf.open(CLINIC) as opened:
        yield opened


def made(vault: sf.Vault, family: str = "publish", dataset: str = "visits", **said: Any) -> str:
    """The name of a release that a job gave."""
    usual = {"kind": "histogram", "columns": ["city"]} if family == "publish" else {}
    job = vault.jobs.submit(family, dataset, **{**usual, **said})
    vault.jobs.work()
    done = vault.jobs.get(job)
    assert done.release is not None, done.error
    return done.release


def names(vault: sf.Vault, principal: str) -> list[str]:
    return [one.id for one in vault.releases.list(principal=principal)]


def test_a_release_is_there_for_whom_it_was_made_and_for_the_owner(vault: sf.Vault) -> None:
    release = made(vault, principal="ann")
    assert names(vault, "ann") == names(vault, "owner") == [release]
    assert names(vault, "bob") == names(vault, "eve") == []
    words = []
    for name in (release, "0" * 16, "../vault.toml"):
        with pytest.raises(sf.SfumatoError) as refusal:
            vault.releases.get(name, principal="bob")
        words.append((refusal.value.code, str(refusal.value).replace(name, "...")))
    assert len(set(words)) == 1
    own = vault.releases.get(release, principal="ann")
    assert (own.is_own, own.principal, own.opened_to) == (True, "ann", None)


def test_who_had_it_made_is_not_told_to_those_it_is_opened_to(vault: sf.Vault) -> None:
    release = made(vault, principal="ann")
    opened = vault.releases.open_to(release, ["bob", "eve"], operator="the board")
    assert opened.opened_to == ("bob", "eve")
    assert names(vault, "bob") == names(vault, "eve") == [release]
    for who in ("bob", "eve"):
        seen = vault.releases.get(release, principal=who)
        told = seen.described()
        assert "ann" not in json.dumps(told)
        assert not told["own"]
        assert told.keys().isdisjoint({"principal", "opened_to", "receipt"})
        assert seen.file("release.csv").content.startswith(b"city,count\n")
    records = [json.loads(one.body) for one in vault.ledger.entries()]
    assert [(one["operator"], one["value"]) for one in records if one.get("topic") == TOPIC] == [
        ("the board", {"to": ["bob", "eve"]})
    ]
    vault.releases.shut(release, operator="the board")
    assert names(vault, "bob") == names(vault, "eve") == []
    assert names(vault, "ann") == [release]
    assert vault.verify()["entries"] > 0


def test_no_file_of_an_opened_release_leads_to_who_had_it_made(vault: sf.Vault) -> None:
    release = made(vault, principal="ann")
    vault.releases.open_to(release, "bob", operator="the board")
    own = vault.releases.get(release, principal="ann")
    receipt = own.described()["receipt"]
    # Numbers of entries between two receipts would tell how much others do.
    assert len(receipt) == 64
    assert own.answer().receipt == receipt
    told = {}
    for who in ("ann", "bob"):
        kept = vault.releases.get(release, principal=who)
        files = [kept.file(name).content for name in ("release.csv", "report.html")]
        with zipfile.ZipFile(BytesIO(kept.file("release.zip").content)) as bundle:
            files += [bundle.read(name) for name in bundle.namelist()]
        kept.save(f"{who}.csv")
        files += [Path(f"{who}.csv.json").read_bytes(), repr(kept.release).encode()]
        told[who] = b"".join(files)
    assert told["ann"].count(receipt.encode()) > 1
    assert receipt.encode() not in told["bob"]
    assert b"'ann'" not in told["bob"]
    assert b'"ann"' not in told["bob"]
    found = vault.releases.get(release, principal="bob").release
    assert isinstance(found, Published)
    assert (found.receipt, found.entry, found.balance, found.remaining) == (None, "", "", {})


def test_the_public_is_whoever_may_download(vault: sf.Vault) -> None:
    release = made(vault)
    vault.people.add("mute", "external", shapes="explain", operator="me")
    vault.releases.open_to(release, "public", operator="me")
    assert names(vault, "eve") == names(vault, "bob") == [release]
    assert names(vault, "mute") == []
    for name in (release, "0" * 16):
        assert code_of(vault.releases.get, name, principal="mute") == "permission_missing"
    vault.people.expire("eve", operator="me")
    assert code_of(vault.releases.get, release, principal="eve") == "principal_expired"
    assert code_of(vault.releases.open_to, release, "nobody", operator="me") == "reader_unknown"


def test_who_may_publish_but_not_download_has_their_own(vault: sf.Vault) -> None:
    vault.people.change("ann", shapes="publish", operator="me")
    release = made(vault, principal="ann")
    assert names(vault, "ann") == [release]
    vault.people.change("ann", shapes="explain", operator="me")
    assert names(vault, "ann") == []
    assert code_of(vault.releases.get, release, principal="ann") == "release_unknown"


def test_what_did_not_come_to_an_end_is_no_release(vault: sf.Vault) -> None:
    job = vault.jobs.submit("publish", "visits", kind="histogram", columns=["city"])
    assert code_of(vault.releases.get, job.id) == "release_unknown"
    vault.jobs.cancel(job)
    assert code_of(vault.releases.get, job.id) == "release_unknown"
    assert list(vault.releases.list()) == []


def test_a_table_is_the_same_in_every_file(vault: sf.Vault) -> None:
    kept = vault.releases.get(made(vault))
    rows = kept.release.table
    assert isinstance(kept.release, Published)
    expected = ("release.csv", "release.parquet", "release.arrow", "report.html", "release.zip")
    assert kept.files == expected
    files = {name: kept.file(name) for name in kept.files}
    csv = pa.csv.read_csv(BytesIO(files["release.csv"].content))
    assert csv.to_pylist() == rows.to_pylist()
    assert pa.parquet.read_table(BytesIO(files["release.parquet"].content)).to_pylist() == (
        rows.to_pylist()
    )
    with pa.ipc.open_file(files["release.arrow"].content) as arrow:
        assert arrow.read_all() == rows
    kept.release.save("mine.csv")
    assert files["release.csv"].content == Path("mine.csv").read_bytes()
    assert b"</html>" in files["report.html"].content
    with zipfile.ZipFile(BytesIO(files["release.zip"].content)) as bundle:
        assert bundle.namelist() == ["release.csv", "release.csv.json", "report.html"]
        assert bundle.read("release.csv") == files["release.csv"].content
        bundle.extractall("out")
    assert sf.Release.load("out/release.csv").table.to_pylist() == rows.to_pylist()
    assert kept.file("release.zip").content == files["release.zip"].content
    assert files["release.csv"].media == "text/csv; charset=utf-8"
    for wrong in ("nothing.csv", "../release.csv", "release.csv/", "", "release.CSV"):
        assert code_of(kept.file, wrong) == "release_unknown"


def test_a_release_is_saved_by_its_ending_and_never_over_what_is_in_use(vault: sf.Vault) -> None:
    kept = vault.releases.get(made(vault))
    for ending, name in (
        ("html", "report.html"),
        ("zip", "release.zip"),
        ("arrow", "release.arrow"),
    ):
        assert kept.save(f"out.{ending}") == [Path(f"out.{ending}")]
        assert Path(f"out.{ending}").read_bytes() == kept.file(name).content
        assert code_of(kept.save, f"out.{ending}") == "output_exists"
    assert kept.save("out.csv") == [Path("out.csv"), Path("out.csv.json")]
    sources = Path("visits.csv").read_bytes()
    assert code_of(kept.save, "visits.csv", overwrite=True) == "file_in_use"
    assert Path("visits.csv").read_bytes() == sources


def test_counts_of_words_have_no_map(vault: sf.Vault) -> None:
    release = made(vault, dataset="visits", kind="histogram", columns=["city", "cost"])
    kept = vault.releases.get(release)
    assert "release.geojson" not in kept.files
    assert all(kept.file(name).content for name in kept.files)


def test_boxes_are_a_map(vault: sf.Vault) -> None:
    release = made(vault, dataset="places", kind="quadtree", columns=["lon", "lat"])
    kept = vault.releases.get(release)
    assert "release.geojson" in kept.files
    kept.release.save("mine.geojson")
    assert json.loads(kept.file("release.geojson").content) == json.loads(
        Path("mine.geojson").read_text()
    )


def test_several_tables_are_several_files_and_one_bundle(vault: sf.Vault) -> None:
    columns = ["lon", "lat", "ill"]
    kept = vault.releases.get(made(vault, dataset="places", kind="marginals", columns=columns))
    tables = list(kept.release.tables)
    assert len(tables) > 1
    assert kept.files[:3] == tuple(f"{tables[0]}.{one}" for one in ("csv", "parquet", "arrow"))
    csv = kept.file(f"{tables[1]}.csv").content
    assert pa.csv.read_csv(BytesIO(csv)).num_rows == kept.release.tables[tables[1]].num_rows
    with zipfile.ZipFile(BytesIO(kept.file("release.zip").content)) as bundle:
        assert {f"release/{name}.csv" for name in tables} < set(bundle.namelist())


def test_a_synthesis_is_read_as_one_and_its_model_stays(vault: sf.Vault) -> None:
    asked: dict[str, Any] = {"columns": ["city", "cost"], "epsilon": 1, "rows": 50}
    kept = vault.releases.get(made(vault, "synthesize", **asked, method="independent"))
    assert isinstance(kept.release, Synthesized)
    assert kept.release.table.num_rows == 50
    assert kept.file("release.csv").content.count(b"\n") == 51
    answer = kept.answer()
    assert set(answer.tables) > {"rows"}  # as the gatekeeper gave it: whoever planned it reads it


def test_an_owner_anonymizes_and_what_is_theirs_alone_stays(vault: sf.Vault) -> None:
    release = made(vault, "anonymize", "places", k=5, l=2, by="the board")
    kept = vault.releases.get(release)
    assert kept.release.guarantee.kind == "syntactic"
    assert kept.release.holder is None
    direct = sf.read("places.csv", "places.toml").anonymize(k=5, l=2)
    assert kept.release.table.to_pylist() == direct.table.to_pylist()
    folder = vault.config.folder / "releases" / release
    assert folder.stat().st_mode & 0o077 == 0
    assert {one.name for one in folder.iterdir()} == {
        "release.parquet",
        "release.parquet.json",
        "release.parquet.holder.json",
    }
    with zipfile.ZipFile(BytesIO(kept.file("release.zip").content)) as bundle:
        assert bundle.namelist() == ["release.csv", "release.csv.json", "report.html"]
    for name in kept.files:
        assert b"fingerprint" not in kept.file(name).content or b'"fingerprint": ""' in (
            kept.file(name).content
        )
    assert code_of(kept.answer) == "comparison_impossible"
    vault.releases.open_to(release, "public", operator="me")
    assert (
        vault.releases.get(release, principal="eve")
        .file("release.csv")
        .content.startswith(b"lon,lat,ill")
    )
    for file in folder.iterdir():
        file.unlink()
    assert code_of(lambda: vault.releases.get(release).release) == "release_elsewhere"


def test_wishes_that_cannot_be_met_are_refused_at_once(vault: sf.Vault) -> None:
    refused: list[tuple[str, dict[str, Any]]] = [
        ("option_unknown", {"kk": 5}),
        ("request_malformed", {"k": 5, "population": "people.csv"}),
        ("role_invalid", {"dataset": "visits", "l": 2}),
        ("choice_unknown", {"k": 5, "algorithm": "nothing"}),
        ("options_conflict", {"k": 5, "l": 2, "diversity": "recursive"}),
        ("parameter_missing", {}),
        ("parameter_out_of_range", {"k": 5, "suppress": 2}),
        ("parameter_out_of_range", {"k": 5, "limit_seconds": -1}),
        ("choice_unknown", {"k": 5, "cost": "nothing"}),
        ("weights_invalid", {"k": 5, "weights": {"ill": 1}}),
        ("weights_invalid", {"k": 5, "weights": {"lon": -1}}),
        ("parameter_type_wrong", {"k": 5, "require": "nothing"}),
        ("options_conflict", {"k": 5, "attacks": False, "publish_findings": True}),
    ]
    for code, wishes in refused:
        said: dict[str, Any] = {"dataset": "places", **wishes}
        assert code_of(vault.jobs.submit, "anonymize", **said) == code
    for name in ("attacks", "publish_findings", "refine", "by", "weights", "sensitive", "require"):
        wrong: dict[str, Any] = {name: 3}
        assert (
            code_of(vault.jobs.submit, "anonymize", "places", k=5, **wrong)
            == "parameter_type_wrong"
        )
    # How many rows there are is not for the submission to tell.
    assert vault.jobs.submit("anonymize", "places", k=10**6).state == "waiting"


def test_a_receipt_that_is_none_of_the_ledgers_is_no_release(vault: sf.Vault) -> None:
    release = made(vault)
    with vault.jobs._store._tables.writing() as connection:
        told = json.dumps({"receipt": f"3:{'0' * 64}", "charged": True})
        connection.exec_driver_sql(f"UPDATE sfumato_jobs SET result = '{told}'")
    assert code_of(lambda: vault.releases.get(release).release) == "ledger_damaged"


def test_what_was_declared_otherwise_since_is_still_had_as_tables(vault: sf.Vault) -> None:
    release = made(vault)
    text = Path("visits.toml").read_text()
    Path("visits.toml").write_text(text.replace('"south"]', '"south", "west"]'))
    with sf.open(CLINIC) as other:
        kept = other.releases.get(release)
        assert not isinstance(kept.release, Published)
        assert kept.file("release.csv").content.count(b"\n") == 3
