"""The training command: its first word decides how it is run."""

from __future__ import annotations

import os
import shutil
from typing import Optional, Sequence, Tuple

from ma_boot.errors import CommandNotFound, NotExecutable, UsageError, listed


def command_argv(command: Sequence[str], python: str, path: str, cwd: str, job_dir: str) -> Tuple[str, ...]:
    """The argv to execute; everything after the command itself is passed on unchanged.

    A `.py` file or `-m MODULE` is run by `python`, a `.sh` file by bash (OBS does not preserve the executable
    bit), anything else is a program on `path`. Raises `UsageError` if `command` begins with another option,
    `CommandNotFound` if it does not exist, `NotExecutable` if the user may not execute it.
    """
    first, *rest = command
    if first == "-m":
        if not rest:
            raise UsageError("-m: expected the name of a module")
        return (python, *command)
    if first.startswith("-"):
        raise UsageError(
            f"no such option: {first}; options of ma_boot go before COMMAND, see ma_boot run --help"
        )
    if first.endswith(".py"):
        return (python, find_file(first, cwd, job_dir), *rest)
    if first.endswith(".sh"):
        return (_program("bash", path, cwd), find_file(first, cwd, job_dir), *rest)
    return (_program(first, path, cwd), *rest)


def find_file(name: str, cwd: str, job_dir: str) -> str:
    """The file's absolute path: in the working directory, else the only match in the job's code.

    ModelArts puts the code into `$MA_JOB_DIR/<last part of its OBS path>`, but runs the boot command in the
    home directory. Raises `CommandNotFound` if there is no match, or more than one.
    """
    here = os.path.join(cwd, name)
    if os.path.isfile(here):
        return os.path.normpath(here)
    code_dirs = sorted(entry.path for entry in os.scandir(job_dir)) if os.path.isdir(job_dir) else []
    found = [os.path.join(code, name) for code in code_dirs if os.path.isfile(os.path.join(code, name))]
    if len(found) == 1 and not os.path.isabs(name):
        return found[0]
    headline = f"{name}: several files in the job's code have this name" if found else f"{name}: no such file"
    looked = [here, *(os.path.join(code, name) for code in code_dirs or [os.path.join(job_dir, "*")])]
    raise CommandNotFound(
        listed(headline, found or [f"looked for {place}" for place in dict.fromkeys(looked)])
    )


def _program(name: str, path: str, cwd: str) -> str:
    if os.sep in name:
        program = os.path.normpath(os.path.join(cwd, name))
        if not os.path.isfile(program):
            raise CommandNotFound(f"{name}: no such file (looked for {program})")
        if not os.access(program, os.X_OK):
            raise NotExecutable(
                f"{program}: not executable (OBS does not preserve the executable bit): put its interpreter "
                "before it"
            )
        return program
    found: Optional[str] = shutil.which(name, path=path)
    if found is None:
        raise CommandNotFound(f"{name}: no such program on the selected PATH={path}")
    return os.path.abspath(found)
