"""What software a job runs: the versions of its Python and frameworks, the commit of its code, from files."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Dict, Iterator, Optional

_PACKAGES = ("torch", "torch_npu", "mindspore", "mindformers", "transformers", "deepspeed")
_NAMED = re.compile(rf"({'|'.join(_PACKAGES)})-([^-]+)\.dist-info")


def software_of(python: str, code: Optional[str]) -> Dict[str, str]:
    """The versions of a python and of frameworks beside it, and the git `commit` of the directory `code`.

    Nothing is run or imported; what no file tells is left out.
    """
    software = {}
    prefix = Path(python).parents[1] if len(Path(python).parents) > 1 else Path(python)
    for packages in _directories(prefix):
        software["python"] = packages.parent.name[len("python") :]
        with suppress(OSError):
            matches = filter(None, (_NAMED.fullmatch(entry.name) for entry in os.scandir(packages)))
            software.update((match[1].replace("_", "-"), match[2]) for match in matches)
    commit = _commit(Path(code)) if code else ""
    return {**software, "commit": commit} if commit else software


def _directories(prefix: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(prefix.glob("lib/python3*/site-packages"))


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
