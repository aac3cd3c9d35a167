"""A survey round: a question, its choices, mechanism, epsilon and opening times, signed.

A round is a TOML file. Its id is a digest of its whole content, including the collector's public
key. So an invitation that states the id fixes question, mechanism and epsilon: any change makes
another round. Beside the file are the collector's key and the store of reports, which only the
collector may read. Decision `surveys`.
"""

from __future__ import annotations

import os
import secrets
import tomllib
import unicodedata
from base64 import b32encode, urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.toml_document import read_text
from sfumato.errors import OutputError, ParameterError, PolicyError, SourceError, option
from sfumato.filesystem import check_target, whole
from sfumato.methods.local.catalogue import hyphened
from sfumato.methods.local.local_epsilon import log, read_epsilon
from sfumato.methods.local.paper_coins import device, likelihood_ratio
from sfumato.methods.local.signatures import KEY_BYTES, public_key, sign, verify
from sfumato.report.display import Card, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.methods.local.paper_coins import HandDevice


FORMAT = 1
MOST_CHOICES = 1000
MECHANISMS = ("warner", "k-ary")
"""The mechanisms that the script of the survey's page implements."""
LONGEST_QUESTION, LONGEST_CHOICE = 500, 200
_USUAL_DAYS = 30
_MOST_MEBIBYTES = 1
_FACTS = ("format", "question", "choices", "mechanism", "epsilon", "opens", "closes", "key", "salt")


@dataclass(frozen=True, repr=False)
class Round(Shown):
    """The declaration of a round. Times are in UTC."""

    question: str
    choices: tuple[str, ...]
    mechanism: str
    epsilon: LocalEpsilon
    opens: datetime
    closes: datetime
    key: bytes
    salt: str
    signature: bytes = field(default=b"", compare=False)

    def facts(self) -> dict[str, Any]:
        """All facts except the times, in their canonical spelling."""
        return {
            "format": FORMAT,
            "question": self.question,
            "choices": list(self.choices),
            "mechanism": self.mechanism,
            "epsilon": str(self.epsilon),
            "key": _text(self.key),
            "salt": self.salt,
        }

    def message(self) -> bytes:
        """The signed message: every fact."""
        times = {"opens": stamp(self.opens), "closes": stamp(self.closes)}
        return dumps({**self.facts(), **times}, sort_keys=True).encode()

    @property
    def id(self) -> str:
        """The full SHA-256 digest of the signed message, as 52 letters and digits.

        A shorter digest would not fix the round: by the birthday bound, 2^50 salts give a
        malicious collector two rounds whose digests share 100 bits.
        """
        return b32encode(sha256(self.message()).digest()).decode().lower().rstrip("=")

    @property
    def by_hand(self) -> HandDevice | None:
        """The device of coins or dice whose epsilon is at most that of the round, if any."""
        return device(len(self.choices), self.epsilon)

    @property
    def by_hand_epsilon(self) -> LocalEpsilon | None:
        """The epsilon of an answer by coins or dice."""
        hand_device = self.by_hand
        return (
            None
            if hand_device is None
            else log(likelihood_ratio(hand_device.truth, len(self.choices)))
        )

    def toml(self) -> str:
        """The file of the round."""
        choices = "".join(f"    {_quote_toml(choice)},\n" for choice in self.choices)
        return (
            "# A round of answers, signed. Whoever changes a letter below makes it invalid.\n"
            f"# Its id, which pins all of it: {self.id}\n"
            f"format = {FORMAT}\n"
            f"question = {_quote_toml(self.question)}\n"
            f"choices = [\n{choices}]\n"
            f"mechanism = {_quote_toml(self.mechanism)}\n"
            f"epsilon = {_quote_toml(str(self.epsilon))}\n"
            f"opens = {stamp(self.opens)}\n"
            f"closes = {stamp(self.closes)}\n"
            f"key = {_quote_toml(_text(self.key))}\n"
            f"salt = {_quote_toml(self.salt)}\n"
            f"signature = {_quote_toml(_text(self.signature))}\n"
        )

    def _card(self) -> Card:
        return Card(
            line=f"{self.question!r}, {len(self.choices)} choices, {self.mechanism} at epsilon "
            f"{self.epsilon}",
            facts={
                "id": self.id,
                "choices": ", ".join(self.choices),
                "open": f"{stamp(self.opens)} to {stamp(self.closes)}",
            },
        )


def key_file(path: Path) -> Path:
    """The file of the collector's key of a round."""
    return path.with_suffix(".key")


def store_file(path: Path) -> Path:
    """The file of the reports of a round."""
    return path.with_suffix(".sqlite")


def new_round(
    path: Path,
    question: str,
    choices: tuple[str, ...],
    *,
    epsilon: Number,
    mechanism: str = "auto",
    opens: str | datetime | None = None,
    closes: str | datetime | None = None,
) -> Round:
    """Declare and sign a round; see `operations/surveys.py`. A missing key is generated."""
    if path.suffix != ".toml":
        raise ParameterError(
            "round_invalid",
            f"A round is a .toml file, not '{path.name}': name it '{path.stem}.toml'.",
        )
    if path.exists() or store_file(path).exists():
        raise OutputError(
            "name_taken",
            f"There is a round '{path}', or reports of one, already: rounds are never replaced. "
            "Choose another name.",
        )
    check_target(path)
    asked, offered = check_question(question), check_choices(choices)
    claimed = read_epsilon(epsilon)
    start = _time(opens, "opens") or datetime.now(UTC).replace(microsecond=0)
    end = _time(closes, "closes") or start + timedelta(days=_USUAL_DAYS)
    chosen = _mechanism(mechanism, len(offered))
    _check_times(start, end)
    secret = _own_key(key_file(path))
    salt = secrets.token_hex(8)
    unsigned = Round(asked, offered, chosen, claimed, start, end, public_key(secret), salt)
    signed = sign(secret, unsigned.message())
    signed_round = Round(asked, offered, chosen, claimed, start, end, unsigned.key, salt, signed)
    with whole(path) as temporary:
        temporary.write_text(signed_round.toml(), encoding="utf-8")
    return signed_round


def load_round(path: Path) -> Round:
    """Read a round and check its signature."""
    return parse_round(
        read_text(path, title="Round", most_mebibytes=_MOST_MEBIBYTES), f"'{path.name}'"
    )


def parse_round(text: str, where: str) -> Round:
    """Parse and check a round; `where` names its source in errors."""
    try:
        raw = tomllib.loads(text)
    except ValueError:
        raise _no_round(where, "it is not valid TOML") from None
    if set(raw) != {*_FACTS, "signature"} or type(raw["format"]) is not int:
        raise _no_round(where, "it does not have the fields of one")
    try:
        declared = Round(
            question=check_question(raw["question"]),
            choices=check_choices(raw["choices"]),
            mechanism=arguments.text(raw["mechanism"], "mechanism"),
            epsilon=read_epsilon(arguments.text(raw["epsilon"], "epsilon")),
            opens=_aware(raw["opens"]),
            closes=_aware(raw["closes"]),
            key=_bytes(raw["key"]),
            salt=arguments.text(raw["salt"], "salt"),
            signature=_bytes(raw["signature"]),
        )
    except (ParameterError, ValueError) as error:
        raise _no_round(where, str(error)) from None
    # Older rounds spell the name with an underscore, and are signed so.
    arguments.one_of(hyphened(declared.mechanism), "mechanism", MECHANISMS)
    _check_times(declared.opens, declared.closes)
    # The canonical spelling is signed: '1.0' for '1' is a change, though it means the same.
    spelled = {name: raw[name] for name in declared.facts()} == declared.facts()
    if not spelled or not verify(declared.key, declared.message(), declared.signature):
        raise PolicyError(
            "round_changed",
            f"The round {where} is not as its collector signed it: nothing is sent for it. Get the "
            "file again, or declare a new round with 'sfumato survey new'.",
        )
    return declared


def load_key(path: Path, of: Round) -> bytes:
    """Read the collector's key of a round; a key that others can read is refused."""
    secret = _read_key(path)
    if secret is None:
        raise SourceError(
            "secret_unusable",
            f"There is no '{path.name}' beside the round: only the holder of its key collects "
            "reports. Put the key back, or declare a new round.",
        )
    if public_key(secret) != of.key:
        raise SourceError(
            "secret_unusable",
            f"'{path.name}' is not the key that the round was signed with. Put the right one back.",
        )
    return secret


def _own_key(path: Path) -> bytes:
    """Read the key beside a new round, or generate it."""
    existing = _read_key(path)
    if existing is not None:
        return existing
    secret = secrets.token_bytes(KEY_BYTES)
    with whole(path, private=True) as temporary:
        temporary.write_text(f"{_text(secret)}\n", encoding="ascii")
    return secret


def _read_key(path: Path) -> bytes | None:
    if not path.exists():
        return None
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ParameterError(
            "secret_exposed",
            f"Other users may read the collector's key '{path}'. Run: chmod 600 '{path}'.",
        )
    text = read_text(path, title="Key", most_mebibytes=_MOST_MEBIBYTES).strip()
    try:
        secret = _bytes(text)
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise SourceError("secret_unusable", f"'{path.name}' does not hold a key of a round.")
    return secret


def check_question(text: object) -> str:
    """Check a question: one visible line."""
    return _line(text, "question", LONGEST_QUESTION)


def check_choices(texts: object) -> tuple[str, ...]:
    """Check the choices: two or more lines that look different from each other."""
    choices = tuple(
        _line(text, "a choice", LONGEST_CHOICE) for text in arguments.names(texts, "choices")
    )
    if not 2 <= len(choices) <= MOST_CHOICES:
        raise ParameterError(
            "round_invalid",
            f"A round has 2 to {MOST_CHOICES:,} choices, not {len(choices):,}. Name each once, as "
            f"{option('choices', ['yes', 'no'])}.",
        )
    seen: dict[str, str] = {}
    for choice in choices:
        shape = skeleton(choice)
        if shape in seen:
            raise ParameterError(
                "round_invalid",
                f"The choices {seen[shape]!r} and {choice!r} look the same. Name each once, in one "
                "alphabet.",
            )
        seen[shape] = choice
    return choices


def _line(text: object, name: str, longest: int) -> str:
    # Composed letters: two spellings of one word must not be two choices.
    line = unicodedata.normalize("NFC", arguments.text(text, name)).strip()
    if not skeleton(line) or len(line) > longest or not line.isprintable():
        raise ParameterError(
            "round_invalid",
            f"{name.capitalize()} must be one line of 1 to {longest} letters that people can see, "
            f"not {arguments.shown(text)}.",
        )
    return line


def _mechanism(name: str, choices: int) -> str:
    """The mechanism by name; `auto` takes the one with the least error."""
    name = hyphened(name)
    arguments.one_of(name, "mechanism", ("auto", *MECHANISMS))
    if name == "warner" and choices != 2:
        raise ParameterError(
            "round_invalid",
            f"warner is for 2 choices, not {choices}. Take {option('mechanism', 'k-ary')}, or "
            "auto.",
        )
    if name != "auto":
        return name
    return "warner" if choices == 2 else "k-ary"


def _check_times(start: datetime, end: datetime) -> None:
    if end <= start:
        raise ParameterError(
            "round_invalid",
            f"A round must close after it opens, but this one opens {stamp(start)} and closes "
            f"{stamp(end)}. Give a later {option('closes')}.",
        )


def _time(value: str | datetime | None, name: str) -> datetime | None:
    """Read a time; a text is ISO 8601, in UTC unless it has a zone."""
    if value is None:
        return None
    try:
        read = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ParameterError(
            "time_malformed",
            f"{name} must be a time such as 2027-01-31 or 2027-01-31T18:00+01:00, "
            f"not {arguments.shown(value)}.",
        ) from None
    zoned = read if read.tzinfo else read.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).replace(microsecond=0)


def _aware(value: Any) -> datetime:
    if not isinstance(value, datetime) or value.utcoffset() != timedelta(0) or value.microsecond:
        raise ValueError("its times are not whole seconds of UTC, as 2027-01-31T18:00:00Z")
    return value.astimezone(UTC)


def stamp(moment: datetime) -> str:
    """A time as rounds spell it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _quote_toml(text: str) -> str:
    # Only collectors write rounds: clients start faster without tomlkit.
    import tomlkit

    return str(tomlkit.string(text).as_string())


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str) or not text.isascii():
        raise ValueError("its key or signature is no text")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _no_round(where: str, why: str) -> SourceError:
    return SourceError(
        "file_malformed",
        f"The round {where} cannot be read: {why.rstrip('.')}. Get it again from its collector, or "
        "declare one with 'sfumato survey new'.",
    )


# Confusable texts: choices that look the same on a page would split or steal answers.
#
# Case, wide and narrow forms, spaces, and letters of other alphabets with the same shape do not
# show. Choices are compared by a skeleton, which is never displayed. The list of shapes is short:
# it holds the letters from which whole words can be forged.

BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters, by Unicode's category, that show nothing."""

# Cyrillic, Greek and Armenian letters and digits, and the Latin letters of the same shape.
_SHAPES = str.maketrans(
    "авеѕіїјкмнорстухԁԛԝһӏαβεζηικμνορτυχϲϳօ01|",
    "abesiïjkmhopctyxdqwhlabezhikmnoptyxcjooll",
)  # fmt: skip


def skeleton(text: str) -> str:
    """The skeleton of a text: equal for texts that look the same."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    seen = (letter for letter in plain if not _unseen(letter))
    return " ".join(unicodedata.normalize("NFKC", "".join(seen).translate(_SHAPES)).split())


def _unseen(letter: str) -> bool:
    """Whether a letter shows nothing: a blank, or a variation selector of the letter before."""
    return letter in BLANK or "\ufe00" <= letter <= "\ufe0f"
