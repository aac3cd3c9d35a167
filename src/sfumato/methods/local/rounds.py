"""A round: one question, its choices, how answers are randomized, and when; signed.

A round is a TOML file. Its id is a digest of all that it says, the collector's public key included,
so an invitation that names the id pins question, mechanism and epsilon: whoever changes a letter
makes another round. Beside the file lie the collector's key and the store of reports, for the
collector's eyes alone. Decision `surveys`.
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
from sfumato.methods.local.exact_epsilon import log, read_epsilon
from sfumato.methods.local.paper_coins import device, likelihood_ratio
from sfumato.methods.local.signatures import KEY_BYTES, public_key, sign, verify
from sfumato.report.display import Card, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.paper_coins import HandDevice


FORMAT = 1
MOST_CHOICES = 1000
MECHANISMS = ("warner", "k-ary")
"""What a browser can do, and `survey new` may be asked for."""
LONGEST_QUESTION, LONGEST_CHOICE = 500, 200
_USUAL_DAYS = 30
_MOST_MEBIBYTES = 1
_FACTS = ("format", "question", "choices", "mechanism", "epsilon", "opens", "closes", "key", "salt")


@dataclass(frozen=True, repr=False)
class Round(Shown):
    """What people are asked and promised. Times are in UTC."""

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
        """What it says beside its times, in one spelling."""
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
        """What is signed: every fact."""
        times = {"opens": stamp(self.opens), "closes": stamp(self.closes)}
        return dumps({**self.facts(), **times}, sort_keys=True).encode()

    @property
    def id(self) -> str:
        """Its name: the whole SHA-256 digest of what it says, as 52 letters and figures.

        A cut digest would not pin the round: a collector who tries 2^50 salts finds two rounds
        whose digests share 100 bits.
        """
        return b32encode(sha256(self.message()).digest()).decode().lower().rstrip("=")

    @property
    def by_hand(self) -> HandDevice | None:
        """The coins or dice that keep its promise, if any do."""
        return device(len(self.choices), self.epsilon)

    @property
    def by_hand_epsilon(self) -> LocalEpsilon | None:
        """What an answer by coins or dice reveals at most."""
        hand_device = self.by_hand
        return (
            None
            if hand_device is None
            else log(likelihood_ratio(hand_device.truth, len(self.choices)))
        )

    def toml(self) -> str:
        """The file of the round."""
        choices = "".join(f"    {_quoted(choice)},\n" for choice in self.choices)
        return (
            "# A round of answers, signed. Whoever changes a letter below makes it invalid.\n"
            f"# Its id, which pins all of it: {self.id}\n"
            f"format = {FORMAT}\n"
            f"question = {_quoted(self.question)}\n"
            f"choices = [\n{choices}]\n"
            f"mechanism = {_quoted(self.mechanism)}\n"
            f"epsilon = {_quoted(str(self.epsilon))}\n"
            f"opens = {stamp(self.opens)}\n"
            f"closes = {stamp(self.closes)}\n"
            f"key = {_quoted(_text(self.key))}\n"
            f"salt = {_quoted(self.salt)}\n"
            f"signature = {_quoted(_text(self.signature))}\n"
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
    """Where the collector's key of a round lies."""
    return path.with_suffix(".key")


def store_file(path: Path) -> Path:
    """Where the reports of a round lie."""
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
    """Declare a round and sign it; the key beside it is made where there is none."""
    if path.suffix != ".toml":
        raise ParameterError(
            "round_invalid",
            f"A round is a .toml file, not '{path.name}': name it '{path.stem}.toml'.",
        )
    if path.exists() or store_file(path).exists():
        raise OutputError(
            "name_taken",
            f"There is a round '{path}', or reports of one, already: a round is never replaced. "
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
    """The round that a text declares, checked; `where` names it in errors."""
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
    arguments.one_of(
        hyphened(declared.mechanism), "mechanism", MECHANISMS
    )  # it is signed as it is written
    _check_times(declared.opens, declared.closes)
    # One spelling of every fact is signed: '1.0' for '1' is a change, though it says the same.
    spelled = {name: raw[name] for name in declared.facts()} == declared.facts()
    if not spelled or not verify(declared.key, declared.message(), declared.signature):
        raise PolicyError(
            "round_changed",
            f"The round {where} is not as its collector signed it: nothing is sent for it. Get the "
            "file again, or declare a new round with 'sfumato survey new'.",
        )
    return declared


def load_key(path: Path, of: Round) -> bytes:
    """The collector's key of a round, which nobody else may be able to read."""
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
    """The key beside a round that is being declared, made where there is none."""
    secret_found = _read_key(path)
    if secret_found is not None:
        return secret_found
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
            f"'{path}' holds the collector's key and may be read by others. "
            f"Run: chmod 600 '{path}'.",
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
    """A question: one line that people can read."""
    return _line(text, "question", LONGEST_QUESTION)


def check_choices(texts: object) -> tuple[str, ...]:
    """The choices: two or more lines that nobody takes for each other."""
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
                f"The choices {seen[shape]!r} and {choice!r} look the same to people. Name each "
                "once, in one alphabet.",
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
    """The mechanism by name; `auto` takes the one with the smallest error."""
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
            f"A round closes after it opens, but it would open {stamp(start)} and close "
            f"{stamp(end)}. Give a later {option('closes')}.",
        )


def _time(value: str | datetime | None, name: str) -> datetime | None:
    """A moment; a text is ISO 8601, and one without a zone is UTC."""
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
    """A moment as the round spells it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _quoted(text: str) -> str:
    import tomlkit  # who only answers writes no round, and starts without it

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


# Texts that people take for each other on a page, whatever a computer thinks of them.
#
# Two spellings of one letter, capitals, wide and narrow forms, spaces, and letters of other
# alphabets
# of the same shape are one to the eye. What is compared is a skeleton of a text, which nobody is
# shown. The list of shapes is short: it holds the letters that whole words can be forged of.

BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""What counts as a letter and shows nothing."""

# Cyrillic, Greek and Armenian letters and figures, by the Latin letter whose shape they have,
# small or capital.
_SHAPES = str.maketrans(
    "авеѕіїјкмнорстухԁԛԝһӏαβεζηικμνορτυχϲϳօ01|",
    "abesiïjkmhopctyxdqwhlabezhikmnoptyxcjooll",
)  # fmt: skip


def skeleton(text: str) -> str:
    """What the eye sees of a text: equal for texts that look the same."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    seen = (letter for letter in plain if not _unseen(letter))
    return " ".join(unicodedata.normalize("NFKC", "".join(seen).translate(_SHAPES)).split())


def _unseen(letter: str) -> bool:
    """Whether it only chooses among forms of the letter before it, or shows nothing."""
    return letter in BLANK or "\ufe00" <= letter <= "\ufe0f"
