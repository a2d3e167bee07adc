"""Errors in CANN's log files (plogs), as evidence beside the failure of a process. Pure.

A process that uses an NPU often ends with a general exception, and the code and the reason stand in its plog
alone: `[ERROR] HCCL(7,python):2026-01-02-03:04:05.678.901 [file.cc:110] [7]... (EI0019) ...`.
"""

from __future__ import annotations

import builtins
import re

from ma_boot.redact import without_secrets
from ma_boot.report.failure import BEFORE_A_NUMBER, CODE
from path_mapping.errors import printable

# The newest lines that are kept of a process, and characters of each.
MOST_LINES = 200
LONGEST_LINE = 1000
# Lines with a code that are evidence, and characters of each: causes are sent to peers.
MOST_CODED = 3
LONGEST_CODED = 200
_ERROR = r"\[ERROR\] ?"
_LEVEL = r"\[[A-Z]{3,8}\]"
# Module, process, time, source file and thread before the message of a line.
_HEAD = (
    rf"^{_ERROR}(?:\w{{1,30}}\([^)]{{0,200}}\) ?: ?)?(?:\d{{4}}-\d\d-\d\d[-\d:. ]{{1,30}})?"
    r"(?:\[[^\]]{0,200}\] ?){0,8}"
)
# Codes of CANN's runtime, which tell something only beside the word for them.
_RUNTIME_CODE = rf"{BEFORE_A_NUMBER}(?:107|207|507)\d{{3}}(?!\d)"
_EXCEPTION = r"(?:\w{1,100}\.){0,20}(\w{1,100})(?:: |:?$)"
# Exceptions by which libraries report an error of the device, so that a plog may explain them.
_OF_DEVICES = ("Exception", "RuntimeError", "SystemError")
_NAMES_DEVICES = r"(?i)hccl|hcom|ascend|\bcann\b|\bacl|\bnpu|torch_npu"


def error_lines(text: str) -> str:
    """Returns the newest lines of the level ERROR, each with the lines that continue it."""
    kept: list[str] = []
    is_error = False
    for line in text.splitlines():
        if re.match(_LEVEL, line):
            is_error = re.match(_ERROR, line) is not None
        if is_error and line.strip():
            kept.append(printable(line[:LONGEST_LINE]))
    return "\n".join(kept[-MOST_LINES:])


def coded_lines(plog: str) -> list[str]:
    """Returns the messages that have a code, the first one for each code, without secrets."""
    found: dict[str, str] = {}
    for line in plog.splitlines():
        code = re.search(CODE, line) or re.search(_RUNTIME_CODE, line)
        if code is not None:
            message = re.sub(_HEAD, "", line).strip()
            # What the head took may have been the code.
            shown = message if code.group(0) in message else line
            found.setdefault(code.group(0), without_secrets(shown)[:LONGEST_CODED])
    return [*found.values()][:MOST_CODED]


def has_code(text: str) -> bool:
    """Returns whether an error message has a code of CANN or HCCL itself."""
    return re.search(CODE, text) is not None or re.search(_RUNTIME_CODE, text) is not None


def may_explain(words: str, text: str) -> bool:
    """Returns whether a failure may come from the device: else the plog has consequences, such as lost peers.

    Python's own exceptions (`KeyError`, `FileNotFoundError`) explain themselves, unless they name CANN.
    """
    named = re.match(_EXCEPTION, words)
    name = named[1] if named is not None else ""
    kind = getattr(builtins, name, None)
    is_pythons = isinstance(kind, type) and issubclass(kind, BaseException)
    return not is_pythons or name in _OF_DEVICES or re.search(_NAMES_DEVICES, text) is not None
