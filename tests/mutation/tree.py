"""The copy of the tree that is mutated, with a Python of its own: whatever a test starts by `sys.executable` runs the copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Dict

from tests.mutation import lines

_NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"


def make_tree(root: Path, work: Path, folder: str) -> Path:
    """Copies the tree to `work/tree`, with `work/tree/.venv`."""
    copy = work / "tree"
    if copy.exists():
        shutil.rmtree(copy)
    for name in _files(root):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, copy / name)
    _make_python(copy, folder)
    return copy


def python_of(copy: Path) -> Path:
    """The copy's interpreter."""
    return copy / ".venv" / "bin" / _NAME


def change(file: Path, source: bytes) -> None:
    """Writes the file, with a time of its own: Python takes what it has compiled for the same time and size."""
    seconds = int(file.stat().st_mtime) + 1
    file.write_bytes(source)
    os.utime(file, (seconds, seconds))


def _files(root: Path) -> Dict[str, None]:
    """What git knows of, and what is new."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, stdout=subprocess.PIPE,
    ).stdout  # fmt: skip
    return {name: None for name in os.fsdecode(listed).split("\0") if name and (root / name).is_file()}


def _make_python(copy: Path, folder: str) -> None:
    """An environment that finds the copy first, then what is installed in ours."""
    ours = Path(sysconfig.get_path("purelib"))
    packages = copy / ".venv" / "lib" / _NAME / "site-packages"
    programs = copy / ".venv" / "bin"
    packages.mkdir(parents=True)
    programs.mkdir()
    base = Path(os.path.realpath(sys.executable))
    (copy / ".venv" / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\n"
    )
    for name in ("python", "python3", _NAME):
        (programs / name).symlink_to(base)
    for program in Path(sys.executable).parent.iterdir():
        first = program.read_bytes()[:512].partition(b"\n")[0]
        if first.startswith(b"#!") and b"python" in first:
            text = program.read_text().partition("\n")[2]
            (programs / program.name).write_text(f"#!{programs / _NAME}\n{text}")
            (programs / program.name).chmod(0o755)
        elif not (programs / program.name).exists():
            (programs / program.name).symlink_to(program)
    shutil.copy(lines.__file__, packages / "mutation_lines.py")
    children = str(copy.parent / lines.CHILDREN)
    (packages / "tree.pth").write_text(
        f"{copy}\n"
        f"import os; os.path.exists({children!r}) and __import__('mutation_lines').record_program({str(copy)!r}, {folder!r})\n"
        f"import site; site.addsitedir({str(ours)!r})\n"
    )
