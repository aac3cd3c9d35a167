"""The one table of pages. A new chapter is a module with `PAGES`, and its name here."""

from __future__ import annotations

from sfumato.gate.console import entry, home
<<<<<<< HEAD
from sfumato.gate.console.owner import budgets, consent, people, releases, tables

PAGES = (
    *home.PAGES,
    *tables.PAGES,
    *people.PAGES,
    *budgets.PAGES,
    *consent.PAGES,
    *releases.PAGES,
=======
from sfumato.gate.console.analyst import asking, datasets, work

PAGES = (
    *home.PAGES,
    *asking.PAGES,
    *datasets.PAGES,
    *work.PAGES,
>>>>>>> w/console
    *entry.PAGES,
)
"""Every page of the console, in the order in which the navigation has them."""
