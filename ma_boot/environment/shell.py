"""Sources shell files with bash and returns what they change in the environment."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from typing import Callable, Dict, Mapping, Optional, Sequence, Tuple

from ma_boot.environment.patch import Patch, difference
from ma_boot.errors import ConfigError, listed
from ma_boot.processes import SignalInbox, run_child

_SET_BY_SHELL = {"_", "SHLVL", "PWD", "OLDPWD"}


def sourced(
    files: Sequence[str], environ: Mapping[str, str], inbox: SignalInbox, say: Callable[[str], None]
) -> Patch:
    """The changes that the files, sourced in order in one bash, make to `environ`.

    Their output goes to standard error; a file that returns non-zero is reported there but is not an error,
    as in a shell. Raises `ConfigError` if a file does not exist or exits the shell, or if there is no bash,
    and `Stopped` at a stop signal.
    """
    if not files:
        return ()
    missing = [file for file in files if not os.path.isfile(file)]
    if missing:
        raise ConfigError(listed("shell files to source do not exist:", missing))
    script = "".join(_source_line(file) for file in files) + "command -p env -0 >&@DUMP@\n"
    code, after = _in_bash(
        script, environ, inbox, lambda: say("shell files are still being sourced"), ", ".join(files)
    )
    if not after:
        raise ConfigError(f"a sourced file exited the shell with code {code}: {', '.join(files)}")
    return _changes(environ, after)


def environment_after(
    file: str, environ: Mapping[str, str], inbox: SignalInbox, remind: Callable[[], None], cwd: str
) -> Tuple[int, Patch]:
    """The exit code of a script, which may exit its shell, and the changes that it makes to `environ`.

    It runs in `cwd`; its output goes to standard error. Raises `ConfigError` if there is no bash, and
    `Stopped` at a stop signal.
    """
    end = "trap 'ma_boot_code=$?; command -p env -0 >&@DUMP@; exit $ma_boot_code' EXIT\n"
    code, after = _in_bash(f"{end}. {shlex.quote(file)}\n", environ, inbox, remind, file, cwd)
    return code, _changes(environ, after) if after else ()


def _in_bash(
    script: str,
    environ: Mapping[str, str],
    inbox: SignalInbox,
    remind: Callable[[], None],
    what: str,
    cwd: Optional[str] = None,
) -> Tuple[int, Dict[str, str]]:
    """Runs a script that writes its environment to a descriptor, for which `@DUMP@` is a placeholder."""
    bash = shutil.which("bash")
    if bash is None:
        raise ConfigError(f"bash was not found on PATH: it is needed to source {what}")
    with tempfile.TemporaryFile() as dump:
        argv = [bash, "--noprofile", "--norc", "-c", script.replace("@DUMP@", str(dump.fileno()))]
        code = run_child(argv, environ, inbox, remind, cwd=cwd, stdout=2, pass_fds=[dump.fileno()])
        dump.seek(0)
        return code, _parse_environ(dump.read())


def _changes(environ: Mapping[str, str], after: Mapping[str, str]) -> Patch:
    kept = {name: value for name, value in environ.items() if name not in _SET_BY_SHELL}
    return difference(kept, {name: value for name, value in after.items() if name not in _SET_BY_SHELL})


def _source_line(file: str) -> str:
    path = shlex.quote(os.path.abspath(file))
    return f". {path} || echo ma_boot: {path} returned $? >&2\n"


def _parse_environ(dump: bytes) -> Dict[str, str]:
    """Parses the output of `env -0`; bytes that are not UTF-8 are kept as in `os.environ`."""
    entries = (os.fsdecode(entry).partition("=") for entry in dump.split(b"\0") if entry)
    return {name: value for name, equals, value in entries if equals and not name.startswith("BASH_FUNC_")}
