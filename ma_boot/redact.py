"""Keeps secrets out of everything that is printed or written."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Sequence

MASK = "******"
_SECRET_NAME = re.compile(
    r"secret|token|passw|credential|private|signature|(^|_)(ak|sk)(_|$)|access_?key|api_?key", re.I
)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def masked(environ: Mapping[str, Optional[str]]) -> Dict[str, Optional[str]]:
    """The variables, without the values of those whose name says that they are secret, and without the
    user and password of a URL."""
    return {
        name: MASK if value and _SECRET_NAME.search(name) else value and without_logins(value)
        for name, value in environ.items()
    }


def without_logins(text: str) -> str:
    """The text without user and password of the URLs in it."""
    return _URL_LOGIN.sub(MASK, text)


_LEAST_SECRET = 6  # a shorter value stands for too much in a text that is no secret
_IN_A_TEXT = (  # each takes a time that grows as the text does, whatever the text is
    re.compile(r"(?<=://)()[^/@\s\"'<>]+(?=@)"),
    re.compile(
        r"([?&](?:signature|awsaccesskeyid|accesskeyid|x-(?:amz|obs)-[a-z-]+|token|sig)=)[^&\s\"'<>]+", re.I
    ),
    re.compile(r"(\bauthorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?)[^\"'\r\n]+", re.I),
    re.compile(
        r"((?:secret|token|passw|credential|private_?key|access_?key|api_?key|signature)[\w.-]{0,40}[\"']?"
        r"\s{0,8}[=:]\s{0,8}[\"']?)(?![\d.,e+-]+\b)[^\s\"',;&<>]{8,}",
        re.I,
    ),
)


def secret_values(environ: Mapping[str, str]) -> List[str]:
    """The values of the variables whose name says that they are secret, the longest first."""
    found = {v for n, v in environ.items() if _SECRET_NAME.search(n) and len(v) >= _LEAST_SECRET}
    return sorted(found, key=len, reverse=True)


def without_secrets(text: str, values: Sequence[str]) -> str:
    """The text of a log without these values, the logins and signatures of URLs, and what is written as
    `secret=...`, `token: ...` or the like; a number is none (`tokens: 4096`)."""
    for value in values:
        text = text.replace(value, MASK)
    for pattern in _IN_A_TEXT:
        text = pattern.sub(lambda found: found.group(1) + MASK, text)
    return text
