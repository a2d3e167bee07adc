"""Sources shell files with bash and brings home what they do to the environment."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from typing import Callable, Dict, Mapping, Optional, Sequence, Tuple

from ma_boot.environment.patch import Patch, difference
from ma_boot.errors import ConfigError, listed
from ma_boot.processes import SignalInbox, run_child

_SHELLS_OWN = {"_", "SHLVL", "PWD", "OLDPWD"}


def sourced(
    files: Sequence[str], environ: Mapping[str, str], inbox: SignalInbox, say: Callable[[str], None]
) -> Patch:
    """The patch that sourcing the files, in their order, in one bash makes of `environ`.

    What the files print goes to standard error; a file that returns non-zero is named there and does not
    end anything, as in a shell. Raises `ConfigError` for files that do not exist, for a file that exits
    the shell, and where there is no bash.
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
        raise ConfigError(f"a sourced file ended its shell with code {code}: " + ", ".join(files))
    return _changes(environ, after)


def environment_after(
    file: str, environ: Mapping[str, str], inbox: SignalInbox, remind: Callable[[], None], cwd: str
) -> Tuple[int, Patch]:
    """The exit code of a script that may end its shell, and the patch that it makes of `environ`.

    It runs in `cwd`; what it prints goes to standard error. Raises `ConfigError` where there is no bash.
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
    """Runs a script that writes its environment to the descriptor that `@DUMP@` stands for."""
    bash = shutil.which("bash")
    if bash is None:
        raise ConfigError("bash was not found on PATH: it is needed to source " + what)
    with tempfile.TemporaryFile() as dump:
        argv = [bash, "--noprofile", "--norc", "-c", script.replace("@DUMP@", str(dump.fileno()))]
        code = run_child(argv, environ, inbox, remind, cwd=cwd, stdout=2, pass_fds=[dump.fileno()])
        dump.seek(0)
        return code, _parse_environ(dump.read())


def _changes(environ: Mapping[str, str], after: Mapping[str, str]) -> Patch:
    kept = {name: value for name, value in environ.items() if name not in _SHELLS_OWN}
    return difference(kept, {name: value for name, value in after.items() if name not in _SHELLS_OWN})


def _source_line(file: str) -> str:
    path = shlex.quote(os.path.abspath(file))
    return f". {path} || echo ma_boot: {path} returned $? >&2\n"


def _parse_environ(dump: bytes) -> Dict[str, str]:
    """`env -0` output; bytes that are not UTF-8 survive as `os.environ` would have them."""
    entries = (os.fsdecode(entry).partition("=") for entry in dump.split(b"\0") if entry)
    return {name: value for name, equals, value in entries if equals and not name.startswith("BASH_FUNC_")}
