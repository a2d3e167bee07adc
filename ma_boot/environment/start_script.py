"""Whether a shell script starts the ranks of its node itself, by its text.

It does if it names a launcher, or if a loop sets `RANK_ID`, `DEVICE_ID` or `LOCAL_RANK` and puts a command
into the background. This is no shell: what another file, a function outside of the loop, `make` or Python
starts is not seen here, and a launcher that is named but not run counts. The supervisor notices the former
while it runs (`started_twice`), and `--per-node` and `--per-device` overrule both.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional, Sequence

from ma_boot.environment.command import find_file
from ma_boot.environment.command_words import CommandParts
from ma_boot.errors import CommandNotFound

_MOST_BYTES = 1 << 20
_SHELL = r"(?:.*/)?(?:ba|da|k|z)?sh$"
_SHEBANG = r"#!.*\b(?:ba|da|k|z)?sh\b"
_COMMENT = r"(?:^|(?<=\s))#.*"
_ONLY_NAMED = r"^.*(?:\b(?:pip3?|conda) +install\b|\bcommand +-v\b|^\s*(?:echo|printf|which|type)\b).*"
_TOKENS = (
    r"(?:^|[;({|]|\b(?:do|then|else)\b)[ \t]*(?P<loop>for|while|until)(?=[ \t(])"
    r"|(?P<done>\bdone\b)(?=\s*(?:$|[;&|)<>]))"
    r"|(?<![\w${.-])(?P<rank>RANK_ID|DEVICE_ID|LOCAL_RANK)(?:=(?!=)|(?=[ \t]+in\b))"
    r"|(?<![&>|<])(?P<background>&)(?![&>\d])"
    r"|(?:^|(?<=[\s\"'=/(;&|]))(?P<launcher>torchrun|msrun|mpirun|mpiexec|deepspeed|accelerate +launch"
    r"|-m +torch\.distributed\.(?:launch|run))(?=[\s\"'\\]|$)"
)


class RankStart(NamedTuple):
    """The line of a script that starts ranks: it runs this launcher, or sets this variable in a loop."""

    line: int
    name: str
    by_launcher: bool = False

    def __str__(self) -> str:
        return f"line {self.line} " + (
            f"runs {self.name}" if self.by_launcher else f"sets {self.name} in a loop"
        )


def ranks_started_in(text: str) -> Optional[RankStart]:
    """The first line of a script that starts ranks; None if there is none, as far as the text shows. Pure."""
    code = re.sub(f"{_COMMENT}|{_ONLY_NAMED}", "", text, flags=re.MULTILINE)
    depth, in_background = 0, False
    rank: Optional[RankStart] = None
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


class StartScript(NamedTuple):
    """A shell script that a command runs; `ranks` is where it starts ranks, None if nothing in it says so."""

    name: str
    ranks: Optional[RankStart]


def start_script(
    command: Sequence[str], parts: CommandParts, cwd: str, job_dir: str
) -> Optional[StartScript]:
    """The shell script that a command runs, with what its text says; None if there is none here.

    `parts` are those of the command.
    """
    script = parts.script
    if script is None or script.is_module or script.name.endswith(".py") or parts.launcher is not None:
        return None
    try:
        with open(
            find_file(script.name, cwd, job_dir), encoding="utf-8", errors="replace", newline=""
        ) as file:
            text = file.read(_MOST_BYTES)
    except (CommandNotFound, OSError, ValueError):
        return None
    by_shell = script.place > 0 and any(re.match(_SHELL, word) for word in command[: script.place])
    if not (script.name.endswith(".sh") or by_shell or re.match(_SHEBANG, text)):
        return None
    return StartScript(os.path.basename(script.name), ranks_started_in(text))
