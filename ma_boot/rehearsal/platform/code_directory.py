"""The code directory, which the platform downloads from OBS and the rehearsal copies."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Collection, List, Optional, Sequence, Tuple

from ma_boot.errors import CannotCreate, CommandNotFound, ConfigError

MOST_FILES = 1000
MOST_BYTES = 5 << 30
_MOST_NAMED = 3  # directories in the message
_NOT_CODE = {".git", "__pycache__"}


def code_directory(
    command: Sequence[str], code_dir: Optional[str], cwd: str
) -> Tuple[Optional[Path], Tuple[str, ...]]:
    """The code directory, and the command with its script relative to it.

    By default that is the directory of the script; a command that is not a script has none unless `code_dir`
    names one.

    Raises:
        CommandNotFound: the script does not exist.
        ConfigError: `code_dir` does not exist, or does not contain the script.
    """
    first, *rest = command
    code = Path(cwd, code_dir).resolve() if code_dir else None
    if code is not None and not code.is_dir():
        raise ConfigError(f"--code-dir {code_dir}: no such directory")
    if not first.endswith((".py", ".sh")):
        return code, tuple(command)
    script = Path(cwd, first).resolve()
    if not script.is_file():
        raise CommandNotFound(f"{first}: no such file (looked for {script})")
    if code is None:
        code = script.parent
    if code not in script.parents:
        raise ConfigError(f"{first} is not in --code-dir {code}, so the job would not find it")
    return code, (str(script.relative_to(code)), *rest)


def code_files(code: Path, apart: Collection[Path]) -> Tuple[Path, ...]:
    """The files of the code, relative to it, except in the directories of `apart`.

    Raises:
        ConfigError: they exceed the platform's limits, 1,000 files and 5 GB.
    """
    files: List[Path] = []
    size = 0
    for directory, directories, names in os.walk(code):
        here = Path(directory)
        directories[:] = sorted(n for n in directories if n not in _NOT_CODE and here / n not in apart)
        for path in (here / name for name in sorted(names)):
            if path.is_file():
                files.append(path.relative_to(code))
                size += path.stat().st_size
        if len(files) > MOST_FILES or size > MOST_BYTES:
            parts = Counter(file.parts[0] for file in files if len(file.parts) > 1)
            most = ", ".join(f"{part}/ ({count} files)" for part, count in parts.most_common(_MOST_NAMED))
            raise ConfigError(
                f"{code} exceeds the limits of ModelArts for a code directory ({MOST_FILES} files, 5 GB); "
                f"found at least {len(files)} files of {size / 1e9:.1f} GB"
                f"{', most of them in ' + most if most else ''}; "
                "move other files out of it, or name the part that the job needs with --code-dir"
            )
    return tuple(files)


def copy_code(code: Path, files: Sequence[Path], target: Path) -> None:
    """Copies the code as a download from OBS would: only contents, so no x bits and no links.

    Raises:
        CannotCreate: a file cannot be copied.
    """
    for file in files:
        copy = target / file
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(code / file, copy)
        except OSError as error:
            raise CannotCreate(f"cannot copy the code to {copy}: {error.strerror}") from error
