"""Keeps secrets out of everything that is printed or written."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Sequence

MASK = "******"
_SECRET_NAME = re.compile(
    r"secret|token|passw|credential|private|signature|(^|_)(ak|sk)(_|$)|access_?key|api_?key", re.I
)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SHORTEST_SECRET = 6  # a shorter value would match too much text that is not secret
_SECRETS_IN_TEXT = (  # each in linear time for any text
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


def masked(environ: Mapping[str, Optional[str]]) -> Dict[str, Optional[str]]:
    """The variables, with masked values of those with a secret's name, and masked logins in URLs."""
    return {
        name: MASK if value and _SECRET_NAME.search(name) else value and without_logins(value)
        for name, value in environ.items()
    }


def without_logins(text: str) -> str:
    """The text with masked users and passwords in URLs."""
    return _URL_LOGIN.sub(MASK, text)


def secret_values(environ: Mapping[str, str]) -> List[str]:
    """The values of the variables with a secret's name, the longest first."""
    found = {v for n, v in environ.items() if _SECRET_NAME.search(n) and len(v) >= _SHORTEST_SECRET}
    return sorted(found, key=len, reverse=True)


def without_secrets(text: str, values: Sequence[str]) -> str:
    """The text with these values masked, and logins and signatures in URLs, and what is written as
    `secret=...`, `token: ...` or the like. Numbers are kept (`tokens: 4096`)."""
    for value in values:
        text = text.replace(value, MASK)
    for pattern in _SECRETS_IN_TEXT:
        text = pattern.sub(lambda found: found.group(1) + MASK, text)
    return text
