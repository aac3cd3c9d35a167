"""What a sandbox may read: Python, its standard library, and the packages for programs."""

from __future__ import annotations

import re
import sys
import sysconfig
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

PACKAGES: Final = ("numpy", "pandas", "pyarrow", "scipy", "sklearn", "starlark")
"""What programs may import beside Python's own library, where it is installed."""

_NEEDED = ("dateutil", "joblib", "narwhals", "pytz", "six", "threadpoolctl", "tzdata")
_BUNDLED = ("numpy.libs", "pandas.libs", "pyarrow.libs", "scipy.libs", "scikit_learn.libs")
_COMPANIONS = {
    "datetime": ("_strptime",),
    "numpy": ("numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random"),
    "pandas": ("pyarrow.pandas_compat", "pyarrow.vendored.version"),
    "pyarrow": ("pyarrow.acero", "pyarrow.compute"),
}
"""What these load only when it is used, which is too late."""
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([^\n;#(]+)(\([^)]*\))?", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

ZYGOTE: Final = Path(__file__).resolve().with_name("zygote.py")

ENVIRONMENT: Final = {
    "PYTHONHASHSEED": "0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
    ),
    "LC_ALL": "C.UTF-8",
    "LD_LIBRARY_PATH": sysconfig.get_config_var("LIBDIR") or "",
}
"""The whole environment: threads cannot be started, and the same program gives the same."""


class Runtime(NamedTuple):
    """Where the runtime lies on this machine."""

    python: Path
    paths: tuple[Path, ...]
    """All that is to be read, files and folders, at the places where they really are."""
    packages: dict[str, str]
    """By name of a package, the file that it begins with."""
    hidden: tuple[Path, ...]
    """Folders of other packages, beneath those above."""

    @property
    def command(self) -> list[str]:
        """What starts inside: Python without anybody's settings, and without our own package."""
        return [str(self.python), "-I", "-S", "-B", "-X", "utf8", str(ZYGOTE)]


@cache
def find_runtime() -> Runtime:
    """The runtime of this very Python."""
    python = Path(sys.executable).resolve()
    base = Path(sys.base_prefix).resolve()
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": str(base)})).resolve()
    shared = [
        Path(library_path)
        for library_path in _mapped()
        if Path(library_path).name.startswith("libpython")
    ]
    system = {
        Path(library_path).parent
        for library_path in _mapped()
        if re.match(r"lib[cm][.-]", Path(library_path).name)
    }
    # The dynamic loader lies there on some distributions.
    system |= {folder for folder in (Path("/lib64"), Path("/usr/lib64")) if folder.exists()}
    packages = _packages()
    homes = [path.parent if path.name == "__init__.py" else path for path in packages.values()]
    bundled = [home.parent / name for home in homes for name in _BUNDLED]
    paths = (
        python,
        library,
        *shared,
        *sorted({folder.resolve() for folder in system}),
        *homes,
        *bundled,
    )
    return Runtime(
        python=python,
        paths=(*(path for path in dict.fromkeys(paths) if path.exists()), ZYGOTE),
        packages={name: str(path) for name, path in packages.items()},
        hidden=tuple(folder for folder in (library / "site-packages",) if folder.is_dir()),
    )


def _mapped() -> list[str]:
    """Libraries that this Python itself is running on."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(None, 5)[5] for line in lines if line.count("/") and ".so" in line})


def _packages() -> dict[str, Path]:
    """Packages for programs, and what they need, as far as they are installed."""
    specs = {name: find_spec(name) for name in (*PACKAGES, *_NEEDED)}
    return {
        name: Path(spec.origin).resolve() for name, spec in specs.items() if spec and spec.origin
    }


def modules_of(source: str) -> list[str]:
    """The libraries that a program names: loaded before its rows come, because later none can be.

    They are only looked for, not understood: a name too many costs a moment, and of what is
    missing the program is told when it is rehearsed.
    """
    names: dict[str, None] = {}
    for match in _IMPORT.finditer(source):
        if match[0].lstrip().startswith("from"):
            home, _, imported = match[1].partition(" import ")
            members = _NAME.findall((match[2] or "") + imported)
            names |= dict.fromkeys(
                [home.strip(), *(f"{home.strip()}.{member}" for member in members)]
            )
        else:
            names |= dict.fromkeys(
                module.split(" as ")[0].strip() for module in match[1].split(",")
            )
    known = {*PACKAGES, *sys.stdlib_module_names}
    named = [name for name in names if _NAME.fullmatch(name) and name.split(".")[0] in known]
    companions = [_COMPANIONS.get(name.split(".")[0], ()) for name in named]
    return list(dict.fromkeys([*named, *chain.from_iterable(companions)]))
