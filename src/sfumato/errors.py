"""Every error that Sfumato raises on purpose.

::

    SfumatoError                 exit
    ├── CallerError               2   the caller's mistake; nothing was charged
    │   ├── ParameterError            a number or an option: epsilon, delta, k, bounds
    │   ├── SchemaError               a schema file, a column, a domain, a hierarchy
    │   ├── SourceError               a table or file that cannot be read as what it claims to be
    │   ├── OutputError               a file that cannot or must not be written
    │   └── QueryError                SQL that cannot be answered privately
    ├── RefusedError              3   refused for privacy
    │   ├── BudgetError               the budget is exhausted
    │   ├── PolicyError               an owner's rule or a missing consent
    │   └── CriterionError            no release reaches the criterion
    └── InternalError             1   our fault, or the machine's
        ├── EngineError               the database failed; its words stay in `detail`
        └── LedgerError               the ledger failed; no answer was given
            └── RolledBackError   3       it is older than its head: refused until that is settled

An error has a stable ``code`` for its kind of mistake and a public sentence: what is wrong, what
was given, what to do. Where it is about one parameter, the fields say so to programs:
``parameter``, ``given``, ``allowed`` and ``hint`` (what to do; it ends the sentence). The
``detail`` is for the operator of the system. It may quote data and is therefore never part of
``str(error)``, of a traceback's text or of any answer.

A sentence never spells a parameter as one door does. It names it by ``option``, and the door that
shows the sentence spells it: ``str(error)`` as a keyword of Python (``max_rows=10``), the command
as a flag (``--max-rows 10``), HTTP and console as a field (``"max_rows": 10``).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    Spelling = Callable[["Option"], str]

# Control characters never occur in our texts, and terminals and pages do not show them.
_OPTION = re.compile(r'\x02(\["[a-z_]+", (?:null|true|[\d.e+-]+|".*?"|\[.*?\]), ".*?"\])\x03')
"""An option inside a sentence: what `option` writes, between two control characters."""


_JSON_TYPES = (str, int, float, list, dict, type(None))


class Option(NamedTuple):
    """A parameter that a sentence names, and a value to give it or a word that stands for one."""

    name: str
    value: Any
    metavar: str


def option(name: str, value: Any = None, *, metavar: str = "") -> str:
    """Name a parameter in a sentence of an error, for the door to spell.

    Parameters
    ----------
    name
        The parameter, as Python names it.
    value
        What to give: True for a switch, a number, a text or a list of them. None names the
        parameter alone.
    metavar
        Instead of a value, what the command writes in its place, such as FILE.

    Example
    -------
    >>> from sfumato.errors import ParameterError, option
    >>> str(ParameterError("parameter_missing", f"Give {option('max_rows', 10)}."))
    'Give max_rows=10.'
    """
    return f"\x02{json.dumps([name, value, metavar], allow_nan=False)}\x03"


def spell(sentence: str, spelling: Spelling) -> str:
    """Write a sentence with its parameters spelled as one door does."""

    def spelled(match: re.Match[str]) -> str:
        named = _read_option(match)
        return match[0] if named is None else spelling(named)

    return _OPTION.sub(spelled, sentence)


def options_in(sentence: str) -> list[Option]:
    """The parameters that a sentence names, in their order."""
    options = (_read_option(match) for match in _OPTION.finditer(sentence))
    return [named_option for named_option in options if named_option is not None]


def _read_option(match: re.Match[str]) -> Option | None:
    """Read what `option` wrote; None for a text of a caller that only looks like it."""
    try:
        return Option(*json.loads(match[1]))
    except ValueError:
        return None


def as_keyword(named: Option) -> str:
    """Spell a parameter as Python does: ``max_rows=10``."""
    if named.metavar:
        return f"{named.name}=..."
    return f"{named.name}={'' if named.value is None else written(named.value)}"


def in_fields(error: SfumatoError) -> str:
    """The sentence of an error with its parameters spelled as fields, which every door can show."""
    return spell(error.sentence, as_field)


def written(value: Any) -> str:
    """Write a value as Python does, but a number as people do: 1e-7 and 1."""
    if isinstance(value, float):
        return repr(value).replace("e-0", "e-").removesuffix(".0")
    return repr(value)


def as_field(named: Option) -> str:
    """Spell a parameter as JSON does: ``"max_rows": 10``."""
    if named.value is None:
        form = named.metavar.lower()
        # A metavar with a sign, such as ROLE=COLUMN, shows a form that the name does not.
        return f'"{named.name}" ({form})' if not form.isalpha() and form else f'"{named.name}"'
    value = named.value
    written_value = (
        written(value) if isinstance(value, float) else json.dumps(value, allow_nan=False)
    )
    return f'"{named.name}": {written_value}'


class SfumatoError(Exception):
    """The root of the tree: a stable code, a public sentence, its fields, a private detail.

    Parameters
    ----------
    code
        The kind of mistake, in snake case.
    sentence
        What is wrong and what was given; parameters are named by `option`.
    parameter
        The parameter that is wrong, as Python names it.
    given
        What was given for it, where everybody may see that.
    allowed
        What may be given instead: a range in words, or the allowed words.
    hint
        What to do; it ends the sentence.
    detail
        What only the operator may see.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        code: str,
        sentence: str,
        *,
        parameter: str | None = None,
        given: Any = None,
        allowed: Any = None,
        hint: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.code = code
        self.sentence = f"{sentence} {hint}" if hint else sentence
        self.parameter = parameter
        self.given = given
        self.allowed = allowed
        self._hint = hint
        self.detail = detail
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The whole sentence, with parameters spelled as keywords of Python."""
        return spell(self.sentence, as_keyword)

    @property
    def hint(self) -> str | None:
        """What to do, with parameters spelled as keywords of Python."""
        return self._hint and spell(self._hint, as_keyword)

    def fields(self, spelling: Spelling) -> dict[str, Any]:
        """The fields that are set, for programs; the hint is spelled as one door does."""
        fields = {name: getattr(self, name) for name in ("parameter", "given", "allowed")}
        if not isinstance(self.given, _JSON_TYPES):
            fields["given"] = str(self.given)  # such as a Fraction
        fields["hint"] = self._hint and spell(self._hint, spelling)
        return {name: value for name, value in fields.items() if value is not None}

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes without the private detail."""
        # A worker process may send an error to a parent that shows it to an analyst.
        state = {**self.__dict__, "detail": None}
        return type(self), (self.code, self.sentence), state


class CallerError(SfumatoError):
    """The caller's mistake."""

    exit_code = 2


class ParameterError(CallerError):
    """A parameter that is not a number, out of range, or at odds with another."""


class SchemaError(CallerError):
    """A schema, column, domain or hierarchy that does not make sense."""


class SourceError(CallerError):
    """A table or file that cannot be read as what it claims to be."""


class OutputError(CallerError):
    """A target that cannot, or must not, be written."""


class QueryError(CallerError):
    """A question that cannot be answered privately as it stands."""


class RefusedError(SfumatoError):
    """A request that is refused to protect privacy."""

    exit_code = 3


class BudgetError(RefusedError):
    """The budget does not allow it."""


class PolicyError(RefusedError):
    """An owner's rule, or a missing consent, does not allow it."""


class CriterionError(RefusedError):
    """No release reaches the asked criterion."""


class InternalError(SfumatoError):
    """A fault of Sfumato or of the machine."""


class EngineError(InternalError):
    """A database engine failed; its message may quote data and is only in the detail."""


class LedgerError(InternalError):
    """The ledger failed; it fails closed, so no answer was given."""


class RolledBackError(LedgerError):
    """The ledger is older than its outside head, or another one: what was spent is unknown."""

    exit_code = 3


class EndedEarly(Exception):  # noqa: N818  the work that was done is saved
    """Work was interrupted after a part of it was saved; the text says what was saved."""


class LargeReleaseWarning(UserWarning):
    """A release of many rows is brought into memory, where it may not fit."""
