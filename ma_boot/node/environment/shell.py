"""Runs shell files in bash and returns the environment that they leave.

The environment is read from the shell's own variables, not from a program that it starts: no program can be
given a variable of more than 128 KiB, and bash needs seconds to hand over many thousand variables.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Callable

from ma_boot.errors import ConfigError
from ma_boot.node.environment.conda import Activation
from ma_boot.node.environment.patch import Patch, applied, difference
from ma_boot.processes.children import run_child
from ma_boot.processes.orphan_guard import MARKER_VARIABLE
from ma_boot.processes.signals import SignalInbox
from ma_boot.wording import WarningLine

# Linux, MAX_ARG_STRLEN (include/uapi/linux/binfmts.h) without the final NUL.
MAX_VARIABLE_BYTES = 131071
# Variables that bash changes for itself: the caller's values are kept.
_SET_BY_SHELL = {"_", "SHLVL", "PWD", "OLDPWD", "PS1", "PS2", MARKER_VARIABLE}

# Format of a dump; each entry ends in NUL: `NAME=VALUE`, `[NAME` for an array (bash does not export them),
# the index of a file that begins, and the mark at the end.
_MARK = "end of dump"
# The dump runs in a subshell, so that it can reset options and traps which the files have set. @DUMP@ is the
# descriptor of the file for the dumps; `builtin` avoids functions of the files with the same names.
_FUNCTIONS = r"""
ma_boot_dump() (
    set +aeuxT -f; trap - DEBUG ERR EXIT; unset IFS
    exec 1>&@DUMP@
    for ma_boot_name in $(builtin compgen -A arrayvar); do builtin printf '[%s\0' "$ma_boot_name"; done
    for ma_boot_name in $(builtin compgen -e); do
        [[ -v $ma_boot_name ]] && builtin printf '%s=%s\0' "$ma_boot_name" "${!ma_boot_name}"
    done
    builtin declare -Fx | while read -r _ _ ma_boot_name; do
        ma_boot_body=$(builtin declare -f -- "$ma_boot_name")
        builtin printf 'BASH_FUNC_%s%%%%=() %s\0' "$ma_boot_name" "${ma_boot_body#*$'\n'}"
    done
    builtin printf 'end of dump\0'
)
ma_boot_begins() { builtin printf '%s\0' "$1" >&@DUMP@; }
ma_boot_returned() { [[ $1 = 0 ]] || builtin printf 'ma_boot: %s returned %s\n' "$2" "$1" >&2; }
"""

# The function `exit` replaces an EXIT trap, which the file may set itself. Subshells write no dump.
_DUMP_AT_EXIT = """
ma_boot_ends() {
    [[ $BASHPID = "$$" ]] && ma_boot_dump
    builtin exit "$1"
}
exit() { ma_boot_ends "${1-$?}"; }
"""


def environment_in_shell(
    activation: Activation,
    sources: Sequence[str],
    environ: Mapping[str, str],
    inbox: SignalInbox,
    say: Callable[[str], None],
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the environments after the activation, and after the files were sourced as well, in one bash.

    bash starts with `environ`, so that libraries of the activated environment are not loaded into it. Output
    of the files goes to standard error; a file that returns non-zero is reported there but is not an error,
    unless it has set `-e`, as in a shell. Background processes, limits and the umask end with the shell.
    Raises `ConfigError` if a file exits the shell, or there is no bash, and `Stopped`.
    """
    files = (*activation.before, *activation.after, *sources)
    if not files:
        done = applied(environ, activation.patch)
        return done, done
    lines = [_source_lines(index, file) for index, file in enumerate(files)]
    first, last = len(activation.before), len(files) - len(sources)
    script = [*lines[:first], *_declarations(activation.patch), *lines[first:last], "ma_boot_dump\n"]
    script += [*lines[last:], "ma_boot_dump\n"] if sources else []
    code, begun, dumps = _run_bash(
        "".join(script),
        environ,
        files,
        inbox=inbox,
        remind=lambda: say("shell files are still being sourced"),
    )
    if len(dumps) < (2 if sources else 1):
        raise ConfigError(f"a sourced file exited the shell with code {code}: {files[begun]}")
    return dumps[0], dumps[-1]


def environment_after(
    file: str, environ: Mapping[str, str], inbox: SignalInbox, remind: Callable[[], None], cwd: str
) -> tuple[int, Patch]:
    """Returns the exit code of a script, which may exit its shell, and its changes of `environ`.

    It runs in `cwd`; its output goes to standard error. Raises `ConfigError` if there is no bash, and
    `Stopped` at a stop signal.
    """
    script = f"{_DUMP_AT_EXIT}. {shlex.quote(file)}\nma_boot_ends $?\n"
    code, _, dumps = _run_bash(script, environ, [file], inbox=inbox, remind=remind, cwd=cwd)
    return code, difference(environ, dumps[-1]) if dumps else {}


def drop_long_variables(environ: Mapping[str, str], say: Callable[[str], None]) -> dict[str, str]:
    """Returns the environment without variables that are too long for Linux; each of them is reported."""
    kept = {}
    for name, value in environ.items():
        size = len(os.fsencode(f"{name}={value}"))
        if size <= MAX_VARIABLE_BYTES:
            kept[name] = value
        else:
            why = f"it has {size} bytes, more than the {MAX_VARIABLE_BYTES} of Linux"
            say(WarningLine(f"{name} is not passed on: {why}"))
    return kept


def _run_bash(
    script: str,
    environ: Mapping[str, str],
    files: Sequence[str],
    *,
    inbox: SignalInbox,
    remind: Callable[[], None],
    cwd: str = ".",
) -> tuple[int, int, list[dict[str, str]]]:
    """Returns the exit code, the index of the file that was begun last, and the dumped environments."""
    bash = shutil.which("bash")
    if bash is None:
        raise ConfigError(f"bash was not found on PATH: it is needed to source {', '.join(files)}")
    with tempfile.TemporaryFile() as dump, tempfile.TemporaryFile() as program:
        program.write(os.fsencode(_FUNCTIONS.replace("@DUMP@", str(dump.fileno())) + script))
        program.flush()
        argv = [bash, "--noprofile", "--norc", "-c", f". /dev/fd/{program.fileno()}"]
        descriptors = [dump.fileno(), program.fileno()]
        code = run_child(argv, environ, inbox, remind, cwd=cwd, stdout=2, pass_fds=descriptors)
        dump.seek(0)
        begun, dumps = _parse_dumps(os.fsdecode(dump.read()))
    return code, begun, [_with_unknown_to_shell(environ, dumped) for dumped in dumps]


def _source_lines(index: int, file: str) -> str:
    path = shlex.quote(os.path.abspath(file))
    return f"ma_boot_begins {index}\n. {path}\nma_boot_returned $? {path}\n"


def _declarations(patch: Patch) -> list[str]:
    return [
        f"unset -v {name}\n" if value is None else f"export {name}={shlex.quote(value)}\n"
        for name, value in patch.items()
    ]


def _parse_dumps(text: str) -> tuple[int, list[dict[str, str]]]:
    """Parses the dumps of the shell; bytes that are not UTF-8 are kept as in `os.environ`."""
    begun = 0
    dumps: list[dict[str, str]] = []
    current: dict[str, str] = {}
    arrays: set[str] = set()
    for entry in text.split("\0")[:-1]:
        name, equals, value = entry.partition("=")
        if entry == _MARK:
            dumps.append({key: value for key, value in current.items() if key not in arrays})
            current, arrays = {}, set()
        elif equals:
            current[name] = value
        elif name.startswith("["):
            arrays.add(name[1:])
        else:
            begun = int(name)
    return begun, dumps


def _with_unknown_to_shell(environ: Mapping[str, str], dumped: Mapping[str, str]) -> dict[str, str]:
    """Returns `dumped` with the variables that bash cannot see (no identifiers), or sets for itself."""
    result = {name: value for name, value in dumped.items() if name not in _SET_BY_SHELL}
    for name, value in environ.items():
        unseen = not name.isidentifier() and not name.startswith("BASH_FUNC_")
        if name in _SET_BY_SHELL or unseen:
            result[name] = value
    return result
