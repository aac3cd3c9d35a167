"""The outputs of a program: a list of numbers, each with a declared range."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato import arguments, exact_numbers
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError

MOST_OUTPUTS = 1000
_FINENESS = 20
"""A range has about 2^20 grid steps, finer than the noise of any usual budget."""
_KEYS = ("low", "high", "name", "share")
_EXAMPLE = '[{"low": 0, "high": 100}]'


@dataclass(frozen=True, kw_only=True)
class ProgramOutput:
    """One output of a program: its name, its range and its share of the price."""

    name: str
    low: Fraction
    high: Fraction
    share: Fraction = Fraction(1)

    @property
    def granule(self) -> Fraction:
        """The step of the public grid onto which outputs are rounded: a power of two."""
        span = (self.high - self.low) / 2**_FINENESS
        # floor(log2(span)) from exact integers, or one less: no float decides the public grid.
        exponent = span.numerator.bit_length() - span.denominator.bit_length() - 1
        return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The range, widened to the nearest points of the grid."""
        step = self.granule
        return step * (self.low // step), step * -(-self.high // step)

    def to_record(self) -> dict[str, str]:
        """The output as JSON-able data, with exact numbers."""
        return {name: str(getattr(self, name)) for name in _KEYS}


def read_outputs(declared: object) -> tuple[ProgramOutput, ...]:
    """Read declared outputs: pairs (low, high), mappings with name and share, or JSON of these."""
    listed = _parse(declared) if isinstance(declared, str) else declared
    if isinstance(listed, Mapping) or (_is_pair(listed) and not _is_pairs(listed)):
        listed = [listed]
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise _missing(listed)
    if len(listed) > MOST_OUTPUTS:
        raise ParameterError(
            "program_output_invalid",
            f"A program may give at most {MOST_OUTPUTS:,} numbers, not {len(listed):,}. Give fewer "
            "of them, each with its range.",
        )
    outputs = tuple(_output(item, position) for position, item in enumerate(listed, start=1))
    names = [output.name for output in outputs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ParameterError(
            "program_output_invalid",
            f"Two outputs are called {quoted(twice)}. Give each its own name.",
        )
    return outputs


def _is_pair(declared: object) -> bool:
    return isinstance(declared, Sequence) and not isinstance(declared, str) and len(declared) == 2


def _is_pairs(declared: Any) -> bool:
    return all(_is_pair(item) or isinstance(item, Mapping) for item in declared)


def _parse(text: str) -> Any:
    try:
        # Decimals stay texts until they become fractions, so that 0.1 is exactly a tenth.
        return json.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        raise ParameterError(
            "program_output_invalid",
            f"output must be a list of ranges in JSON, such as {_EXAMPLE}, "
            f"not {arguments.shown(text)}.",
        ) from None


def _output(declared: object, position: int) -> ProgramOutput:
    name = f"output {position}"
    if _is_pair(declared):
        declared = dict(zip(("low", "high"), declared, strict=True))  # type: ignore[call-overload]
    if not isinstance(declared, Mapping) or not {"low", "high"} <= declared.keys():
        raise _missing(declared)
    for key in declared:
        if key not in _KEYS:
            raise ParameterError(
                "program_output_invalid",
                f"{name} has an unknown key {quoted(str(key))}; {suggestion(str(key), _KEYS)}",
            )
    low, high = exact_numbers.bounds(declared["low"], declared["high"])
    return ProgramOutput(
        name=arguments.text(declared.get("name", name), "name"),
        low=low,
        high=high,
        share=exact_numbers.positive(declared.get("share", 1), "share"),
    )


def _missing(declared: object) -> ParameterError:
    return ParameterError(
        "program_output_invalid",
        f"Every number that a program gives needs its range, lower end first, such as {_EXAMPLE}; "
        f"{arguments.shown(declared)} was given.",
    )
