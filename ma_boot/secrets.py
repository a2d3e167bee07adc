"""Keeps secrets out of everything that is printed or written."""

from __future__ import annotations

import re
from typing import Dict, Mapping, Optional

MASK = "******"
_SECRET_NAME = re.compile(
    r"secret|token|passw|credential|private|signature|(^|_)(ak|sk)(_|$)|access_?key|api_?key", re.I
)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def masked(environ: Mapping[str, Optional[str]]) -> Dict[str, Optional[str]]:
    """The variables, without the values of those whose name says that they are secret, and without the
    user and password of a URL."""
    return {
        name: MASK if value and _SECRET_NAME.search(name) else value and _URL_LOGIN.sub(MASK, value)
        for name, value in environ.items()
    }
