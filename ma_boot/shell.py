"""Sources shell files with bash and brings home what they do to the environment."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from typing import Callable, Dict, Mapping, Sequence

from ma_boot.errors import ConfigError, listed
from ma_boot.patch import Patch, difference
from ma_boot.processes import run_child
from ma_boot.signals import SignalInbox

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
    bash = shutil.which("bash")
    if bash is None:
        raise ConfigError("bash was not found on PATH: it is needed to source " + ", ".join(files))
    with tempfile.TemporaryFile() as dump:
        script = "".join(_source_line(file) for file in files) + f"command -p env -0 >&{dump.fileno()}\n"
        code = run_child(
            [bash, "--noprofile", "--norc", "-c", script],
            environ,
            inbox,
            lambda: say("shell files are still being sourced"),
            stdout=2,
            pass_fds=[dump.fileno()],
        )
        dump.seek(0)
        after = _parse_environ(dump.read())
    if not after:
        raise ConfigError(f"a sourced file ended its shell with code {code}: " + ", ".join(files))
    kept = {name: value for name, value in environ.items() if name not in _SHELLS_OWN}
    return difference(kept, {name: value for name, value in after.items() if name not in _SHELLS_OWN})


def _source_line(file: str) -> str:
    path = shlex.quote(os.path.abspath(file))
    return f". {path} || echo ma_boot: {path} returned $? >&2\n"


def _parse_environ(dump: bytes) -> Dict[str, str]:
    """`env -0` output; bytes that are not UTF-8 survive as `os.environ` would have them."""
    entries = (os.fsdecode(entry).partition("=") for entry in dump.split(b"\0") if entry)
    return {name: value for name, equals, value in entries if equals and not name.startswith("BASH_FUNC_")}
