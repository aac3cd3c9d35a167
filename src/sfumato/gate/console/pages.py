"""The one table of pages. A new chapter is a module with `PAGES`, and its name here."""

from __future__ import annotations

from sfumato.gate.console import entry, home, reading, tour
from sfumato.gate.console.analyst import asking, code, datasets, work
from sfumato.gate.console.owner import budgets, consent, feeds, people, releases, tables

PAGES = (
    *home.PAGES,
    *reading.PAGES,
    *tour.PAGES,
    *asking.PAGES,
    *code.PAGES,
    *datasets.PAGES,
    *work.PAGES,
    *tables.PAGES,
    *people.PAGES,
    *budgets.PAGES,
    *consent.PAGES,
    *releases.PAGES,
    *feeds.PAGES,
    *entry.PAGES,
)
"""Every page of the console, in the order in which the navigation has them."""
