"""What works and what is refused for every operation, and the cells of operations and doors.

`test_every_operation.py` runs the cells, `docs/reference/doors.py` writes the table of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.operations.table import all_operations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.operations.operation import Operation

DOORS = ("command", "python", "http", "client", "console")
ASPECTS = ("works", "refused", "bad input", "permission")
GENERIC = "tests/contract/doors/test_every_operation.py::"
TEST_OF = {
    "works": GENERIC + "test_it_works",
    "refused": GENERIC + "test_it_is_refused",
    "bad input": GENERIC + "test_bad_input_is_refused_by_its_field",
    "permission": GENERIC + "test_others_are_kept_out",
}


@dataclass(frozen=True)
class Call:
    """Values with which an operation works, and what to change so that it is refused.

    In texts `<door>` stands for the name of the door, `<job>`, `<release>`, `<token>` and
    `<digest>` for things that were made for this door.
    """

    works: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, Any] | None = None
    code: str = ""
    command: Mapping[str, Any] | None = None
    """What the command takes instead, where that is a file."""

    def values(self, door: str) -> dict[str, Any]:
        """The values that work by a door."""
        return dict(self.command if door == "command" and self.command else self.works)


SCHEMA = {
    "table": "more",
    "unit": "row",
    "columns": [{"name": "age", "kind": "integer", "bounds": [0, 99]}],
}
NOBODY = {"name": "nobody"}
OF_DOOR = {"name": "p-<door>", "epsilon": "0.5", "population": "people"}
FILES_UNKNOWN = {"file": "none.toml"}
CALLS: dict[str, Call] = {
    "dataset add": Call(
        {"name": "more-<door>", "source": "more-<door>.csv", "schema": SCHEMA, "epsilon": "1"},
        {"name": "people"},
        "name_taken",
        {
            "name": "more-<door>",
            "source": "more-<door>.csv",
            "schema": "people.toml",
            "epsilon": "1",
        },
    ),
    "dataset list": Call(),
    "dataset show": Call({"name": "people"}, NOBODY, "not_found"),
    "ledger show": Call({}, {"principal": "nobody"}, "principal_unknown"),
    "ledger verify": Call(),
    "ledger export": Call(),
    "ledger limit": Call(
        {"account": "people", "epsilon": "9"}, {"account": "nobody"}, "account_unknown"
    ),
    "ledger acknowledge": Call({"operator": "Ann"}),
    "ledger head": Call(),
    "ledger join": Call({"head": "head.json"}, {"head": "none.json"}, "file_unreadable"),
    "snapshot show": Call(),
    "snapshot raise": Call({}, {"to": 1}, "parameter_out_of_range"),
    "principal add": Call(
        {"name": "new-<door>", "kind": "external"}, {"name": "eve"}, "name_taken"
    ),
    "principal list": Call({}, NOBODY, "principal_unknown"),
    "principal show": Call({"name": "eve"}, NOBODY, "principal_unknown"),
    "principal grant": Call({**OF_DOOR, "epsilon": "2"}, NOBODY, "principal_unknown"),
    "principal lower": Call(OF_DOOR, NOBODY, "principal_unknown"),
    "principal move": Call({**OF_DOOR, "to": "bob", "epsilon": "0.1"}, {"to": "nobody"},
                           "principal_unknown"),
    "principal expire": Call({"name": "p-<door>", "at": "30d"}, NOBODY, "principal_unknown"),
    "principal change": Call(
        {"name": "p-<door>", "max_epsilon": "0.5"}, NOBODY, "principal_unknown"
    ),
    "principal password": Call({"name": "bob"}, NOBODY, "principal_unknown"),
    "token new": Call({"principal": "bob"}, {"principal": "nobody"}, "principal_unknown"),
    "token list": Call(),
    "token revoke": Call({"token": "<token>"}, {"token": "aaaaaaaa"}, "token_unknown"),
    "job submit": Call(
        {"family": "publish", "dataset": "people", "asked":
            {"kind": "histogram", "columns": "age", "epsilon": "0.01"}},
        {"dataset": "nobody"}, "dataset_unknown",
    ),
    "job run": Call(),
    "job list": Call(),
    "job show": Call({"job": "<job>"}, {"job": "nothing"}, "job_unknown"),
    "job cancel": Call({"job": "<job>"}, {"job": "nothing"}, "job_unknown"),
    "release list": Call(),
    "release show": Call({"release": "<release>"}, {"release": "nothing"}, "release_unknown"),
    "release save": Call(
        {"release": "<release>", "out": "saved"},
        {"release": "nothing", "out": "unsaved"},
        "release_unknown",
    ),
    "release open": Call(
        {"release": "<release>", "to": ["eve"]}, {"release": "nothing"}, "release_unknown"
    ),
    "release shut": Call({"release": "<release>"}, {"release": "nothing"}, "release_unknown"),
    "feed add": Call(
        {
            "name": "new-<door>",
            "sql": "SELECT COUNT(*) AS n FROM people",
            "column": "day",
            "every": "month",
            "epsilon": "0.01",
        },
        {"name": "f-<door>"},
        "name_taken",
    ),
    "feed list": Call(),
    "feed read": Call({"name": "f-<door>"}, NOBODY, "feed_unknown"),
    "feed run": Call(),
    "feed open": Call({"name": "f-<door>", "to": ["eve"]}, NOBODY, "feed_unknown"),
    "feed stop": Call({"name": "f-<door>"}, NOBODY, "feed_unknown"),
    "consent list": Call(),
    "consent import": Call({"file": "agreed.csv"}, {"file": "none.csv"}, "source_missing"),
    "consent give": Call(
        {"person": "1042", "purpose": "care"}, {"purpose": "cure"}, "choice_unknown"
    ),
    "consent withdraw": Call({"person": "1042"}, {"person": "x"}, "person_id_invalid"),
    "consent change": Call(
        {"population": "visits",
         "changes": [{"person": 1042, "purpose": "research", "agreed": False}]},
        {"population": "people"}, "registry_unknown",
    ),
    "consent show": Call(
        {"person": "1042", "population": "visits"}, {"population": "people"}, "registry_unknown"
    ),
    "consent export": Call(
        {"population": "visits"}, {"population": "people"}, "registry_unknown"
    ),
    "consent verify": Call(),
    "consent acknowledge": Call(),
    "survey new": Call(
        {"file": "new.toml", "question": "Do you smoke?", "choices": "yes,no", "epsilon": "1"},
        {"file": "mood.toml"}, "name_taken",
    ),
    "survey collect": Call(
        {"file": "mood.toml", "reports": ["monday.jsonl"]}, FILES_UNKNOWN, "file_unreadable"
    ),
    "survey estimate": Call({"file": "mood.toml"}, FILES_UNKNOWN, "file_unreadable"),
    "survey close": Call({"file": "mood.toml"}, FILES_UNKNOWN, "file_unreadable"),
    "pan new": Call(
        {"file": "new.pan", "people": "members.csv", "column": "member", "epsilon": "1",
         "reads": 5},
        {"file": "seen.pan"}, "output_exists",
    ),
    "pan update": Call({"file": "seen.pan", "events": ["monday.csv"]}, FILES_UNKNOWN,
                       "source_missing"),
    "pan read": Call({"file": "seen.pan"}, FILES_UNKNOWN, "source_missing"),
    "program approve": Call(
        {"program": "def g_<door>(rows):\n    return 1", "function": "g_<door>"},
        command={"program": "one.py", "function": "one"},
    ),
    "program list": Call(),
    "program revoke": Call({"digest": "<digest>"}, {"digest": 64 * "0"}, "program_unknown"),
}  # fmt: skip

OFFICE = "tests/end/console/test_office_pages.py::"
PAGES = "tests/end/console/test_console_pages.py::"
NOT_THEIRS = PAGES + "test_what_is_not_theirs_is_not_there_in_the_same_bytes"
HOSTS = "tests/end/gate/test_two_hosts.py::"
OWN_PAGES = {
    "job cancel": GENERIC + "test_a_job_is_cancelled_on_its_page",
    "dataset add": OFFICE + "test_a_table_is_sent_declared_and_added",
    "ledger limit": OFFICE + "test_who_spent_what_is_drawn_and_a_budget_set",
    **dict.fromkeys(
        (
            *("principal add", "principal list", "principal show", "principal grant"),
            *("principal lower", "principal move", "principal expire"),
            *("token new", "token list", "token revoke"),
        ),
        OFFICE + "test_people_are_added_changed_invited_and_let_go",
    ),
    "release open": OFFICE + "test_releases_are_made_compared_and_opened",
    **dict.fromkeys(
        ("consent show", "consent list", "consent export"),
        OFFICE + "test_consent_is_given_withdrawn_imported_and_shown",
    ),
    **dict.fromkeys(
        ("feed list", "feed read", "feed open", "feed stop"),
        OFFICE + "test_a_feed_is_opened_and_stopped",
    ),
}
"""The tests of pages that the console has instead of generated forms: they work, and refuse."""

ELSEWHERE: dict[tuple[str, str, str], str] = {
    ("ledger show", "console", "permission"): "tests/end/console/test_entry.py::"
    "test_each_kind_of_principal_has_a_first_page",
    ("ledger join", "command", "works"): HOSTS + "test_the_command_tells_and_joins",
    **{(name, "console", "refused"): NOT_THEIRS for name in ("dataset show", "job show",
                                                              "release show")},
}  # fmt: skip
"""Tests of single cells that need a state of their own: operation, door, aspect."""


def operations() -> dict[str, Operation]:
    """Every operation by its name."""
    return {operation.name: operation for operation in all_operations()}


def offers(operation: Operation, door: str) -> bool:
    """Whether a door has an operation. Python and the client have what HTTP has."""
    return ("http" if door in ("python", "client") else door) in operation.doors


def is_form(operation: Operation) -> bool:
    """Whether the console makes a form of it."""
    return operation.page is None


def why_not(operation: Operation, door: str, aspect: str) -> str | None:
    """Why there is no such cell; None where there is one."""
    if not offers(operation, door):
        return "not offered"
    if aspect == "permission" and door in ("command", "python"):
        return "the folder is the permission"
    if aspect == "refused" and CALLS[operation.name].refused is None:
        return "nothing to refuse"
    if door == "console" and operation.page and operation.method == "GET":
        if aspect == "bad input":
            return "nothing to fill in"
        if aspect == "refused" and "{" not in operation.path:
            return "nothing to refuse"
    if aspect == "bad input" and door == "console" and not operation.fields:
        return "nothing to fill in"
    return None


def covering_test(operation: Operation, door: str, aspect: str) -> str:
    """The test that covers a cell."""
    single = ELSEWHERE.get((operation.name, door, aspect))
    if single is not None:
        return single
    if door == "console" and not is_form(operation):
        reads = operation.method == "GET"
        if aspect in ("refused", "bad input") or (aspect == "works" and not reads):
            return OWN_PAGES[operation.name]
    return TEST_OF[aspect]


def cells(aspect: str) -> list[tuple[str, str]]:
    """The operations and doors of an aspect that `test_every_operation.py` covers."""
    return [
        (name, door)
        for name, operation in operations().items()
        for door in DOORS
        if why_not(operation, door, aspect) is None
        and covering_test(operation, door, aspect) == TEST_OF[aspect]
    ]
