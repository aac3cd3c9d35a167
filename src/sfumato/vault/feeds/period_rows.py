"""What is asked of the rows of one period: any method, with the other rows out of its sight.

The period is part of what is asked, and so is the feed: two feeds that ask alike are two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.method import AnswerSize, Dataset, Prepared
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.release import Release
    from sfumato.vault.feeds.feed import Feed
    from sfumato.vault.feeds.periods import Period


@dataclass(frozen=True)
class PeriodOf:
    """The rows of a feed's data set that belong to a period."""

    feed: Feed
    period: Period

    def of(self, prepared: Prepared) -> Prepared:
        """What was prepared for all rows, for these alone."""
        return _OfPeriod(prepared, self)

    @property
    def told(self) -> dict[str, Any]:
        """Which rows those are, for whoever reads what was asked of them."""
        return {"name": self.feed.name, "by": self.feed.column, **self.period.to_json()}

    def gave(self, release: Release) -> bool:
        """Whether a release is what was answered of these rows.

        It says so itself: what is declared may have changed since, and who paid may be gone.
        """
        return release.provenance.parameters.get("feed") == self.told


@dataclass(frozen=True)
class _OfPeriod:
    """A prepared method that sees the rows of a period.

    Rows are chosen by their own declared value, so a person's rows are some of those they had: the
    privacy unit bounds them as it did, and the method's guarantee holds as it is.
    """

    method: Prepared
    part: PeriodOf

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method.name

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets it reads."""
        return self.method.datasets

    @property
    def public(self) -> tuple[str, ...]:
        """The data sets about nobody that it reads too."""
        return self.method.public

    @property
    def event(self) -> Event:
        """What it costs: no less than it would of all rows."""
        return self.method.event

    @property
    def answer_size(self) -> AnswerSize | None:
        """At most how large the answer is: no larger than that of all rows."""
        return getattr(self.method, "answer_size", None)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked."""
        return {**self.method.parameters, "feed": self.part.told}

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Run the method on the rows of the period."""
        feed, period = self.part.feed, self.part.period
        whole = datasets[feed.dataset]
        with whole.engine.view(period.rows(whole, feed.column)) as rows:
            seen = {**datasets, feed.dataset: replace(whole, table=rows)}
            made = self.method.run(seen, entropy)
        told = {**made.provenance.parameters, "feed": self.part.told}
        return replace(made, provenance=replace(made.provenance, parameters=told))
