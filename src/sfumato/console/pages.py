"""The one table of pages. A new chapter is a module with `PAGES`, and its name here."""

from __future__ import annotations

from sfumato.console import home, public_pages, sign_in, tour
from sfumato.console.analyst import datasets, jobs, programs, questions
from sfumato.console.owner import (
    budgets,
    consent,
    feeds,
    operation_forms,
    principals,
    releases,
    tables,
)

PAGES = (
    *home.PAGES,
    *public_pages.PAGES,
    *tour.PAGES,
    *questions.PAGES,
    *programs.PAGES,
    *datasets.PAGES,
    *jobs.PAGES,
    *tables.PAGES,
    *principals.PAGES,
    *budgets.PAGES,
    *consent.PAGES,
    *releases.PAGES,
    *feeds.PAGES,
    *operation_forms.pages_of(),
    *sign_in.PAGES,
)
"""Every page of the console, in the order in which the navigation has them."""
