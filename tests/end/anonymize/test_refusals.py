"""What cannot be anonymized as asked is refused, with nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end.anonymize.conftest import Shell


@pytest.mark.parametrize(
    ("options", "exit_code", "code"),
    [
        (("--l", "4"), 3, "criterion_not_reachable"),
        (("--k", "31"), 3, "criterion_not_reachable"),
        (("--l", "3", "--algorithm", "anatomy"), 3, "criterion_not_reachable"),
        ((), 2, "parameter_missing"),
        (("--k", "3", "--l", "2", "--algorithm", "anatomy"), 2, "criterion_not_supported"),
        (("--k", "three"), 2, "usage"),
        (("--k", "3", "--suppressed", "hide"), 2, "usage"),
        (("--k", "3", "more.csv"), 2, "option_not_applicable"),
        (("--k", "3", "--suppress", "2"), 2, "parameter_out_of_range"),
        (("--l", "2", "--sensitive", "age"), 2, "role_invalid"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    home: Path, shell: Shell, options: tuple[str, ...], exit_code: int, code: str
) -> None:
    out = "out" if "anatomy" in options else "out.csv"
    assert shell.refused(shell.anonymize(*options, "-o", out), exit_code)[0] == code
    assert sorted(path.name for path in home.iterdir()) == ["people.csv", "people.toml"]


def test_existing_outputs_are_refused_before_the_table_is_read(home: Path, shell: Shell) -> None:
    for name in ("out.csv", "out.csv.json", "out.csv.holder.json", "page.html", "public.html"):
        (home / name).write_text("precious")
        done = shell(
            "anonymize", "missing.csv", "--schema", "people.toml", "--k", 3, "-o", "out.csv",
            "--report", "page.html", "--public-report", "public.html", "--json")  # fmt: skip
        assert shell.refused(done, 2)[0] == "output_exists"
        assert (home / name).read_text() == "precious"
        (home / name).unlink()


def test_the_steward_reads_which_values_a_hierarchy_lacks(home: Path, shell: Shell) -> None:
    with (home / "people.csv").open("a") as stream:
        stream.write("late,25,53700,plague,1\n")
    code, message = shell.refused(shell.anonymize("--l", 2, "-o", "out.csv"), 2)
    assert code == "value_outside_domain"
    assert "'disease'" in message
    assert "'plague'" in message


def test_two_outputs_are_never_one_file(home: Path, shell: Shell) -> None:
    for options in (
        ("-o", "out.csv", "--report", "out.csv.holder.json"),
        ("-o", "out.csv", "--report", "page.html", "--public-report", "./page.html"),
    ):
        assert shell.refused(shell.anonymize("--k", 4, *options), 2)[0] == "outputs_same"
    assert sorted(path.name for path in home.iterdir()) == ["people.csv", "people.toml"]


def test_options_that_an_algorithm_ignores_are_refused(shell: Shell, home: Path) -> None:
    for more in (
        ("--k", 2, "--algorithm", "mondrian", "--suppress", "0.1"),
        ("--k", 2, "--algorithm", "permute", "--suppressed", "star"),
        ("--l", 2, "--algorithm", "anatomy", "--cost", "loss"),
        ("--algorithm", "perturb", "--limit-seconds", "5", "--sensitive", "disease"),
    ):
        code, message = shell.refused(shell.anonymize(*more, "-o", "out.csv"), 2)
        assert code == "option_not_applicable"
        assert "does not take" in message
    code, _ = shell.refused(shell.anonymize("--k", 2, "--sensitive", "disease", "-o", "out.csv"), 2)
    assert code == "options_conflict"
    assert not (home / "out.csv").exists()


def test_worlds_refuses_a_star_of_which_nothing_is_declared(home: Path, shell: Shell) -> None:
    (home / "out.csv").write_text("age,sex\n*,F\n*,M\n")
    (home / "out.toml").write_text(
        'table = "out"\n[columns.age]\nkind = "integer"\nrole = "quasi"\n'
        "hierarchy = { widths = [5] }\n"
        '[columns.sex]\nkind = "text"\nrole = "quasi"\nvalues = ["F", "M"]\n'
    )
    question = "SELECT COUNT(*) FROM out WHERE age < 30"
    done = shell("worlds", "out.csv", question, "--schema", "out.toml", "--json")
    assert shell.refused(done, 2)[0] == "domain_missing"
