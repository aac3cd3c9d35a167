"""Install with apt what some tests need from the system, if that is possible; never fail.

Tests whose needs are not met skip themselves with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

# The command to look for, the Debian packages that bring it, and what is skipped without it.
NEEDS = (
    ("java", ("openjdk-17-jre-headless", "default-jre-headless"), "tests on Spark"),
    ("strace", ("strace",), "tests of failing disks"),
    ("bwrap", ("bubblewrap",), "tests of the sandbox"),
    ("chromium", ("chromium",), "tests in a browser"),
)


def main() -> None:
    """Install what is missing and say what remains so."""
    if can_install() and any(not shutil.which(command) for command, _, _ in NEEDS):
        apt("update")
        for command, packages, _ in NEEDS:
            for package in packages:
                if not shutil.which(command):
                    apt("install", "--yes", "--no-install-recommends", package)
    for command, packages, skipped in NEEDS:
        if not shutil.which(command):
            sys.stdout.write(
                f"{command} is missing, so {skipped} will be skipped; "
                f"install the package {packages[0]}.\n"
            )


def can_install() -> bool:
    """Whether this user may install packages with apt."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt(*arguments: str) -> None:
    """Run apt-get without questions and without noise; a failure shows in what stays missing."""
    try:
        subprocess.run(
            ["apt-get", "--quiet", "--quiet", *arguments],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return


if __name__ == "__main__":
    main()
