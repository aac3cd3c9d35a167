"""Running an analyst's program: the request from public facts, and the answer.

The number of blocks follows from the request or the declarations, never from rows: it is published.
Decision `programs`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.column import Role
from sfumato.data.schema.constraints import DeclaredRows
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, option
from sfumato.exact_numbers import exact
from sfumato.methods.options import several
from sfumato.methods.programs.aggregate import Aggregate
from sfumato.methods.programs.blocks import Cut
from sfumato.methods.programs.catalogue import HOW, LANGUAGES, RANGES
from sfumato.methods.programs.language import PYTHON, language_of
from sfumato.methods.programs.outputs import read_outputs
from sfumato.methods.programs.range_helper import InputQuartiles
from sfumato.methods.programs.request import ProgramRun
from sfumato.methods.programs.sandbox.base import BlockLimits
from sfumato.methods.programs.source import program_of, read_program
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.vault.session import Facts, Offer

USUAL_BLOCKS, MOST_BLOCKS = 100, 10_000
_EXPONENT = 0.4
"""As in GUPT: n people in n^0.4 blocks of n^0.6 people, which suits a mean of many estimates."""
_LEAST_SECONDS, _MOST_SECONDS = Fraction(1, 20), 600
MOST_TOGETHER = 3600
"""Seconds of all blocks together that somebody who is not the owner may have."""


def prepare(
    facts: Facts,
    offer: Offer,
    /,
    *,
    program: str,
    output: object,
    function: str | None = None,
    language: str | None = None,
    blocks: int | None = None,
    people: int | None = None,
    repeats: int = 1,
    aggregate: str = "mean",
    ranges: str = "tight",
    helper: str | None = None,
    columns: Sequence[str] | str | None = None,
    seconds: float = 1.0,
) -> ProgramRun:
    """Plan a run from public facts alone. A program is its source, never the name of a file."""
    if facts.rights is not None:
        # Before anything is read: also a dry run executes the code on this machine.
        facts.rights.check("code")
    schema, unit = facts.declared.schema, facts.declared.unit
    _ = unit.by_person  # refuses rows of two people, which would be in the blocks of both
    word(aggregate, "aggregate", HOW)
    word(ranges, "ranges", RANGES)
    price = facts.price(offer)
    assert price.epsilon is not None
    number, notes = _blocks(schema, unit, blocks, people, _whole(repeats, "repeats", 1))
    seen = _columns(schema, columns)
    limits = BlockLimits(seconds=_seconds(seconds))
    _check_machine(facts, number, limits.seconds)
    program_language = PYTHON if language is None else word(language, "language", LANGUAGES)
    prepared = ProgramRun(
        schema.table,
        program_of(program, function, program_language),
        Cut(seen, unit, number, repeats),
        Aggregate(
            outputs=read_outputs(output),
            epsilon=price.epsilon,
            blocks=number,
            repeats=repeats,
            relation=unit.relation,
            how=aggregate,
            ranges=ranges,
        ),
        price,
        limits,
        _helper(ranges, helper, seen),
        facts.sandbox,
        facts.sandbox_workers,
        notes,
        facts.programs,
    )
    prepared.check_approved()
    return prepared


def without_files(_facts: Facts, /, *, output: object, **asked: object) -> dict[str, Any]:
    """The arguments without files of this machine, as a client sends them."""
    return {"output": [output_range.to_record() for output_range in read_outputs(output)], **asked}


def read_file(path: Path) -> dict[str, str]:
    """The source and the language of a program's file, as a command names one."""
    return {"program": read_program(path), "language": language_of(path)}


def word(value: object, name: str, known: Mapping[str, str]) -> str:
    """A word, refused unless it is one of the known ones."""
    text = arguments.text(value, name)
    if text not in known:
        raise ParameterError(
            "choice_unknown",
            f"{name} cannot be {quoted(text)}; {suggestion(text, list(known))}",
        )
    return text


def _whole(value: object, name: str, least: int) -> int:
    number = arguments.whole(value, name)
    if number < least:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a whole number of at least {least}, not {number}.",
            parameter=name,
            given=number,
        )
    return number


def _blocks(
    schema: Schema, unit: Unit, blocks: int | None, people: int | None, repeats: int
) -> tuple[int, tuple[str, ...]]:
    """The number of blocks, and notes about it."""
    notes: tuple[str, ...] = ()
    public_people = (
        _declared_people(schema, unit) if people is None else _whole(people, "people", 1)
    )
    if blocks is not None:
        number = _whole(blocks, "blocks", 2)
    elif public_people is None:
        number = -(-USUAL_BLOCKS // repeats) * repeats  # rounded up to a multiple of repeats
        note = (
            f"How many people there are is not declared, so there are {number} blocks: say "
            "how many blocks or people there are, or declare rows = 10000, say, under "
            "[[constraints]]."
        )
        notes = (note,)
    else:
        number = max(round(public_people**_EXPONENT), 2) * repeats
    if number > MOST_BLOCKS:
        raise ParameterError(
            "parameter_out_of_range",
            f"There may be {MOST_BLOCKS:,} blocks at most, not {number:,}.",
            parameter="blocks",
            given=number,
        )
    if public_people is not None and number > public_people * repeats:
        raise ParameterError(
            "parameter_out_of_range",
            f"{number:,} blocks of {public_people:,} people, each in {repeats}, would leave some "
            f"empty. Give {option('blocks')} of at most {public_people * repeats:,}.",
            parameter="blocks",
        )
    return number, notes


def _declared_people(schema: Schema, unit: Unit) -> int | None:
    """The least number of people that follows from the declarations, if any."""
    rows = next((rule.rows for rule in schema.constraints if isinstance(rule, DeclaredRows)), None)
    return None if not rows else -(-rows // unit.max_rows)


def _columns(schema: Schema, columns: Sequence[str] | str | None) -> tuple[Column, ...]:
    """The columns that a program sees."""
    if columns is None:
        return tuple(column for column in schema.columns if column.role is not Role.IDENTIFIER)
    names = several(columns, "columns")
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "columns_invalid", "Name at least one column for the program, and each only once."
        )
    return tuple(schema.column(name) for name in names)


def _seconds(value: object) -> float:
    seconds = exact(value, "seconds")
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise ParameterError(
            "parameter_out_of_range",
            f"One block may take from {float(_LEAST_SECONDS):g} to {_MOST_SECONDS} seconds, "
            f"not {float(seconds):g}.",
            parameter="seconds",
            given=float(seconds),
        )
    return float(seconds)


def _check_machine(facts: Facts, blocks: int, seconds: float) -> None:
    """Refuse a run that would occupy the machine for too long, to all but the owner."""
    limited = facts.rights is not None and not facts.rights.is_owner
    if limited and blocks * seconds > MOST_TOGETHER:
        raise ParameterError(
            "problem_too_large",
            f"All blocks together may take {MOST_TOGETHER:,} seconds for who is not the owner, not "
            f"{blocks * seconds:,.0f}. Give fewer {option('blocks')}, or fewer {option('seconds')} "
            "for each.",
        )


def _helper(ranges: str, helper: str | None, columns: tuple[Column, ...]) -> InputQuartiles | None:
    if (ranges == "helper") != (helper is not None):
        raise ParameterError(
            "options_conflict",
            f"A helper goes with {option('ranges', 'helper')}, and that with one: give both "
            f"{option('ranges', 'helper')} and {option('helper', metavar='F')}, or neither.",
        )
    return None if helper is None else InputQuartiles.of(arguments.text(helper, "helper"), columns)


@dataclass(frozen=True, repr=False)
class ProgramAnswer(Answer):
    """The aggregated outputs of a program on all blocks, paid for."""

    @property
    def values(self) -> list[float]:
        """The numbers, in the order in which the program returns them."""
        values: list[float] = self.table["value"].to_pylist()
        return values

    @property
    def errors(self) -> list[dict[str, float]]:
        """The error of each number: standard deviation and 95 % bound, or the spread of blocks."""
        by_name: Mapping[str, list[float]] = (self.error or {})["value"]
        columns = (by_name[name] for name in by_name)
        return [dict(zip(by_name, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_json(self, written: Sequence[Path] = ()) -> dict[str, Any]:
        """The answer as JSON-able data, alike in every door."""
        record = super().to_json(written)
        payment = {name: record[name] for name in ("cost", "remaining", "receipt", "notes")}
        return {
            "values": self.values,
            "error": self.errors,
            "blocks": self.provenance.parameters["method"]["blocks"],
            **payment,
        }


def result(answer: Answer, _prepared: ProgramRun) -> ProgramAnswer:
    """The answer of the gatekeeper to a run, as its numbers."""
    return ProgramAnswer(**{item.name: getattr(answer, item.name) for item in fields(answer)})
