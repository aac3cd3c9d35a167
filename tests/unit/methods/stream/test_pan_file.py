"""The file of a pan-private counter: whole, the owner's, one answer until something new came."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import BudgetError, OutputError, ParameterError, SfumatoError, SourceError
from sfumato.methods.stream import pan_file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("members.csv").write_text("member\n" + "\n".join(map(str, range(3000))) + "\n")
    visits = [one for one in range(1500) for _ in range(1 + one % 3)]
    Path("monday.csv").write_text("who,member\n" + "\n".join(f"x,{one}" for one in visits) + "\n")
    return tmp_path


def made(**more: Any) -> Path:
    path = Path("seen.pan")
    facts = {"epsilon": "1.5", "reads": 2, **more}
    pan_file.new(path, "members.csv", "member", **facts)
    return path


def test_visits_are_taken_in_and_told() -> None:
    path = made(output_epsilon=5, reads=1)
    before = path.stat().st_size
    record = pan_file.update(path, "monday.csv")
    assert record.updates == 1
    _, answer = pan_file.read(path)
    assert answer["share"] == pytest.approx(0.5, abs=5 * answer["sd"])
    assert answer["sd"] < 0.04
    assert answer["count"] == pytest.approx(3000 * answer["share"])
    # Nothing makes it longer: neither visits nor visitors nor answers.
    assert path.stat().st_size == before


def test_an_answer_is_given_again_until_something_new_came() -> None:
    path = made()
    first = pan_file.read(path)[1]
    assert pan_file.read(path)[1] == first
    assert pan_file.load(path).to_json()["reads_left"] == 1
    pan_file.update(path, "monday.csv")
    second = pan_file.read(path)[1]
    assert second["updates"] == 1
    assert pan_file.read(path)[1] == second
    pan_file.update(path, "monday.csv")
    with pytest.raises(BudgetError) as refusal:
        pan_file.read(path)
    assert refusal.value.code == "allowance_exhausted"
    assert pan_file.load(path).answers == (first, second)


def test_the_file_is_its_owners_and_its_cells_are_what_moved() -> None:
    path = made()
    assert path.stat().st_mode & 0o777 == 0o600
    before, node = path.read_bytes(), path.stat().st_ino
    pan_file.update(path, "monday.csv")
    after = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_ino == node
    moved = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    numbers, cells = range(4096, 4104), range(8192, 8192 + 3000)
    assert all(at in numbers or at in cells for at in moved)
    assert sorted(one.name for one in Path().iterdir()) == [
        "members.csv",
        "monday.csv",
        "seen.pan",
    ]


def test_a_table_of_any_kind_and_a_column_of_another_name() -> None:
    path = made(reads=1, at_least=2)
    pq.write_table(pa.table({"id": pa.array(["5", "5", None, "7"])}), "tuesday.parquet")
    assert pan_file.update(path, "tuesday.parquet", "id").updates == 1
    assert pan_file.load(path).method.at_least == 2


def test_of_several_tables_all_are_taken_in_or_none() -> None:
    path = made()
    before = path.read_bytes()
    with pytest.raises(SourceError):
        pan_file.update_all(path, ["monday.csv", "typo.csv"])
    assert path.read_bytes() == before
    assert pan_file.update_all(path, ["monday.csv", "monday.csv"]).updates == 1


def test_people_of_two_tables_add_up_as_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}

    def spied(_self: object, _state: Any, names: list[str], *more: Any, **_named: Any) -> None:
        for name, many in zip(names, more[1].tolist(), strict=True):
            seen[name] = seen.get(name, 0) + many

    path = made()
    monkeypatch.setattr("sfumato.methods.stream.pan_private.PanPrivateHeavy.update", spied)
    pan_file.update_all(path, ["monday.csv", "monday.csv"])
    assert seen == {str(one): 2 * (1 + one % 3) for one in range(1500)}


@pytest.mark.parametrize("ids", [pa.array([5, 7]), pa.array([5.0, 7.0]), pa.array([], pa.int64())])
def test_people_of_another_kind_than_the_roll_are_refused(ids: pa.Array) -> None:
    path = made()
    before = path.read_bytes()
    pq.write_table(pa.table({"member": ids}), "tuesday.parquet")
    with pytest.raises(SourceError, match=r"of kind (integer|real), those of the roll") as refusal:
        pan_file.update_all(path, ["monday.csv", "tuesday.parquet"])
    assert refusal.value.code == "schema_differs"
    assert path.read_bytes() == before


def test_a_file_of_an_earlier_version_is_refused_in_words() -> None:
    """It was replaced at every update, so copies of it may lie about."""
    path = made()
    path.write_text('{"format": "sfumato-pan-1", "people": 3}\n')
    for action in (pan_file.load, pan_file.read, lambda at: pan_file.update(at, "monday.csv")):
        with pytest.raises(SourceError, match="earlier version") as refusal:
            action(path)
        assert refusal.value.code == "file_malformed"


FACTS, NUMBERS, ANSWER, CELLS = 0, 4096, 4104, 8192


@pytest.mark.parametrize(
    ("place", "content"),
    [
        (NUMBERS, b"\0" * 8),  # an answer that saw an update, of which there is none
        (ANSWER + 16, b"\2" + b"\0" * 7),  # an answer of an earlier update after a later one
        (ANSWER + 24, b"\1"),  # a share of an answer that nobody paid for
        (ANSWER + 8, b"\xff" * 8),  # no number
        (CELLS, b"\2"),  # a counter of one visit that does not come round
        (FACTS, b"["),
    ],
)
def test_numbers_that_cannot_be_are_refused(place: int, content: bytes) -> None:
    path = made()
    pan_file.update(path, "monday.csv")
    pan_file.read(path)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)
    with pytest.raises(SfumatoError) as refusal:
        pan_file.read(path)
    assert refusal.value.code == "file_malformed"


def test_updates_of_several_processes_are_all_taken_in() -> None:
    path = made()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: pan_file.update(path, "monday.csv"), range(6)))
    assert pan_file.load(path).updates == 6


def test_an_update_that_fails_leaves_the_file_as_it_was() -> None:
    path = made()
    before = path.read_bytes()
    with pytest.raises(SourceError) as refusal:
        pan_file.update(path, "monday.csv", "nobody")
    assert refusal.value.code == "column_unknown"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"epsilon": "1.6"}, "parameter_out_of_range"),
        ({"epsilon": 0}, "parameter_out_of_range"),
        ({"reads": 0}, "parameter_out_of_range"),
        ({"reads": 10**6}, "parameter_out_of_range"),
        ({"sample": 3001}, "parameter_out_of_range"),
        ({"sample": 10**7}, "parameter_out_of_range"),
    ],
)
def test_what_cannot_be_promised_is_refused_and_nothing_written(
    facts: dict[str, Any], code: str
) -> None:
    with pytest.raises(ParameterError) as refusal:
        made(**facts)
    assert refusal.value.code == code
    assert not Path("seen.pan").exists()


def test_a_counter_is_never_replaced() -> None:
    made()
    with pytest.raises(OutputError, match="never replaced") as refusal:
        made()
    assert "overwrite" not in str(refusal.value)


@pytest.mark.parametrize("spoiled", ["", "{}", '{"format": "sfumato-pan-2"}\\n', "[1]\\n"])
def test_a_damaged_file_is_refused(spoiled: str) -> None:
    path = made()
    path.write_text(spoiled)
    with pytest.raises(SfumatoError) as refusal:
        pan_file.read(path)
    assert refusal.value.code == "file_malformed"


def test_a_file_that_was_cut_or_is_missing_is_refused() -> None:
    path = made()
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(SfumatoError) as refusal:
        pan_file.update(path, "monday.csv")
    assert refusal.value.code == "file_malformed"
    with pytest.raises(SfumatoError) as refusal:
        pan_file.read(Path("other.pan"))
    assert refusal.value.code == "source_missing"
    assert not Path("other.pan.lock").exists()


@pytest.mark.parametrize(
    "facts",
    [
        {"epsilon": "1e99999999"},  # whoever made it wants this process to be busy for hours
        {"epsilon": "1e308"},
        {"output_epsilon": "1e-400"},
        {"key": "ab" * 65},
        {"key": ""},
        {"people": float("inf")},
    ],
)
def test_facts_that_a_stranger_made_up_are_refused(facts: dict[str, Any]) -> None:
    path = made()
    line, _, rest = path.read_bytes().partition(b"\n")
    forged = json.dumps({**json.loads(line), **facts}).encode() + b"\n"
    path.write_bytes(forged.ljust(4096, b"\0") + rest[4096 - len(line) - 1 :])
    with pytest.raises(SfumatoError) as refusal:
        pan_file.update(path, "monday.csv")
    assert refusal.value.code == "file_malformed"


def test_a_file_of_holes_with_more_places_than_a_sample_has_is_refused() -> None:
    """It takes no disk, but its places would take 150 GB of memory."""
    path = made()
    line, _, _ = path.read_bytes().partition(b"\n")
    people = 20_000_000_000
    forged = json.dumps({**json.loads(line), "people": people, "sample": people}).encode() + b"\n"
    with path.open("wb") as file:
        file.write(forged)
        file.truncate(4096 + 4096 + 9 * people + 2048)
    with pytest.raises(SfumatoError) as refusal:
        pan_file.load(path)
    assert refusal.value.code == "file_malformed"


def test_facts_nested_without_end_are_refused() -> None:
    path = made()
    path.write_bytes((b"[" * 100_000 + b"\n").ljust(200_000, b"\0"))
    with pytest.raises(SfumatoError) as refusal:
        pan_file.load(path)
    assert refusal.value.code == "file_malformed"
