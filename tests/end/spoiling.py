"""What may have been done to a vault before a command is refused there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = "SELECT COUNT(*) FROM people"


def text(path: str, content: str) -> Callable[[], object]:
    return lambda: Path(path).write_text(content)


def prefixed(path: str, content: str) -> Callable[[], object]:
    return lambda: Path(path).write_text(content + Path(path).read_text())


def edit(old: str, new: str) -> Callable[[], object]:
    """Change the configuration as its owner might by hand."""

    def change() -> None:
        path = Path("clinic/vault.toml")
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


def under_column(table: str, column: str, line: str) -> Callable[[], object]:
    """Declare more of a column in its schema."""

    def change() -> None:
        path, title = Path(f"{table}.toml"), f"[columns.{column}]\n"
        assert title in path.read_text()
        path.write_text(path.read_text().replace(title, f"{title}{line}\n"))

    return change


def days_as_people() -> None:
    for table in ("visits", "others"):
        under_column(table, "day", "nullable = false")()
    edit('column = "patient"', 'column = "day"')()


def asked_for_consent(purposes: str = '["care", "research"]') -> Callable[[], object]:
    """Ask all people of 'persons' what they agree to."""
    where = 'population = "persons"'
    return edit(where, f"{where}\npurposes = {purposes}")


def told_apart_by(column: str) -> Callable[[], object]:
    """Tell patients apart by another column, and ask them for consent."""

    def change() -> None:
        for table in ("visits", "others"):
            under_column(table, column, "nullable = false")()
        edit('column = "patient"', f'column = "{column}"')()
        asked_for_consent()()

    return change


def said_in_file(lines: str) -> Callable[[], object]:
    """A file of what people say, and people who are asked."""

    def change() -> None:
        asked_for_consent()()
        Path("said.csv").write_text(lines)

    return change


def restore_old_registry() -> None:
    asked_for_consent()()
    said = ["--purpose", "care", "--vault", "clinic"]
    assert run(["consent", "give", "1", *said]) == 0
    old = Path("clinic/consent.sqlite").read_bytes()
    assert run(["consent", "withdraw", "1", *said]) == 0
    Path("clinic/consent.sqlite").write_bytes(old)


def opened_before_edit(old: str, new: str) -> Callable[[], object]:
    """Change the configuration of a vault that has opened its accounts."""

    def change() -> None:
        assert run(["query", COUNT, "--epsilon", "0.1", "--vault", "clinic"]) == 0
        edit(old, new)()

    return change


def opened_after_edit(old: str, new: str) -> Callable[[], object]:
    """Change the configuration, and open the vault once as it is then."""

    def change() -> None:
        edit(old, new)()
        assert run(["query", COUNT, "--explain", "--epsilon", "0.1", "--vault", "clinic"]) == 0

    return change


def restore_old_ledger() -> None:
    old = Path("clinic/ledger.sqlite").read_bytes()
    assert run(["query", COUNT, "--epsilon", "0.1", "--vault", "clinic"]) == 0
    Path("clinic/ledger.sqlite").write_bytes(old)


def another_ledgers_head() -> None:
    """On a host that has no head yet."""
    Path("clinic.head").unlink()
    Path("head.json").write_text(f'{{"ledger": "1:{"0" * 64}"}}')


def spend() -> None:
    assert run(["query", COUNT, "--epsilon", "1.5", "--vault", "clinic"]) == 0


def lose_the_configuration() -> None:
    spend()
    Path("clinic/vault.toml").unlink()


def make_a_full_folder() -> None:
    Path("full").mkdir()
    Path("full/histogram.parquet").touch()


def asked_as(request: str) -> Callable[[], object]:
    return lambda: run(
        ["query", COUNT, "--epsilon", "0.1", "--request", request, "--vault", "clinic"]
    )


def remove_from_config(words: str) -> Callable[[], object]:
    return opened_before_edit(words, "")


def detached() -> None:
    """Give a data set to other people than those it was charged to."""
    opened_before_edit('population = "solo"', 'population = "others"')()


def expose() -> None:
    edit("format = 1", "# postgresql://host/db?password=secret\nformat = 1")()
    Path("clinic/vault.toml").chmod(0o644)
