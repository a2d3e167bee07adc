"""The code directory, which the platform downloads from OBS and the rehearsal copies."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ma_boot.desk.rehearsal.platform.code_filter import CodeFilter
from ma_boot.errors import CannotCreate, ConfigError
from ma_boot.node.environment.command import no_such_file
from ma_boot.node.environment.command_words import TrainingCommand
from ma_boot.wording import counted, list_first, size as written
from path_mapping.localfs.names import is_temporary
from path_mapping.planning.record import is_record

MOST_ENTRIES = 1000  # files and directories
DEEPEST = 32  # levels
MOST_BYTES = 5 << 30
_MOST_NAMED = 3  # directories in the message
NOT_CODE = {
    *(".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    *("ma_boot-rehearsal", "ma_boot-report"),
}
_OBS_MARK = ".ma_boot-obs"
_FICLONE = 0x40049409  # linux/fs.h
_REHEARSAL = re.compile(r"ma-job-[0-9a-f]{8}")  # in any --rehearsal-dir, also of an earlier run


def code_directory(
    command: TrainingCommand, code_dir: str | None, cwd: str
) -> tuple[Path | None, TrainingCommand]:
    """The code directory, and the command with its script relative to it.

    By default that is the directory of the script, wherever the command names it, for a module `cwd`; a
    command that names no file here has none unless `code_dir` names one.

    Raises:
        CommandNotFound: the script does not exist.
        ConfigError: `code_dir` does not exist, or does not contain the script.
    """
    code = Path(cwd, code_dir).resolve() if code_dir else None
    if code is not None and not code.is_dir():
        raise ConfigError(f"--code-dir {code_dir}: no such directory")
    script = command.script
    if script is None:
        return code, command
    if script.is_module:
        start = code or Path(cwd)
        return (start if any((start / file).is_file() for file in script.files) else code), command
    file = Path(cwd, script.name).resolve()
    if not file.is_file():
        if script.is_certain:
            raise no_such_file(script.name, [str(file)])
        return code, command
    if code is None:
        code = file.parent
    if code not in file.parents:
        raise ConfigError(f"{script.name} is not in --code-dir {code}, so the job would not find it")
    name = str(file.relative_to(code))
    if script.place == 0 and not script.is_certain and os.sep not in name:
        name = os.path.join(os.curdir, name)  # or it would be looked for on PATH
    return code, command.with_script(name)


def script_in(code: Path, command: TrainingCommand) -> str | None:
    """The file of the command that `code_directory` has returned, relative to the code; None without one."""
    script = command.script
    if script is None:
        return None
    names = script.files if script.is_module else [script.name]
    return next((os.path.normpath(name) for name in names if (code / name).is_file()), None)


def command_in(command: TrainingCommand, code: Path | None, directory: str) -> TrainingCommand:
    """The command that `code_directory` has returned, on a node with a copy of the code in `directory`."""
    script = command.script
    if script is None or script.is_module or code is None or not Path(code, script.name).is_file():
        return command
    return command.with_script(os.path.normpath(os.path.join(directory, script.name)))


class CodeFiles(NamedTuple):
    """The files of the code, relative to it, and names that .gitignore files leave out."""

    files: tuple[Path, ...] = ()
    ignored: tuple[str, ...] = ()

    def note(self) -> str:
        """Names what .gitignore files leave out, but for hidden files; empty if nothing."""
        named = [name for name in self.ignored if not name.startswith(".")]
        if not named:
            return ""
        return (
            f"not copied to the nodes, by .gitignore: {list_first(named, _MOST_NAMED)} "
            f"(--exclude '!{named[0]}' copies it)"
        )


def code_files(
    code: Path, apart: Collection[Path], exclude: Sequence[str] = (), script: str | None = None
) -> CodeFiles:
    """The files of the code: those that a rehearsal copies and a submission uploads.

    It leaves out the directories `apart`, directories of rehearsals, directories that stand for OBS, virtual
    environments, unfinished downloads and records of transfers, files that match a pattern of `exclude`, and
    what .gitignore files name, except for `script`, the command's own file.

    Raises:
        ConfigError: they exceed the platform's limits (1,000 files and directories, 32 levels, 5 GB), or are
            links to files outside, which are not uploaded.
    """
    files: list[Path] = []
    parents: set[Path] = set()
    size = 0
    chosen = CodeFilter(code, exclude, script)
    for directory, directories, names in os.walk(code):
        here, below = Path(directory), Path(directory).relative_to(code)
        chosen.enter(here)
        directories[:] = sorted(
            name
            for name in directories
            if _is_code(here / name)
            and here / name not in apart
            and chosen.has(here / name, is_directory=True)
        )
        for name in sorted(names):
            path, file = here / name, below / name
            if is_temporary(name) or is_record(name) or not path.is_file():
                continue
            if chosen.has(path, is_directory=False):
                _check_inside(path, code)
                files.append(file)
                parents.update(set(file.parents) - {Path()})
                size += path.stat().st_size
        if len(files) + len(parents) > MOST_ENTRIES or size > MOST_BYTES or _levels(files) > DEEPEST:
            raise ConfigError(_beyond_limits(code, files, len(parents), size))
    return CodeFiles(tuple(files), tuple(chosen.ignored))


def _levels(files: Sequence[Path]) -> int:
    """The levels of the last file, which is in the directory that was read last."""
    return len(files[-1].parts) if files else 0


def _check_inside(path: Path, code: Path) -> None:
    if path.is_symlink() and code.resolve() not in path.resolve().parents:
        raise ConfigError(
            f"{path} is a link out of the code directory, to {path.resolve()}: put a copy there, or leave it "
            "out with --exclude (`exclude` in a job file)"
        )


def _beyond_limits(code: Path, files: Sequence[Path], directories: int, size: int) -> str:
    parts = Counter(file.parts[0] for file in files if len(file.parts) > 1)
    largest = next((f"{part}/" for part, _ in parts.most_common(1)), "PATTERN")
    named = [f"{part}/ ({counted(count, 'file')})" for part, count in parts.most_common(_MOST_NAMED)]
    most = f", most of them in {', '.join(named)}" if named else ""
    deep = f", and {files[-1]}, which is on level {_levels(files)}" if _levels(files) > DEEPEST else ""
    return (
        f"{code} exceeds the limits of ModelArts for a code directory ({MOST_ENTRIES} files and directories, "
        f"{DEEPEST} levels, 5 GB); found at least {counted(len(files), 'file')} and "
        f"{counted(directories, 'directory', 'directories')} of {written(size)}{most}{deep}; "
        f"leave out what the job does not need: by a .gitignore, by --exclude {shlex.quote(largest)} "
        "(`exclude` in a job file), or with the directory of the code alone as --code-dir"
    )


def _is_code(directory: Path) -> bool:
    name = directory.name
    marks = (directory / "pyvenv.cfg", directory / _OBS_MARK)
    return not (name in NOT_CODE or _REHEARSAL.fullmatch(name) or any(mark.is_file() for mark in marks))


def copy_code(code: Path, files: Sequence[Path], target: Path) -> None:
    """Copies the code as a download from OBS would: only contents, so no x bits and no links.

    Where the file system can, a copy shares its blocks with the file until one of both changes.

    Raises:
        ConfigError: a file cannot be read.
        CannotCreate: a copy cannot be written.
    """
    for file in files:
        copy = target / file
        try:
            with (code / file).open("rb") as source:
                _write_copy(source, copy)
        except OSError as error:
            raise ConfigError(
                f"cannot read {code / file}: {error.strerror}: make it readable, or leave it out"
            ) from error


def _write_copy(source: BinaryIO, copy: Path) -> None:
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        with copy.open("wb") as clone:
            try:
                fcntl.ioctl(clone, _FICLONE, source.fileno())
            except OSError:  # this file system cannot, or it is another one
                shutil.copyfileobj(source, clone)
    except OSError as error:
        raise CannotCreate(f"cannot copy the code to {copy}: {error.strerror}") from error


def remove_copy(files: Sequence[Path], target: Path) -> None:
    """Removes what `copy_code` has copied, as far as possible; what the training has written there stays."""
    for file in files:
        with suppress(OSError):
            (target / file).unlink()
    for directory, _, _ in os.walk(target, topdown=False):
        with suppress(OSError):
            os.rmdir(directory)


def mark_as_obs(root: Path) -> None:
    """Marks a directory that stands for OBS, so that it is never taken for code."""
    with suppress(OSError):  # a directory that cannot be written to is only read
        (root / _OBS_MARK).touch()
