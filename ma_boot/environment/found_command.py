"""The command of the training, once it has been found on this machine. Pure."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Tuple

from ma_boot.environment.command_words import CommandParts
from ma_boot.environment.patch import put_first


class FoundCommand(NamedTuple):
    """The argv to execute, and what belongs to its script.

    `code` is the directory of the script, for a module the one from which it is imported; None if the command
    names no file here. `parts` are those of the argv.
    """

    argv: Tuple[str, ...]
    parts: CommandParts = CommandParts(None)
    code: Optional[str] = None

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The environment in which the command finds its module."""
        script = self.parts.script
        if self.code is None or script is None or not script.is_module:
            return environ
        return {**environ, "PYTHONPATH": put_first(self.code, environ.get("PYTHONPATH", ""))}
