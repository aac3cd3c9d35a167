"""Rounds: what they say is signed and named by its digest; any change is noticed."""

from __future__ import annotations

from base64 import b32decode
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import OutputError, ParameterError, PolicyError, SfumatoError, SourceError
from sfumato.methods.local.rounds import (
    key_file,
    load_key,
    load_round,
    new_round,
    parse_round,
    store_file,
)

if TYPE_CHECKING:
    from pathlib import Path


def declared(path: Path, **changes: object) -> object:
    facts: dict[str, object] = {"question": "Do you smoke?", "choices": ("yes", "no"), "epsilon": 1}
    return new_round(path, **{**facts, **changes})  # type: ignore[arg-type]


def test_a_round_survives_its_file(tmp_path: Path) -> None:
    made = new_round(
        tmp_path / "smoking.toml",
        'Is "quoted" \\ text – with ünïcode ok?',
        ("yes, always", "it's no", "</script>"),
        epsilon="log(3)",
        opens="2027-01-01",
        closes="2027-01-31T18:00+02:00",
    )
    assert load_round(tmp_path / "smoking.toml") == made
    assert made.closes == datetime(2027, 1, 31, 16, tzinfo=UTC)
    assert made.mechanism == "k-ary"
    assert str(made.epsilon) == "log(3)"
    assert key_file(tmp_path / "smoking.toml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('epsilon = "1"', 'epsilon = "2"'),
        ("Do you smoke?", "Did you smoke?"),
        ('"no"', '"No"'),
        ("2027-01-31", "2027-02-01"),
        ('mechanism = "warner"', 'mechanism = "k-ary"'),
        ('epsilon = "1"', 'epsilon = "1.0"'),
        ('"Do you smoke?"', '" Do you smoke?"'),
        ('"no"', '"no "'),
        ('    "yes",\n    "no",\n', '    "no",\n    "yes",\n'),
    ],
)
def test_any_change_makes_the_signature_invalid(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "smoking.toml"
    declared(path, opens="2027-01-01", closes="2027-01-31")
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(PolicyError) as refusal:
        load_round(path)
    assert refusal.value.code == "round_changed"


def test_who_signs_a_changed_round_anew_makes_another_id(tmp_path: Path) -> None:
    """An invitation that names the id pins the collector's key too."""
    first = declared(tmp_path / "a.toml", opens="2027-01-01")
    second = declared(tmp_path / "b.toml", opens="2027-01-01")
    assert first.id != second.id  # type: ignore[attr-defined]


def test_an_id_is_the_whole_digest(tmp_path: Path) -> None:
    """A collector who can find two rounds of one id shows one and asks the other."""
    made = new_round(tmp_path / "a.toml", "Do you smoke?", ("yes", "no"), epsilon=1)
    digest = b32decode(made.id.upper() + "====")
    assert digest == sha256(made.message()).digest()
    assert len(digest) * 8 == 256


def test_spaces_and_comments_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "smoking.toml"
    made = declared(path)
    path.write_text("# of mine\n\n" + path.read_text().replace(" = ", "  =  "))
    assert load_round(path) == made


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"question": ""}, "round_invalid"),
        ({"question": "two\nlines"}, "round_invalid"),
        ({"question": "x" * 501}, "round_invalid"),
        ({"question": "hid\u202eden"}, "round_invalid"),
        ({"choices": ("yes",)}, "round_invalid"),
        ({"choices": tuple(map(str, range(1001)))}, "round_invalid"),
        ({"choices": ("yes", "Yes")}, "round_invalid"),
        ({"choices": ("a", "a")}, "round_invalid"),
        ({"choices": ("yes", "no", "yes")}, "round_invalid"),
        ({"choices": ("no", "n\u043e")}, "round_invalid"),
        ({"choices": ("yes", "\uff59es")}, "round_invalid"),
        ({"choices": ("yes", "\u3164")}, "round_invalid"),
        ({"choices": ("caf\u00e9", "cafe\u0301")}, "round_invalid"),
        ({"choices": ("yes", " yes ")}, "round_invalid"),
        ({"choices": ("yes", "")}, "round_invalid"),
        ({"epsilon": 0}, "parameter_out_of_range"),
        ({"epsilon": "much"}, "parameter_type_wrong"),
        ({"epsilon": 1000}, "parameter_out_of_range"),
        ({"mechanism": "magic"}, "choice_unknown"),
        ({"choices": ("a", "b", "c"), "mechanism": "warner"}, "round_invalid"),
        ({"opens": "soon"}, "time_malformed"),
        ({"opens": "2027-02-01", "closes": "2027-01-01"}, "round_invalid"),
        ({"opens": "2027-02-01", "closes": "2027-02-01"}, "round_invalid"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_written(
    tmp_path: Path, changes: dict[str, object], code: str
) -> None:
    with pytest.raises(ParameterError) as refusal:
        declared(tmp_path / "smoking.toml", **changes)
    assert refusal.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_a_round_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "smoking.toml"
    declared(path)
    before = path.read_bytes()
    with pytest.raises(OutputError) as refusal:
        declared(path)
    assert refusal.value.code == "name_taken"
    path.unlink()
    store_file(path).write_bytes(b"")
    with pytest.raises(OutputError):
        declared(path)
    assert not path.exists()
    assert before


def test_a_key_that_is_there_is_used_again(tmp_path: Path) -> None:
    """A writing that was killed between the key and the round is taken up."""
    first = declared(tmp_path / "smoking.toml")
    (tmp_path / "smoking.toml").unlink()
    again = declared(tmp_path / "smoking.toml")
    assert first.key == again.key  # type: ignore[attr-defined]
    assert first.id != again.id  # type: ignore[attr-defined]


def test_the_key_is_the_collectors_alone(tmp_path: Path) -> None:
    path = tmp_path / "smoking.toml"
    made = declared(path)
    key = key_file(path)
    load_key(key, made)  # type: ignore[arg-type]
    key.chmod(0o644)
    _refused(key, made, "secret_exposed")
    key.chmod(0o600)
    declared(tmp_path / "other.toml")
    key.write_bytes(key_file(tmp_path / "other.toml").read_bytes())
    _refused(key, made, "secret_unusable")
    key.write_text("nonsense")
    _refused(key, made, "secret_unusable")
    key.unlink()
    _refused(key, made, "secret_unusable")


def _refused(key: Path, made: object, code: str) -> None:
    with pytest.raises(SfumatoError) as refusal:
        load_key(key, made)  # type: ignore[arg-type]
    assert refusal.value.code == code


@pytest.mark.parametrize(
    "text",
    ["", "not = [toml", "question = 1", "format = 1", "[[x]]\na=1", 'choices = "yes"'],
)
def test_what_is_no_round_is_told_so(text: str) -> None:
    with pytest.raises(SourceError) as refusal:
        parse_round(text, "'x.toml'")
    assert refusal.value.code == "file_malformed"


def test_a_signed_round_of_odd_types_is_no_round(tmp_path: Path) -> None:
    path = tmp_path / "smoking.toml"
    declared(path, opens="2027-01-01")
    text = path.read_text()
    for before, after in [
        ('epsilon = "1"', "epsilon = 1"),
        ('question = "Do you smoke?"', "question = 3"),
        ('key = "', 'key = "é'),
        ("opens = 2", 'opens = "2'),
        ("format = 1", "format = 1.0"),
        ("format = 1", "format = true"),
        ("00Z\ncloses", "00.5Z\ncloses"),
        ("Z\ncloses", "+00:30\ncloses"),
    ]:
        assert before in text
        with pytest.raises(SourceError):
            parse_round(text.replace(before, after), "'x.toml'")
