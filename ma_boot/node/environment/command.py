"""Training command on this machine: its program, its script, and the ranks that a shell script starts."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from ma_boot.errors import CommandNotFound, NotExecutable, UsageError, listed
from ma_boot.node.environment.command_words import Script, TrainingCommand, find_shell_code
from ma_boot.wording import Message

_ELSEWHERE = "--conda-env NAME or --python PATH selects the environment that has it"
_MPI = (
    "install Open MPI (Debian's openmpi-bin), or select the environment that has it (--conda-env, --python)"
)


def find_command(command: TrainingCommand, python: str, path: str, cwd: str, job_dir: str) -> TrainingCommand:
    """Finds the program and the script of a command; changes the word that names the script only.

    A `.py` file or `-m MODULE` is run by `python`, a `.sh` file by bash (OBS does not preserve the executable
    bit), anything else is a program on `path`. The script is found through interpreters and launchers, too
    (`read_command`). Raises `UsageError` if `command` begins with another option, `CommandNotFound` if it
    does not exist, `NotExecutable` if the user may not execute it.
    """
    first = command.words[0]
    if first.startswith("-") and first != "-m":
        raise UsageError(
            f"no such option: {first}; options of ma_boot go before COMMAND, see ma_boot run --help"
        )
    if command.words == ("-m",):
        raise UsageError("-m: expected the name of a module")
    file, code = _file_and_code(command.script, cwd, job_dir)
    command = command._replace(code=code)
    if file is not None and command.script is not None and not command.script.is_module:
        command = command.with_script(file)
    if first == "-m" or first.endswith(".py"):
        return command.run_by(python)
    if first.endswith(".sh"):
        return command.run_by(find_program("bash", path))
    # Debian has python3 only.
    only_python3 = first == "python" and shutil.which(first, path=path) is None
    program = python if only_python3 else _program(command.words[0], path, cwd)
    return command._replace(words=(program, *command.words[1:]))


def find_code(command: TrainingCommand, cwd: str, job_dir: str) -> str | None:
    """Returns the directory of the command's script, or that from which its module is imported; None without.

    Raises `CommandNotFound` if it does not exist.
    """
    return _file_and_code(command.script, cwd, job_dir)[1]


def _file_and_code(script: Script | None, cwd: str, job_dir: str) -> tuple[str | None, str | None]:
    """Returns the file and the directory of its code; None for an installed module, or for no file at all."""
    if script is None:
        return None, None
    for name in script.files:
        try:
            file = find_file(name, cwd, job_dir)
        except CommandNotFound:
            if script.is_certain:
                raise
        else:
            return file, file[: -len(os.sep + name)] if script.is_module else os.path.dirname(file)
    return None, None


def find_file(name: str, cwd: str, job_dir: str) -> str:
    """Returns a file's absolute path: in the working directory, or else the only match in the job's code.

    ModelArts puts the code into `$MA_JOB_DIR/<last part of its OBS path>`, but runs the boot command in the
    home directory. Raises `CommandNotFound` if there is no match, or more than one.
    """
    here = os.path.join(cwd, name)
    if os.path.isfile(here):
        return os.path.normpath(here)
    code_dirs = sorted(entry.path for entry in os.scandir(job_dir)) if os.path.isdir(job_dir) else []
    files = [os.path.join(code, name) for code in code_dirs if os.path.isfile(os.path.join(code, name))]
    if len(files) == 1 and not os.path.isabs(name):
        return os.path.normpath(files[0])
    if files:
        raise CommandNotFound(
            listed(Message.of("{}: several files in the job's code have this name", name), files)
        )
    looked = [here, *(os.path.join(code, name) for code in code_dirs or [os.path.join(job_dir, "*")])]
    raise no_such_file(name, list(dict.fromkeys(looked)))


def no_such_file(name: str, looked_for: Sequence[str]) -> CommandNotFound:
    """Returns the error for a file at none of the paths `looked_for`, with a similar name there, if any."""
    folder = next(filter(os.path.isdir, looked_for), None)
    if folder is not None:
        return CommandNotFound(Message.of("{}: expected a script, found the directory {}", name, folder))
    near = _similar(looked_for)
    headline = Message.of("{}: no such file", name)
    if near:
        near = os.path.join(os.path.dirname(name), near)
        headline = Message.of("{}: no such file; did you mean {}?", name, near)
    return CommandNotFound(listed(headline, [Message.of("looked for {}", place) for place in looked_for]))


def _similar(paths: Sequence[str]) -> str | None:
    """Returns the name of a file beside one of the paths with a similar name."""
    for path in paths:
        directory, name = os.path.split(path)
        kind = os.path.splitext(name)[1]
        if os.path.isdir(directory):
            names = [entry for entry in sorted(os.listdir(directory)) if os.path.splitext(entry)[1] == kind]
            for near in difflib.get_close_matches(name, names, n=1, cutoff=0.7):
                return near
    return None


def _program(name: str, path: str, cwd: str) -> str:
    if os.sep in name:
        program = os.path.normpath(os.path.join(cwd, name))
        if not os.path.isfile(program):
            raise no_such_file(name, [program])
        if not os.access(program, os.X_OK):
            raise NotExecutable(
                Message.of(
                    "{}: not executable (OBS does not preserve the executable bit): put its "
                    "interpreter before it",
                    program,
                )
            )
        return program
    return find_program(name, path)


def find_program(name: str, path: str) -> str:
    """Returns the absolute path of a program; raises `CommandNotFound` with advice."""
    program: str | None = shutil.which(name, path=path)
    if program is None:
        remedy = Message(_MPI) if name in ("mpirun", "mpiexec") else Message(_ELSEWHERE)
        what = Message.of("{}: no such program on the selected PATH={}: {}", name, path, remedy)
        raise CommandNotFound(what)
    return os.path.abspath(program)


# Bytes of a shell script that are searched.
_MOST_BYTES = 1 << 20
# A shell, by its name or path; a first line that names one; a comment.
_SHELL = r"(?:.*/)?(?:ba|da|k|z)?sh$"
_SHEBANG = r"#!.*\b(?:ba|da|k|z)?sh\b"
_COMMENT = r"(?:^|(?<=\s))#.*"
# Lines that name a launcher without running it.
_ONLY_NAMED = r"^.*(?:\b(?:pip3?|conda) +install\b|\bcommand +-v\b|^\s*(?:echo|printf|which|type)\b).*"
# Begin and end of a loop, an assignment of a rank's variable (or a loop over it), a command in the
# background, and a launcher.
_TOKENS = (
    r"(?:^|[;({|]|\b(?:do|then|else)\b)[ \t]*(?P<loop>for|while|until)(?=[ \t(])"
    r"|(?P<done>\bdone\b)(?=\s*(?:$|[;&|)<>]))"
    r"|(?<![\w${.-])(?P<rank>RANK_ID|DEVICE_ID|LOCAL_RANK)(?:=(?!=)|(?=[ \t]+in\b))"
    r"|(?<![&>|<])(?P<background>&)(?![&>\d])"
    r"|(?:^|(?<=[\s\"'=/(;&|]))(?P<launcher>torchrun|msrun|mpirun|mpiexec|deepspeed|accelerate +launch"
    r"|ray +start|-m +torch\.distributed\.(?:launch|run))(?=[\s\"'\\]|$)"
)


class RankStart(NamedTuple):
    """Line of a script that starts ranks: it runs this launcher, or sets this variable in a loop."""

    line: int
    name: str
    by_launcher: bool = False

    def __str__(self) -> str:
        return f"line {self.line} " + (
            f"runs {self.name}" if self.by_launcher else f"sets {self.name} in a loop"
        )


def find_rank_start(text: str) -> RankStart | None:
    """Returns the first line of a shell script that starts ranks; None without one.

    A script starts ranks if it names a launcher or `ray start`, or if a loop sets `RANK_ID`, `DEVICE_ID` or
    `LOCAL_RANK` and puts a command into the background. Limits: ranks that another file, a function outside
    of the loop, `make` or Python starts are not found here, but by the supervisor while they run
    (`started_twice`). A launcher that is named but not run is a match. `--per-node` and `--per-device` take
    precedence.
    """
    code = _without_names(text)
    depth, in_background = 0, False
    rank: RankStart | None = None
    for token in re.finditer(_TOKENS, code, re.MULTILINE):
        kind = str(token.lastgroup)
        line = code.count("\n", 0, token.start(kind)) + 1
        if kind == "launcher":
            return RankStart(line, " ".join(token[kind].split()), by_launcher=True)
        depth = max(0, depth + (kind == "loop") - (kind == "done"))
        if depth == 0:
            rank, in_background = None, False
        elif kind == "rank":
            rank = rank or RankStart(line, token[kind])
        in_background = depth > 0 and (in_background or kind == "background")
        if rank and in_background:
            return rank
    return None


def finds_ray(text: str) -> bool:
    """Returns True if a line of a shell script runs `ray start`, also if another line starts ranks."""
    return any(
        token["launcher"] and token["launcher"].split()[0] == "ray"
        for token in re.finditer(_TOKENS, _without_names(text), re.MULTILINE)
    )


def _without_names(text: str) -> str:
    """Returns a shell script without comments and lines that only name a launcher."""
    return re.sub(f"{_COMMENT}|{_ONLY_NAMED}", "", text, flags=re.MULTILINE)


class StartScript(NamedTuple):
    """Shell script that a command runs, or the code of its `bash -c`.

    `ranks` is the line that starts ranks, None without one. `starts_ray`: it runs `ray start`.
    """

    name: str
    ranks: RankStart | None
    starts_ray: bool = False


def read_start_script(command: TrainingCommand, cwd: str, job_dir: str) -> StartScript | None:
    """Reads the shell script that a command runs, or the code of its `bash -c`; None without one here."""
    script = command.script
    if command.launcher is not None:
        return None
    code_place = find_shell_code(command.words)
    if script is None and code_place is not None:
        return _start_script("bash -c", command.words[code_place])
    if script is None or script.is_module or script.name.endswith(".py"):
        return None
    try:
        with open(
            find_file(script.name, cwd, job_dir), encoding="utf-8", errors="replace", newline=""
        ) as file:
            text = file.read(_MOST_BYTES)
    except (CommandNotFound, OSError, ValueError):
        return None
    by_shell = script.place > 0 and any(re.match(_SHELL, word) for word in command.words[: script.place])
    if not (script.name.endswith(".sh") or by_shell or re.match(_SHEBANG, text)):
        return None
    return _start_script(os.path.basename(script.name), text)


def _start_script(name: str, text: str) -> StartScript:
    return StartScript(name, find_rank_start(text), finds_ray(text))
