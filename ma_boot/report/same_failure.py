"""Equality of failures: the same text of two ranks, up to numbers that belong to the process. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

# Addresses in memory and of hosts, process ids, and times of records differ in each process. The number of a
# rank or a device counts as the same only where it is the process's own: "tensor has rank 3" is a fact,
# and -1 stands for none.
_OF_A_PROCESS = re.compile(
    r"0x[0-9a-fA-F]{4,16}"
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:\]?:\d{1,5})?(?![\w.])"
    r"|(?<![A-Za-z])(?i:pid|process)\W{0,3}\d{1,10}(?!\w)"
    r"|\d{4}-\d\d-\d\d[-T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"|(?<![A-Za-z])(?i:rank|device|cuda|npu|gpu|card)(?:_?id)?[\W_]{0,3}(?<![:= ]-)(?P<own>\d{1,6})(?!\w)",
    re.IGNORECASE,
)


def common_form(text: str, numbers: Collection[int | None]) -> str:
    """Returns the text in the form that is equal for all ranks; `numbers` are the rank's and its device's."""

    def replaced(match: re.Match[str]) -> str:
        own = match["own"]
        if own is None:
            return "#"
        return f"{match[0][: -len(own)]}#" if int(own) in numbers else match[0]

    return _OF_A_PROCESS.sub(replaced, text)
