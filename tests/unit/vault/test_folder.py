"""What is in use is never written over, by whatever name and whatever door."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet
from tests.fixtures.ledgers import VAULT, add, make, rows
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import build
from sfumato.data.engines.base import everything
from sfumato.errors import OutputError
from sfumato.filesystem import check_apart
from sfumato.release.open_table import save_schema

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """\
table = "people"
[columns.age]
kind = "integer"
role = "quasi"
bounds = [0, 99]
hierarchy = { widths = [10, 50] }
[columns.city]
kind = "text"
role = "quasi"
hierarchy = { file = "cities.csv" }
[columns.ill]
kind = "text"
role = "sensitive"
"""
DATA = {
    "people.csv": "age,city,ill\n"
    + "".join(f"{20 + n % 3},{'ab'[n % 2]},{'xyz'[n % 3]}\n" for n in range(60)),
    "people.toml": SCHEMA,
    "cities.csv": "a;north;*\nb;north;*\n",
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in DATA.items():
        Path(name).write_text(text)


def run(*words: str) -> str:
    """Run a command that must refuse, change nothing, and say why; return the reason."""
    before = contents()
    done = CliRunner().invoke(build(words[0]), list(words))
    assert done.exit_code != 0, done.output
    assert contents() == before
    assert isinstance(done.exception, OutputError), done.exception
    return done.exception.code


def contents() -> dict[Path, bytes]:
    live = ("ledger.sqlite-shm", "ledger.sqlite-wal")
    return {
        path: path.read_bytes()
        for path in Path().rglob("*")
        if path.is_file() and path.name not in live
    }


def linked(link: Callable[[str, str], None], target: str, name: str) -> str:
    link(str(Path(target).resolve()), name)
    return name


NAMES: dict[str, Callable[[str, str], str]] = {
    "itself": lambda target, _: target,
    "dots": lambda target, _: f"../{Path.cwd().name}/./{target}",
    "symlink": lambda target, ending: linked(os.symlink, target, f"other{ending}"),
    "hard link": lambda target, ending: linked(os.link, target, f"other{ending}"),
}
ANONYMIZE = ("anonymize", "people.csv", "--schema", "people.toml", "--k", "2", "--overwrite")


@pytest.mark.parametrize("name", NAMES)
def test_anonymize_does_not_write_over_what_it_reads(name: str) -> None:
    assert run(*ANONYMIZE, "-o", NAMES[name]("people.csv", ".csv")) == "file_in_use"


@pytest.mark.parametrize("target", ["people.csv", "people.toml", "cities.csv"])
def test_a_report_does_not_replace_a_file_in_use(target: str) -> None:
    assert run(*ANONYMIZE, "-o", "out.csv", "--report", target) == "file_in_use"


def test_a_side_car_does_not_replace_a_file_in_use() -> None:
    shutil.copy("people.toml", "out.csv.json")
    words = [one if one != "people.toml" else "out.csv.json" for one in ANONYMIZE]
    assert run(*words, "-o", "out.csv") == "file_in_use"


def test_a_population_is_in_use_too() -> None:
    shutil.copy("people.csv", "all.csv")
    words = (*ANONYMIZE, "--population", "all.csv", "-o", "all.csv")
    assert run(*words) == "file_in_use"


def test_a_folder_is_not_replaced_with_what_is_read_from_it() -> None:
    Path("release").mkdir()
    for name in DATA:
        Path(name).rename(f"release/{name}")
    Path("release/release.json").write_text("{}")
    read = ("anonymize", "release/people.csv", "--schema", "release/people.toml", "--l", "2")
    words = (*read, "--algorithm", "anatomy", "--overwrite")
    assert run(*words, "-o", "release") == "file_in_use"
    Path("again").symlink_to("release")
    assert run(*words, "-o", "again") == "file_in_use"


@pytest.fixture
def parts() -> None:
    """A folder of Parquet files, and another within."""
    table = sf.read("people.csv", "people.toml")
    for name in ("parts/2024/a1.parquet", "parts/a1.parquet", "other/new.parquet"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table.engine.run(everything(table.engine.table)), name)


READ_TWICE = {
    "parts": ("b.parquet", "a1.parquet", "new/", "2024/new/", "2024/b.parquet", "out"),
    "parts/a*.parquet": ("a1.parquet", "a2.parquet", "../other/../parts/a2.parquet"),
    "parts/20??/*.parquet": ("2024/b.parquet", "2025/", "2025"),
    "parts/**/*.parquet": ("b.parquet", "new/", "2024/new/", "2024/b.parquet"),
}


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize(("source", "target"), [(a, b) for a in READ_TWICE for b in READ_TWICE[a]])
def test_nothing_is_added_to_what_is_read(source: str, target: str) -> None:
    several = target in ("out", "2025")  # of two tables
    asked = ("--l", "2", "--algorithm", "anatomy") if several else ("--k", "2", "--overwrite")
    words = ("anonymize", source, "--schema", "people.toml", *asked)
    assert run(*words, "-o", f"parts/{target}") == "file_in_use"


@pytest.mark.usefixtures("parts")
def test_beside_what_a_pattern_reads() -> None:
    release = sf.read("parts/a*.parquet", "people.toml").anonymize(sf.KAnonymity(2))
    for target in ("parts/b.parquet", "parts/new/", "parts/a.csv"):
        release.save(target)
    for target in ("parts/a2.parquet", "parts/a3.parquet/"):
        with pytest.raises(OutputError) as refused:
            release.save(target)
        assert refused.value.code == "file_in_use"
    listed = sf.read(["parts/a1.parquet", "other"], "people.toml").anonymize(sf.KAnonymity(2))
    with pytest.raises(OutputError):
        listed.save("other/b.parquet")


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("source", ["parts", "parts/**/*.parquet"])
def test_nothing_is_added_to_what_a_vault_reads(source: str) -> None:
    make()
    for name in ("parts/a1.parquet", "parts/2024/a1.parquet"):
        parquet.write_table(rows(), name)
    add("visits", source, epsilon="2")
    publish = ("publish", "histogram", "visits", "--columns", "agreed", "--epsilon", "0.1")
    for target in ("parts/new", "parts/b.parquet"):
        assert run(*publish, "--vault", "clinic", "-o", target) == "file_in_use"
        assert run(*ANONYMIZE, "-o", f"{target.removesuffix('.parquet')}/") == "file_in_use"
    assert run(*ANONYMIZE, "-o", "parts/b.parquet") == "file_in_use"


@pytest.mark.parametrize("target", ["people.csv", "people.toml"])
def test_inspect_does_not_write_over_what_it_reads(target: str) -> None:
    words = ("inspect", "people.csv", "--schema", "people.toml", "--overwrite")
    assert run(*words, "--write", target) == "file_in_use"


@pytest.fixture
def vault() -> Path:
    """A vault, whose source and schema lie beside it."""
    make()
    parquet.write_table(rows(), "visits.parquet")
    add("visits", "visits.parquet", epsilon="2")
    with sf.open(VAULT) as opened:
        opened.query("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
    return VAULT


OWN = (
    "clinic/vault.toml",
    "clinic/ledger.sqlite",
    "clinic.head",
    "clinic/fingerprint.key",
    "visits.parquet",
    "t.toml",
)


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize("target", [*OWN, "answers"])
def test_nobody_writes_over_a_vault_or_its_sources(target: str) -> None:
    if target == "answers":
        target = str(next(Path("clinic/answers").iterdir()))
    asked = ("publish", "histogram", "visits", "--columns", "agreed", "--epsilon", "0.1")
    publish = (*asked, "--vault", "clinic", "--overwrite")
    assert run(*publish, "-o", "out.csv", "--report", target) == "file_in_use"
    assert run(*ANONYMIZE, "-o", "out.csv", "--report", target) == "file_in_use"
    inspect = ("inspect", "people.csv", "--overwrite", "--write", target)
    assert run(*inspect) == "file_in_use"


@pytest.mark.usefixtures("vault")
def test_what_cannot_be_looked_into_hides_no_vault_beside_it() -> None:
    Path("aimless").symlink_to("aimless")
    inspect = ("inspect", "people.csv", "--overwrite", "--write", "visits.parquet")
    assert run(*inspect) == "file_in_use"


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize("name", NAMES)
def test_publish_does_not_write_over_a_registered_source(name: str) -> None:
    publish = ("publish", "histogram", "visits", "--columns", "agreed", "--epsilon", "0.1")
    target = NAMES[name]("visits.parquet", ".parquet")
    assert run(*publish, "--vault", "clinic", "--overwrite", "-o", target) == "file_in_use"


@pytest.mark.usefixtures("vault")
def test_the_demo_does_not_write_over_a_registered_source() -> None:
    Path("visits.parquet").rename("town.parquet")
    text = (VAULT / "vault.toml").read_text()
    (VAULT / "vault.toml").write_text(text.replace("visits.parquet", "town.parquet"))
    Path("index.html").write_text('<meta name="generator" content="Sfumato demo">')
    assert run("demo", "--out", ".") == "file_in_use"


@pytest.mark.usefixtures("vault")
def test_python_does_not_either() -> None:
    with sf.open(VAULT) as opened:
        answer = opened.query("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
        published = opened.private("visits").publish("histogram", columns="agreed", epsilon="0.1")
    table = sf.read("people.csv", "people.toml")
    release = table.anonymize(sf.KAnonymity(2))
    protected = sf.protect(table, epsilon=1).query("SELECT COUNT(*) AS n FROM people", epsilon=1)
    before = contents()
    for made, target in (
        (answer, "visits.parquet"),
        (published, "visits.parquet"),
        (release, "people.csv"),
        (protected, "people.csv"),
    ):
        for act in (made.save, made.report):
            with pytest.raises(OutputError) as caught:
                act(target, overwrite=True)
            assert caught.value.code == "file_in_use"
    with pytest.raises(OutputError):
        save_schema(table, Path("people.toml"), overwrite=True)
    assert contents() == before
    release.save("out.csv")
    release.save("out.csv", overwrite=True)


def test_other_files_are_nobody_s_business(tmp_path: Path) -> None:
    check_apart(tmp_path / "out.csv", [tmp_path / "people.csv", tmp_path / "missing"])
    check_apart(tmp_path / "out.csv", [tmp_path])
    with pytest.raises(OutputError):
        check_apart(tmp_path / "out.parquet", [tmp_path])
    with pytest.raises(OutputError):
        check_apart(tmp_path, [tmp_path / "people.csv"], with_all_in_it=True)
