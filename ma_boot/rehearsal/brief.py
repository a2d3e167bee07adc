"""What a rehearsal prints of its nodes by default: each thing once. Their logs have the rest."""

from __future__ import annotations

import re
from typing import Dict

_LINE = re.compile(rb"[^\n]*\n|[^\n]+$")  # with its newline; a carriage return ends none
_OF_NODE = re.compile(rb"\[node (\d{1,4})\] \[ma_boot\] (.*)")
_OF_FIRST = re.compile(rb"(?:environment|inputs|rank table|launch): done in ")
_ROUTINE = re.compile(
    rb"platform: |logs: |page: |exit code 0: |(?:input|output) \S+: |outputs so far: |checkpoints?\b"
    rb"|[a-z ]{3,20}: (?:done|stopped) in \d|waiting for .* \(\d s of \d+ s\)$"
)


class BriefLines:
    """Leaves out the lines of nodes that a reader of the whole job does not miss.

    These are the ends of phases (those of the first node stay, up to its launch), waits of less than 10 s,
    places of files, and what another node has said before. The lines below one share its fate.
    """

    def __init__(self) -> None:
        self._said: Dict[bytes, bytes] = {}  # by which node first
        self._hidden: Dict[bytes, bool] = {}  # the last line of each node that was not indented

    def __call__(self, data: bytes) -> bytes:
        """The whole lines of `data` that are shown."""
        if b"[ma_boot] " not in data:
            return data
        return b"".join(line for line in _LINE.findall(data) if self._is_shown(line))

    def _is_shown(self, line: bytes) -> bool:
        match = _OF_NODE.match(line)
        if match is None:
            return True
        node, text = match.groups()
        if not text.startswith(b"  "):
            of_first = node == b"0" and _OF_FIRST.match(text)
            routine = _ROUTINE.match(text) and not of_first
            self._hidden[node] = bool(routine) or self._said.setdefault(text, node) != node
        return not self._hidden.get(node)
