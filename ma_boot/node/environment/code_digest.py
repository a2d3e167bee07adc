"""A digest of a job's code: the paths and contents of the files in its code directory.

Two starts with the same digest run the same code. A directory whose digest is too expensive to compute has
none: a reader must then assume that the code has changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ma_boot.node.environment.generated_files import is_generated
from ma_boot.node.environment.software import commit_of

# Bounds of a directory: a larger one has data in it, and hashing it would delay the start.
MOST_FILES = 20_000
MOST_BYTES = 256 << 20
# Hidden directories and files that tools make; other hidden ones may be settings of the training.
_HIDDEN_NO_CODE = re.compile(
    r"\.(git|hg|svn|ma_boot|cache|nv|triton|venv|tox|idea|vscode|ipynb_checkpoints|\w+_cache|DS_Store|nfs\w+|.+\.sw.)"
)
# Hexadecimal digits of a digest, as many as two starts of one job need to differ.
DIGITS = 16
_PIECE = 1 << 20  # bytes of one read


class CodeFile(NamedTuple):
    """A file of the code: its path below the directory, and the SHA-256 of its content or of its link."""

    path: str
    sha256: str


class CodeDigest(NamedTuple):
    """The digest of a code directory; empty, with the reason in `why`, if it is not known.

    `files` and `size` (bytes) are those that were read; `commit` is the one of git, empty without one.
    """

    digest: str
    files: int = 0
    size: int = 0
    why: str = ""
    commit: str = ""


class _TooLarge(Exception):
    """The directory is over a bound; the argument is the reason."""


def combine(files: Iterable[CodeFile]) -> str:
    """Returns the digest of these files; their order does not matter. Pure."""
    total = hashlib.sha256()
    for path, content in sorted(files):
        # The length keeps a path apart from what follows it.
        name = path.encode("utf-8", "surrogateescape")
        total.update(b"%d:%b:%b\n" % (len(name), name, content.encode("ascii")))
    return total.hexdigest()[:DIGITS]


def code_root(code: str | None, job_dir: str, cwd: str, home: str) -> str:
    """Returns the directory with all code of a job, whose script is in `code`; empty if it is not known.

    A script in a directory below often imports what is beside that directory.
    """
    if code is None:
        return ""
    code, job_dir, cwd = map(os.path.realpath, (code, job_dir, cwd))
    if _is_below(code, job_dir):
        return job_dir
    for directory in (Path(code), *Path(code).parents):
        if (directory / ".git").exists():
            return str(directory)
    is_project = _is_below(code, cwd) and cwd not in ("/", os.path.realpath(home))
    return cwd if is_project else code


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def digest_of_code(directory: str, left_out: Sequence[str] = ()) -> CodeDigest:
    """Returns the digest of the files below a directory, without generated files and the paths `left_out`.

    Those are absolute: inputs, outputs and logs of the job, which are no code. Links are not followed.
    """
    skipped = {os.path.realpath(path) for path in left_out}
    files: list[CodeFile] = []
    size = 0
    try:
        for path, name in _walk(os.path.realpath(directory), skipped):
            content, length = _hash_file(path, MOST_BYTES - size)
            files.append(CodeFile(name, content))
            size += length
            if len(files) > MOST_FILES:
                raise _TooLarge(f"it has more than {MOST_FILES:,} files")
    except _TooLarge as error:
        return CodeDigest("", len(files), size, str(error))
    except OSError as error:
        return CodeDigest("", len(files), size, f"{error.filename}: {error.strerror}")
    commit = commit_of(Path(directory))
    if not files:
        return CodeDigest("", why="it has no files", commit=commit)
    return CodeDigest(combine(files), len(files), size, commit=commit)


def _walk(top: str, skipped: set[str]) -> Iterator[tuple[str, str]]:
    """Yields the path of each file, and its name below the directory; raises `OSError`."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(os.path.join(top, below)) as entries:
            for entry in entries:
                name = os.path.join(below, entry.name)
                if entry.path in skipped or _is_no_code(name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    yield entry.path, name


def _is_no_code(path: str) -> bool:
    name = os.path.basename(path)
    return is_generated(path) and (name[0] != "." or _HIDDEN_NO_CODE.fullmatch(name) is not None)


def _hash_file(path: str, most: int) -> tuple[str, int]:
    """Returns the digest of a file's content or of its link, and the bytes read; raises `_TooLarge`."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return hashlib.sha256(b"link " + os.fsencode(os.readlink(path))).hexdigest(), 0
    content, length = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            content.update(piece)
            length += len(piece)
            if length > most:
                raise _TooLarge(f"it has more than {MOST_BYTES >> 20} MiB")
    return content.hexdigest(), length
