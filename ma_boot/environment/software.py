"""What software a job runs: the versions of its Python and frameworks, the commit of its code, from files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Dict, Mapping, Optional

from ma_boot.processes import file_text

_PACKAGES = ("torch", "torch_npu", "mindspore", "mindformers", "transformers", "deepspeed")
_INFO = ".dist-info"


def software_of(python: str, code: Optional[str], environ: Mapping[str, str], cwd: str) -> Dict[str, str]:
    """The versions of a python and of frameworks beside it, and the git `commit` of the directory `code`.

    Of a shim of pyenv, the python that it starts with these variables in `cwd`. Nothing is run or imported;
    what no file tells is left out.
    """
    software = {}
    with suppress(OSError):
        for packages in sorted(_prefix(python, environ, cwd).glob("lib/python3*/site-packages")):
            software["python"] = packages.parent.name[len("python") :]
            for name in os.listdir(packages):
                package, _, rest = name.partition("-")
                if package in _PACKAGES and rest.endswith(_INFO):
                    software[package.replace("_", "-")] = rest[: -len(_INFO)]
    commit = _commit(Path(code)) if code else ""
    return {**software, "commit": commit} if commit else software


def _prefix(python: str, environ: Mapping[str, str], cwd: str) -> Path:
    """The directory that has the python's `bin` and `lib`."""
    place = Path(python).parent
    if place.name != "shims":
        return place.parent
    local = (directory / ".python-version" for directory in (Path(cwd), *Path(cwd).parents))
    names = (environ.get("PYENV_VERSION", ""), *map(file_text, (*local, place.parent / "version")))
    version = next((name.split()[0] for name in names if name.strip()), "system")
    return place.parent / "versions" / version.partition(":")[0]


def _commit(code: Path) -> str:
    """The commit that is checked out in a directory or the ones above; empty if there is none."""
    for directory in (code, *code.parents):
        git = directory / ".git"
        with suppress(OSError, UnicodeDecodeError):
            head = (git / "HEAD").read_text(encoding="ascii").strip()
            if not head.startswith("ref: "):
                return head[:12]
            name = head[len("ref: ") :]
            if (git / name).is_file():
                return (git / name).read_text(encoding="ascii").strip()[:12]
            packed = (git / "packed-refs").read_text(encoding="ascii").splitlines()
            return next((line.split()[0][:12] for line in packed if line.endswith(f" {name}")), "")
    return ""
