"""What is handed out to install: whole, and nothing else; built without a warning."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_both_archives_are_built_without_a_warning_and_hold_what_they_should(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "warn" not in (done.stdout + done.stderr).lower()
    [wheel], [source] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    held = set(zipfile.ZipFile(wheel).namelist())
    package = {
        str(one.relative_to(ROOT / "src"))
        for one in (ROOT / "src" / "sfumato").rglob("*")
        if one.is_file() and "__pycache__" not in one.parts
    }
    assert {one for one in held if ".dist-info/" not in one} == package
    assert {"sfumato/py.typed", "sfumato/data/inspection/hints.toml"} <= package
    with tarfile.open(source) as archive:
        folders = {one.split("/")[1] for one in archive.getnames()}
    assert folders == {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "src"}
