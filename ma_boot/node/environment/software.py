"""Software of a job, read from files: versions of Python and frameworks, and the commit of its code."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_PACKAGES = (
    "torch", "torch_npu", "triton", "triton_ascend", "mindspore", "mindformers", "transformers", "deepspeed",
)  # fmt: skip
_INFO = ".dist-info"


def read_software(python: str, code: str | None) -> dict[str, str]:
    """Reads the versions of a python and its frameworks, and the git `commit` of the directory `code`.

    No program is run, and no package imported; unknown versions are left out.
    """
    software = {}
    with suppress(OSError):
        for packages in sorted(Path(python).parent.parent.glob("lib/python3*/site-packages")):
            software["python"] = packages.parent.name[len("python") :]
            for name in os.listdir(packages):
                package, _, rest = name.partition("-")
                if package in _PACKAGES and rest.endswith(_INFO):
                    software[package.replace("_", "-")] = rest[: -len(_INFO)]
    commit = commit_of(Path(code)) if code else ""
    return {**software, "commit": commit} if commit else software


def commit_of(code: Path) -> str:
    """Returns the commit that is checked out in a directory or in one above; empty without git."""
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
