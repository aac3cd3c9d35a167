"""Kinds of methods by name, with their options: shared by the registries of all families.

A registry is a dictionary of kinds in a module (`catalogue`) that loads no method, so that help is
fast. It is the only list of kinds and options: help, Python, HTTP and docs read it.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a kind that has none."""


@dataclass(frozen=True)
class Kind:
    """A kind of method: its summary, the function that prepares it, its options and its tables."""

    summary: str
    home: str
    """The module below `sfumato.methods` whose `prepare` makes a method from a request.

    A function of another name follows after a colon.
    """
    options: type = NoOptions
    """A dataclass with a field for each option: its type, its default and a line of help."""
    form: str = "rows"
    """The form of its tables: rows about people, edges, points or items."""
    target: str = "none"
    """What a model predicts for a row: a number, a class, or nothing that is declared."""

    @property
    def module(self) -> Any:
        """The module of the kind, loaded."""
        return import_module(f"sfumato.methods.{self.home.partition(':')[0]}")

    @property
    def maker(self) -> Callable[..., Any]:
        """The function that makes a method from a request; its keywords are the options."""
        maker: Callable[..., Any] = getattr(self.module, self.home.partition(":")[2] or "prepare")
        return maker

    def make(self, request: Any, chosen: Mapping[str, object], title: str) -> Any:
        """Make the method of a request with options; `title` names the kind in errors."""
        known = [option.name for option in fields(self.options)]
        for name in chosen:
            if name not in known:
                advice = suggestion(name, known) if known else "it has none."
                raise ParameterError(
                    "option_unknown", f"{title} has no option {quoted(name)}; {advice}"
                )
        return self.maker(request, **chosen)

    @property
    def option_lines(self) -> dict[str, str]:
        """The options by name, each with its type, default and help, for people."""
        return {option.name: _line(option) for option in fields(self.options)}


def option_field(help: str, default: Any = None) -> Any:  # noqa: A002  # as argparse calls it
    """A field of an options class, with a line of help."""
    return field(default=default, metadata={"help": help})


def kind_named(kinds: Mapping[str, Kind], name: object, title: str) -> Kind:
    """The kind of a name in a registry; `title` names the family in errors."""
    if arguments.text(name, "kind") not in kinds:
        raise ParameterError(
            "choice_unknown",
            f"There is no kind of {title} {quoted(str(name))}; "
            f"{suggestion(str(name), list(kinds))}",
            parameter="kind",
        )
    return kinds[str(name)]


def option_help(kinds: Mapping[str, Kind]) -> dict[str, str]:
    """The options of all kinds of a registry, each with its help and the kinds that take it."""
    lines: dict[str, str] = {}
    takers: dict[str, list[str]] = {}
    for title, kind in kinds.items():
        for name, line in kind.option_lines.items():
            lines.setdefault(name, line)
            takers.setdefault(name, []).append(title)
    return {name: f"Of {', '.join(takers[name])}: {line}" for name, line in lines.items()}


def _line(option: Field[Any]) -> str:
    default = "" if option.default in (None, MISSING) else f" Default: {option.default}."
    return f"{option.metadata['help']}{default}"
