"""Privacy parameters as exact rationals, and the fixed-point units in which budgets are counted.

A parameter has the value that its writer meant: a float stands for its decimal of 15 digits, so 0.1
is one tenth and 0.1 + 0.2 is three tenths. Every decimal of up to 15 digits survives a conversion
to float64, and the rounding errors of sums come after the 15th digit. Texts, decimals and fractions
are exact. A budget is counted in whole units; a cost is rounded up to the next unit.

Decision `budgets`.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational

from sfumato import arguments
from sfumato.errors import ParameterError, option

EPSILON_UNIT = Fraction(1, 10**9)
RHO_UNIT = Fraction(1, 10**18)
DELTA_UNIT = Fraction(1, 10**18)

# Above epsilon 10 the odds of any fact may change by a factor of 22,000: hardly a protection.
EPSILON_MAXIMUM = Fraction(10)
RHO_MAXIMUM = EPSILON_MAXIMUM**2 / 2

Number = int | float | Decimal | Fraction | str
"""The types that are read as an exact number."""

_FLOAT_DIGITS = 15  # the most decimal digits that every float64 keeps
# Limits on texts, decimal exponents and bits: 1e999999999 as a fraction would exhaust memory.
_LONGEST_TEXT = 400
_LARGEST_EXPONENT = 1000
_LARGEST_BITS = 8000
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_RATIO = re.compile(r"[+-]?\d+/\d+", re.ASCII)


def _out_of_range(name: str, message: str) -> ParameterError:
    return ParameterError("parameter_out_of_range", message, parameter=name)


def exact(value: object, name: str) -> Fraction:
    """Read an exact number.

    Parameters
    ----------
    value : int, float, Decimal, Fraction or str
        A text may be a decimal or a ratio, such as "0.1" or "1/10".
    name : str
        The parameter, as errors name it.

    Returns
    -------
    Fraction
        The number; a float is read as its decimal of 15 digits.

    Raises
    ------
    ParameterError
        If it is not a number (`parameter_type_wrong`), not finite, or beyond 1e1000.

    Example
    -------
    >>> exact(0.1, "epsilon") + exact("1/5", "epsilon")
    Fraction(3, 10)
    """
    if isinstance(value, bool):  # Python counts True as the number 1
        raise _not_number(value, name)
    if isinstance(value, Rational):
        number = Fraction(int(value.numerator), int(value.denominator))
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > _LARGEST_BITS:
            raise _out_of_range(name, f"{name} must be a number of ordinary size.")
        return number
    if isinstance(value, float):
        return _decimal(Decimal(f"{value:.{_FLOAT_DIGITS}g}"), name)
    if isinstance(value, Decimal):
        return _decimal(value, name)
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT:
        text = value.strip()
        if _RATIO.fullmatch(text) and text.split("/")[1].strip("0"):
            return Fraction(text)
        if _DECIMAL.fullmatch(text) or text.lower().lstrip("+-") in {"inf", "infinity"}:
            return _decimal(Decimal(text), name)
    raise _not_number(value, name)


def _decimal(value: Decimal, name: str) -> Fraction:
    if value.is_nan():
        raise _not_number(value, name)
    if value.is_infinite() or (value and abs(value.adjusted()) > _LARGEST_EXPONENT):
        raise _out_of_range(
            name,
            f"{name} must be a finite number of ordinary size, not {_quote(value)}.",
        )
    if not value:
        # The exponent of a zero may be of any size.
        return Fraction(0)
    return Fraction(value)


def _not_number(value: object, name: str) -> ParameterError:
    return ParameterError(
        "parameter_type_wrong",
        f"{name} must be a number such as 0.1, '0.1' or '1/10', not {_quote(value)}.",
        parameter=name,
    )


def _quote(value: object) -> str:
    if isinstance(value, int) or not isinstance(value, float | Fraction | Decimal):
        return arguments.shown(value)
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else text[:37] + "..."


def not_negative(value: object, name: str) -> Fraction:
    """Read an exact number of at least 0."""
    number = exact(value, name)
    if number < 0:
        raise _out_of_range(name, f"{name} must not be negative, but {_quote(value)} was given.")
    return number


def share(value: object, name: str) -> Fraction:
    """Read an exact number of at least 0 that may be written as a percentage: 2% is 0.02."""
    return not_negative(_without_percent(value, name), name)


def _without_percent(value: object, name: str) -> object:
    text = value.strip() if isinstance(value, str) else ""
    if not text.endswith("%"):
        return value
    if not _DECIMAL.fullmatch(text[:-1].strip()):
        raise _not_number(value, name)
    return exact(text[:-1], name) / 100


def decimal_of(number: Fraction) -> str:
    """Format an exact number as a finite decimal, 0.5 for 1/2, or as a ratio if there is none."""
    remaining_denominator = number.denominator
    twos = (remaining_denominator & -remaining_denominator).bit_length() - 1
    remaining_denominator >>= twos
    fives = 0
    while remaining_denominator % 5 == 0:
        remaining_denominator, fives = remaining_denominator // 5, fives + 1
    if remaining_denominator != 1:
        return str(number)
    decimals = max(twos, fives)
    digits = f"{abs(int(number * 10**decimals)):0{decimals + 1}}"
    sign, point = "-" * (number < 0), "." * (decimals > 0)
    return f"{sign}{digits[: len(digits) - decimals]}{point}{digits[len(digits) - decimals :]}"


def integer_at_least(value: object, name: str, *, least: int) -> int:
    """Read a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _out_of_range(
            name, f"{name} must be a whole number of at least {least}, not {value!r}."
        )
    return value


def positive(value: object, name: str) -> Fraction:
    """Read an exact number above 0."""
    number = exact(value, name)
    if number <= 0:
        raise _out_of_range(name, f"{name} must be above 0, but {_quote(value)} was given.")
    return number


def weight(value: object, name: str) -> Fraction:
    """Read a relative weight. It is limited, so that every share of the budget stays useful."""
    number, most = positive(value, name), _LARGEST_WEIGHT
    if not 1 / most <= number <= most:
        raise _out_of_range(
            name,
            f"{name} must be from {plain(1 / most)} to {plain(most)}, but {_quote(value)} was "
            "given. Only how weights compare matters.",
        )
    return number


_LARGEST_WEIGHT = Fraction(10**6)  # a smaller share of an epsilon would be all noise


def probability(value: object, name: str) -> Fraction:
    """Read an exact number in [0, 1)."""
    number = exact(_without_percent(value, name), name)
    if not 0 <= number < 1:
        raise _out_of_range(
            name,
            f"{name} must be at least 0 and below 1, but {_quote(value)} was given.",
        )
    return number


def positive_delta(value: object) -> Fraction:
    """Read a delta in (0, 1)."""
    number = probability(value, "delta")
    if number == 0:
        raise _out_of_range(
            "delta",
            "delta must be above 0 here: Gaussian noise, thresholds and approximate guarantees "
            f"need one. Give {option('delta', 1e-7)}, say, or use a pure mechanism.",
        )
    return number


def store(record: object, **values: object) -> None:
    """Set fields of a frozen dataclass in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def store_positive(record: object, *names: str) -> None:
    """Read fields of a frozen dataclass as exact numbers above 0, in its `__post_init__`."""
    for name in names:
        store(record, **{name: positive(getattr(record, name), name)})


def epsilon(value: object, *, maximum: Fraction = EPSILON_MAXIMUM) -> Fraction:
    """Read a requested epsilon: at least one unit, at most `maximum`."""
    return _request(value, "epsilon", EPSILON_UNIT, maximum)


def rho_of(maximum: Fraction) -> Fraction:
    """The largest rho for a largest epsilon: rho = epsilon^2 / 2 limits the same divergences."""
    return maximum**2 / 2


def rho(value: object, *, maximum: Fraction = RHO_MAXIMUM) -> Fraction:
    """Read a requested rho: at least one unit, at most `maximum`."""
    return _request(value, "rho", RHO_UNIT, maximum)


def _request(value: object, name: str, unit: Fraction, maximum: Fraction) -> Fraction:
    number = positive(value, name)
    if number < unit:
        raise _out_of_range(
            name,
            f"{name} {_quote(value)} is below {float(unit):.0e}, the smallest amount that a "
            "budget counts. Ask for at least that.",
        )
    if number > maximum:
        raise _out_of_range(
            name,
            f"{name} {_quote(value)} is above the policy maximum of {float(maximum):g}. "
            "Ask for less, or let the owner of the data raise the maximum: max_epsilon in "
            "vault.toml or of sf.protect.",
        )
    return number


def delta(value: object, *, size: int | None = None) -> Fraction:
    """Read a requested delta: 0, or at least one unit. `size` is the public number of people.

    A delta above 1 / size would allow a mechanism that publishes one person's rows.
    """
    number = probability(value, "delta")
    if 0 < number < DELTA_UNIT:
        raise _out_of_range(
            "delta",
            f"delta {_quote(value)} is below {float(DELTA_UNIT):.0e}, the smallest amount that "
            "a budget counts. Ask for at least that, or for 0.",
        )
    if size is not None and number * size > 1:
        raise _out_of_range(
            "delta",
            f"delta {_quote(value)} is above 1/{size}, which would allow the rows of one person "
            f"to be published outright. Ask for far less than 1/{size}.",
        )
    return number


def bounds(lower: object, upper: object, *, constant: bool = False) -> tuple[Fraction, Fraction]:
    """Read the ends of a declared range; equal ends are allowed only with `constant`."""
    low, high = exact(lower, "bound"), exact(upper, "bound")
    if low > high:
        raise ParameterError(
            "bounds_invalid",
            f"Bounds [{_quote(lower)}, {_quote(upper)}] are reversed: give the lower one first.",
        )
    if low == high and not constant:
        raise ParameterError(
            "bounds_invalid",
            f"Bounds [{_quote(lower)}, {_quote(upper)}] leave no range: give two different ends.",
        )
    if max(-low, high) > _LARGEST_BOUND:
        raise ParameterError(
            "bounds_invalid",
            f"Bounds [{_quote(lower)}, {_quote(upper)}] reach beyond 1e18: give narrower ones.",
        )
    return low, high


_LARGEST_BOUND = 10**18  # below 2^63: a clamped value fits the integers of every engine


def ceil_units(value: Fraction, unit: Fraction) -> int:
    """Count the units of a cost, rounded up."""
    return -floor_units(-value, unit)


def plain(number: Fraction, *, digits: int = 17, up: bool = False) -> str:
    """Format an amount, 0.3 or 1e-6, with `digits` significant digits, rounded down or `up`."""
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    text = context.divide(Decimal(number.numerator), Decimal(number.denominator)).normalize()
    if not text or _SMALLEST_PLAIN <= abs(text) < _LARGEST_PLAIN:
        return f"{text:f}"
    mantissa, _, exponent = f"{text:e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


_SMALLEST_PLAIN, _LARGEST_PLAIN = Decimal("0.001"), Decimal(10) ** 9


def float_below(number: Fraction) -> float:
    """The float that `exact` reads as this number, or as a number just below it."""
    return float(plain(number, digits=_FLOAT_DIGITS))


def floor_units(value: Fraction, unit: Fraction) -> int:
    """Count the units of a limit, rounded down."""
    return (value / unit).__floor__()
