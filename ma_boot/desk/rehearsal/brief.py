"""Views of a rehearsal: results and warnings of nodes, each once, or the end alone; logs have the rest."""

from __future__ import annotations

import re

from ma_boot.report.exit_report import EXIT_CODE
from ma_boot.wording import PROGRESS_MARK, WARNING

_LINE = re.compile(rb"[^\n]*\n|[^\n]+$")  # with its newline; a carriage return ends none
_OF_NODE = re.compile(rb"\[node (\d{1,4})\] \[ma_boot\] ([^\n]*)")
_SUCCESS = EXIT_CODE.format(0).encode()
_BELOW = b"  "  # begins a line that belongs to the one before


_OUR_OWN = re.compile(rb"(?:\[node \d{1,4}\] )?\[ma_boot\] ")
_THE_END = b"[ma_boot] " + EXIT_CODE.partition("{")[0].encode()


class QuietLines:
    """Leaves out all lines of ma_boot but the last one, the job's exit code with its cause."""

    def __call__(self, data: bytes) -> bytes:
        """The whole lines of `data` that are shown."""
        if b"[ma_boot] " not in data:
            return data
        return b"".join(
            line for line in _LINE.findall(data) if line.startswith(_THE_END) or not _OUR_OWN.match(line)
        )


class BriefLines:
    """Leaves out the lines of nodes that a reader of the whole job does not miss.

    These are the progress of each node, by the mark of its lines, the exit code of one that ended well, as
    the rehearsal prints the job's own, and what another node has printed before.
    The lines below one share its fate, except that a warning is shown again if it has other lines below it.
    """

    def __init__(self) -> None:
        self._printed: dict[bytes, bytes] = {}  # by which node first
        self._hidden: dict[bytes, bool] = {}  # the last line of each node that was not indented
        self._held: dict[bytes, bytes] = {}  # the last warning of each node, if another node has printed it

    def __call__(self, data: bytes) -> bytes:
        """The whole lines of `data` that are shown."""
        if b"[ma_boot] " not in data:
            return data
        return b"".join(map(self._shown, _LINE.findall(data)))

    def _shown(self, line: bytes) -> bytes:
        """Returns what is shown for a line: itself, nothing, or a warning that was held back and itself."""
        match = _OF_NODE.match(line)
        if match is None:
            return line
        node, text = match.groups()
        is_warning = text.startswith(WARNING.encode())
        if not text.startswith(_BELOW):
            is_repeated = self._printed.setdefault(text, node) != node
            is_progress = text.endswith(PROGRESS_MARK.encode()) or text.startswith(_SUCCESS)
            self._hidden[node] = is_repeated or (is_progress and not is_warning)
            self._held.pop(node, None)
            if is_repeated and is_warning:
                self._held[node] = line
        elif node in self._held and self._printed.setdefault(text, node) == node:
            self._hidden[node] = False
            return self._held.pop(node) + line
        elif not self._hidden.get(node):
            self._printed.setdefault(text, node)
        return b"" if self._hidden.get(node) else line
