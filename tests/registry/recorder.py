"""Record what every mechanism receives, and force the same outputs in a second run.

A run under `recording` draws real noise and keeps, for each mechanism call, its public parameters,
its exact input and its output. A run under `replaying` gets the recorded outputs instead of noise.
Two neighbouring tables must then make the same calls in the same order: everything else that a
method does is a function of outputs and public facts.

Words that are drawn outside of mechanisms (keys of hashes, synthetic rows) come from one seeded
stream in both runs; noise comes from another stream, so that skipping it shifts nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.registry.mechanism_calls import PATCHES, DivergenceError, Patch

from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Call:
    """One use of one mechanism: its patch point, the mechanism, its exact input and its output."""

    patch: Patch
    mechanism: Any
    values: Any
    output: Any

    @property
    def name(self) -> str:
        """The mechanism and its public parameters, the same in coupled runs."""
        return f"{self.patch.name} {self.patch.parameters(self.mechanism)}"


@dataclass
class Recorder:
    """The calls of one run, and the sizes of all draws outside of mechanisms."""

    seed: int
    forced: list[Call] | None = None
    calls: list[Call] = field(default_factory=list)
    draws: list[int] = field(default_factory=list)
    divergence: str | None = None
    _depth: int = 0

    def __post_init__(self) -> None:
        self._public = SeededEntropy(self.seed)
        self._noise = SeededEntropy(self.seed + 1)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw words outside of mechanisms."""
        self.draws.append(count)
        return self._public.words(count)

    def call(self, patch: Patch, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record one call and draw its output, or give the output that is forced."""
        if self._depth:  # inside of another mechanism, whose own input is what counts
            return original(*args, **kwargs)
        mechanism, values = args[0], patch.read(*args, **kwargs)
        if self.forced is not None:
            return self._replayed(patch, mechanism, values, args)
        self._depth += 1
        try:
            output = patch.around(original)(*patch.with_entropy(args, self._noise), **kwargs)
        finally:
            self._depth -= 1
        self.calls.append(Call(patch, mechanism, values, patch.kept(output)))
        return patch.given(output)

    def _replayed(self, patch: Patch, mechanism: Any, values: Any, args: Any) -> Any:
        place = len(self.calls)
        assert self.forced is not None
        wanted = self.forced[place] if place < len(self.forced) else None
        found = Call(patch, mechanism, values, None)
        if wanted is None or wanted.name != found.name:
            self.divergence = (
                f"call {place}: {found.name}, where the neighbour has "
                f"{'no call' if wanted is None else wanted.name}"
            )
            raise DivergenceError(self.divergence)
        self.calls.append(found)
        try:
            return patch.given(patch.forced(wanted.values, values, wanted.output, args))
        except DivergenceError as error:
            self.divergence = f"call {place}, {found.name}: {error}"
            raise


@contextmanager
def patched(recorder: Recorder) -> Iterator[Recorder]:
    """Send every mechanism call and every system draw through a recorder."""
    before: list[tuple[type, str, Any]] = []

    def put(owner: type, name: str, value: Any) -> None:
        before.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, value)

    def wrapped(patch: Patch, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            return recorder.call(patch, original, args, kwargs)

        return run

    try:
        for patch in PATCHES:
            for attribute in patch.attributes:
                put(patch.owner, attribute, wrapped(patch, patch.owner.__dict__[attribute]))
        put(SystemEntropy, "words", lambda _self, count: recorder.words(count))
        yield recorder
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)
