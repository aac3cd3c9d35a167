"""The list of refusals is closed: a code that a command can give is refused in one of its cases.

A code that no case gives is named here with the reason why not.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.end.test_refusals import CASES, QUESTIONS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
ELSEWHERE = {
    # Other commands.
    "anonymize/": "anonymize, measure and worlds touch no vault",
    "cli/anonymize.py": "anonymize touches no vault",
    "demo/": "the demo makes a town of its own",
    "data/inspection/": "inspect touches no vault",
    "attack/evaluation/": "evaluate touches no vault",
    "attack/": "attack touches no vault",
    "attack/comparison/": "compare touches no vault",
    "methods/local/": "people's own devices and who collects their reports touch no vault",
    "release/": "what an owner does with a table without a budget touches no vault",
    "data/files/": (
        "data is read after the charge; of what is read before, workloads, some are above"
    ),
    "release/recoding.py": "anonymize touches no vault",
    "cli/process.py": "arguments and streams are looked at before anything is opened",
    "release/writer.py": "where releases are written; what publish is refused there is above",
    "release/sidecar.py": "releases are read by other commands",
    "release/engine_tables.py": "releases are read by other commands, and written by anonymize",
    "vault/registration.py": "add is tested by itself",
    "operations/datasets.py": "add is tested by itself: tests/unit/operations/test_datasets.py",
    "operations/releases.py": "saving a release reads a vault and changes nothing",
    "vault/creation.py": "add is tested by itself",
    "vault/sources.py": "add is tested by itself",
    "data/schema/": "schema files are read when a vault is opened, before its ledger is",
    "testing/": "for tests",
    "methods/programs/sandbox/": (
        "sandboxes are tried before anything is charged: tests/unit/methods/programs/sandbox"
    ),
    **dict.fromkeys(
        ("server/", "client/", "console/"),
        "what a server refuses, and when one cannot begin: tests/end/gate",
    ),
    "vault/feeds/": (
        "feeds are tested by themselves: tests/unit/vault/feeds, test_feed_commands.py"
    ),
    "vault/jobs/store.py": "needs a hundred jobs: tests/contract/vault/test_job_store.py",
    # Read after the charge, where all that fails is `answer_failed`, with exit code 1.
    "data/engines/": (
        "data is read after the charge; of what is read before, workloads, some are above"
    ),
    "report/": "pages are made after the charge, where a mistake is no longer the caller's",
    # Planned from declarations alone, before the ledger is asked; some of each are above.
    "methods/query/": "all refused questions of the front's list are asked above",
    "methods/graph/": "plans see neither data nor ledger: tests/unit/vault/test_forms.py",
    "methods/stream/": (
        "plans see neither data nor ledger: tests/unit/vault/feeds/test_continual_feeds.py"
    ),
    "vault/memory_stream.py": "no command steps a stream: tests/unit/vault/test_memory_stream.py",
    "methods/publish/": "plans see neither data nor ledger",
    "vault/estimators.py": "no command fits an estimator: tests/unit/vault/test_estimators.py",
    "methods/learn/array_tables.py": (
        "no command fits an estimator: tests/unit/methods/learn/test_array_tables.py"
    ),
    "methods/learn/prediction.py": "predict touches no vault",
    "methods/trajectory/location.py": "locate touches no vault",
    "operations/fields.py": "the parser of a command asks for the same: tests/unit/operations",
    "operations/schema_draft.py": "schemas are declared before a vault is asked",
    "methods/learn/model.py": (
        "predict touches no vault: tests/unit/methods/learn/test_prediction.py"
    ),
    "methods/learn/features.py": (
        "predict touches no vault: tests/unit/methods/learn/test_features.py"
    ),
    "methods/synth/": (
        "plans see neither data nor ledger, models are drawn from outside of commands"
    ),
    "methods/programs/": (
        "plans see neither data nor ledger: tests/unit/methods/programs, and vault/test_running"
    ),
    "methods/itemsets/": (
        "plans see neither data nor ledger; anonymize, which counts sets, touches no vault"
    ),
    "data/counting/": "axes are planned like these; counts are made after the charge",
    "privacy/mechanisms/": "their parameters come from plans",
    "privacy/noise/": "its parameters come from mechanisms",
    "privacy/accounting/composition.py": "reports, not commands, use other accountants",
    "privacy/accounting/loss_distributions.py": "reports, not commands, use other accountants",
    "privacy/accounting/events.py": "events come from plans",
    "privacy/accounting/filters.py": "budgets of the configuration are checked when it is read",
    "privacy/accounting/losses.py": "budgets of the configuration are checked when it is read",
    "data/schema/unit.py": "units are checked when a configuration is read, plans see no data",
}
"""Where codes are raised that none of these commands can give after it has changed anything."""


OUT_OF_REACH = {
    "reader_unknown": "no vault here has a release or a feed: tests/unit/vault/test_releases.py",
    **dict.fromkeys(
        (
            "answer_too_large",
            "storage_full",
        ),
        "limits bind principals, and vaults that are nearly full: tests/unit/vault/test_limits.py",
    ),
    **dict.fromkeys(
        (
            "program_not_approved",
            "rehearsals_too_many",
        ),
        "commands run as the owner: tests/unit/vault/test_programs.py",
    ),
    "program_unknown": "sfumato program is tested by itself: tests/end/test_people_commands.py",
    "comparison_impossible": "no vault here has a release: tests/unit/vault/test_releases.py",
    "problem_too_large": "commands are the owner's: tests/unit/vault/test_program_runs.py",
    "token_refused": "commands need no token: tests/unit/vault/test_tokens.py",
    "record_invalid": "commands write plain records: tests/contract/privacy/ledger/test_records.py",
    **dict.fromkeys(
        (
            "unit_unsupported",
            "package_missing",
        ),
        "no vault here has paths: tests/unit/methods/trajectory/test_synthesize.py",
    ),
    "vault_closed": "a command closes its vault when it ends: tests/unit/vault",
    "plan_foreign": "a command plans and runs at once: tests/unit/vault/test_plans.py",
    "plan_changed": "a command plans and runs at once: tests/contract/doors/test_changes.py",
    "bounds_invalid": "bounds are declared in schemas",
    "platform_unsupported": "only where processes cannot lock: tests/end/test_platforms.py",
    "release_unreadable": "releases are read by other commands",
    "request_answered": "only in a race, which the stored answer settles",
    **dict.fromkeys(
        (
            "address_malformed",
            "output_unwritable",
        ),
        "only anonymize has an engine write, and touches no vault: tests/contract/release",
    ),
}


def refusals() -> dict[str, set[str]]:
    """Every code with exit 2 or 3 in the source, and the modules that give it."""
    reference = runpy.run_path(str(ROOT / "docs" / "reference" / "errors.py"))
    found: dict[str, set[str]] = {}
    for path, code, exit_code, _ in reference["codes"]():
        if exit_code in (2, 3):
            found.setdefault(code, set()).add(str(path.relative_to(SOURCE)))
    return found


def test_the_list_of_refusals_is_closed() -> None:
    covered = {case.code for case in CASES} | set(QUESTIONS.values())
    found = refusals()
    open_codes = {
        code: sorted(modules)
        for code, modules in found.items()
        if code not in covered | set(OUT_OF_REACH)
        and not all(one.startswith(tuple(ELSEWHERE)) for one in modules)
    }
    assert open_codes == {}
    assert covered & set(OUT_OF_REACH) == set()
    assert set(OUT_OF_REACH) <= set(found)
    assert [one for one in ELSEWHERE if not (SOURCE / one).exists()] == []
