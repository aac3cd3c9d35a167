"""What a family of private methods is: its fields, said once for every door.

Decision `counts-only`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.methods.kinds import Kind
    from sfumato.methods.method import Plan
    from sfumato.vault.answer import Answer


@dataclass(frozen=True)
class Field:
    """One thing that a request may say: its name, a line of help, and how it is written."""

    name: str
    help: str
    metavar: str | None
    """What stands for its value in help, if anything; None where only programs can say it."""
    type: Any = str
    default: object = None
    required: bool = False
    positional: bool = False
    flag: str | None = None
    """How the command line spells it, where that is not its name."""
    topic: str = ""
    """The heading under which help tells of it, where that is not the common one."""
    from_file: bool = False
    """Whether the command takes a file of it; what is asked is the text that the file holds."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """The words that it may be, where they are few, each with what it means."""

    @property
    def parameter(self) -> Parameter:
        """It as a parameter of a call."""
        kind = Parameter.POSITIONAL_OR_KEYWORD if self.positional else Parameter.KEYWORD_ONLY
        default = Parameter.empty if self.required else self.default
        return Parameter(self.name, kind, default=default)


_COST, _WHO = "Cost", "Who asks"
EPSILON = Field(
    "epsilon", "The epsilon to spend; by default a tenth of the budget.", "EPSILON", topic=_COST
)
RHO = Field(
    "rho", "The rho to spend (zero-concentrated privacy) instead of epsilon.", "RHO", topic=_COST
)
DELTA = Field(
    "delta",
    "The delta to spend; allows Gaussian noise where that is more accurate.",
    "DELTA",
    topic=_COST,
)
PRINCIPAL = Field(
    "principal",
    "The principal who asks and whose budget is charged.",
    "NAME",
    default="owner",
    topic=_WHO,
)
PURPOSE = Field(
    "purpose", "The purpose of the request, for data sets that ask for consent.", "WHAT", topic=_WHO
)
REQUEST_ID = Field(
    "request_id",
    "An id that makes retries safe: the same id returns the same answer, charged once.",
    "ID",
    flag="--request",
    topic=_WHO,
)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Methods that are asked alike. `fixed` is what its module is told of every request."""

    name: str
    help: str
    chapter: str
    """Where the command line lists it."""
    module: str
    fields: tuple[Field, ...]
    cost: tuple[Field, ...] = (EPSILON, RHO, DELTA)
    fixed: Mapping[str, object] = field(default_factory=dict)
    shape: str = ""
    """The shape of its answers, which a principal is permitted or not, where not its name."""
    of_dataset: bool = True
    """Whether it is asked of one data set; else what is asked names them."""
    writes: Literal["never", "may", "must"] = "never"
    """Whether its command writes files."""
    out_help: str = "A .csv, .parquet or .xlsx; several tables go into a folder."
    """What its command says of where it writes."""
    also_writes: tuple[Field, ...] = ()
    """What else its command writes where it is told to: files that `save` takes by these names."""
    explain: tuple[str, ...] = ("--explain",)
    """The flags by which its command only tells what would come."""
    explores: bool = False
    """Whether its command makes several candidates at several prices, for the owner to compare."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The registry of its kinds that have options of their own, if there are any."""
    command: str = ""
    examples: tuple[str, ...] = ()
    """Lines that run, in a vault with a data set 'people'."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "command", self.command or self.name)
        object.__setattr__(self, "shape", self.shape or self.name)

    @property
    def signature(self) -> Signature:
        """What a call of it takes, whichever way it comes."""
        ordered = sorted((*self.fields, *self.cost), key=lambda field: not field.positional)
        parameters = [field.parameter for field in ordered]
        if self.kinds:
            parameters.append(Parameter("options", Parameter.VAR_KEYWORD))
        return Signature(parameters)

    @property
    def words(self) -> str:
        """What a call of it does and takes, for help."""
        fields = (*self.fields, *self.cost, REQUEST_ID)
        listed = "\n".join(f"    {field.name}: {field.help}" for field in fields)
        return f"{self.help}\n\n{listed}"

    def method(self, asking: Callable[..., Any]) -> Callable[..., Any]:
        """It as a method that help can show: asked with its name before what the call says."""

        def asked(*positional: object, **given: object) -> Any:
            return asking(self.name, *positional, **given)

        asked.__name__ = asked.__qualname__ = self.name
        asked.__doc__ = self.words
        parameters = [*self.signature.parameters.values(), REQUEST_ID.parameter]
        ordered = sorted(parameters, key=lambda parameter: parameter.kind)
        asked.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
        return asked

    def values(self, /, *positional: object, **given: object) -> dict[str, Any]:
        """What was asked, by name; refused like any call that does not fit."""
        bound = self.signature.bind(*positional, **given)
        bound.apply_defaults()
        options = bound.arguments.pop("options", {})
        return {**bound.arguments, **options}

    def home(self) -> Any:
        """The module that prepares its methods."""
        return import_module(self.module)

    def read(self, answer: Answer, prepared: Plan) -> Answer:
        """What the gatekeeper gave to one of its methods, with the means to read it."""
        result = getattr(self.home(), "result", None)
        return answer if result is None else cast("Answer", result(answer, prepared))
