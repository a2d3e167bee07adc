"""Keeps secrets out of everything that is printed or written."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Sequence

MASK = "******"
# Compiled by `re` where they are used first: not at every start.
_SECRET_NAME = r"(?i)secret|token|passw|credential|private|signature|(^|_)(ak|sk)(_|$)|access_?key|api_?key"
_URL_LOGIN = r"(?<=://)[^/@\s]+(?=@)"
_SHORTEST_SECRET = 6  # a shorter value would match too much text that is not secret
_SECRETS_IN_TEXT = (  # each in linear time for any text
    r"(?<=://)()[^/@\s\"'<>]+(?=@)",
    r"(?i)([?&](?:signature|awsaccesskeyid|accesskeyid|x-(?:amz|obs)-[a-z-]+|token|sig)=)[^&\s\"'<>]+",
    r"(?i)(\bauthorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?)[^\"'\r\n]+",
    r"(?i)((?:secret|token|passw|credential|private_?key|access_?key|api_?key|signature)[\w.-]{0,40}[\"']?"
    r"\s{0,8}[=:]\s{0,8}[\"']?)(?![\d.,e+-]+\b)[^\s\"',;&<>]{8,}",
)


def masked(environ: Mapping[str, Optional[str]]) -> Dict[str, Optional[str]]:
    """The variables, with masked values of those with a secret's name, and masked logins in URLs."""
    return {
        name: MASK if value and re.search(_SECRET_NAME, name) else value and without_logins(value)
        for name, value in environ.items()
    }


def looks_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return bool(re.search(_SECRET_NAME, name))


def without_secret_words(words: Sequence[str]) -> List[str]:
    """The words of a command line with masked values of options and variables with a secret's name.

    `--token X`, `--token=X` and `TOKEN=X`; numbers are kept (`--max-tokens 4096`), and tokenizers.
    """
    shown = []
    secret_follows = False
    for word in words:
        name, equals, value = word.partition("=")
        secret = looks_secret(name) and not re.search(r"(?i)tokeni[sz]|[\s/]", name)
        if secret_follows and not word.startswith("-") and not _is_number(word):
            word, secret = MASK, False
        elif secret and equals and not _is_number(value):
            word = name + equals + MASK
        shown.append(word)
        secret_follows = secret and not equals and word.startswith("-")
    return shown


def _is_number(word: str) -> bool:
    return bool(re.fullmatch(r"[\d.,e+-]*", word))


def without_logins(text: str) -> str:
    """The text with masked users and passwords in URLs."""
    return re.sub(_URL_LOGIN, MASK, text)


def secret_values(environ: Mapping[str, str]) -> List[str]:
    """The values of the variables with a secret's name, the longest first."""
    found = {v for n, v in environ.items() if re.search(_SECRET_NAME, n) and len(v) >= _SHORTEST_SECRET}
    return sorted(found, key=len, reverse=True)


def without_secrets(text: str, values: Sequence[str]) -> str:
    """The text with these values masked, and logins and signatures in URLs, and what is written as
    `secret=...`, `token: ...` or the like. Numbers are kept (`tokens: 4096`)."""
    for value in values:
        text = text.replace(value, MASK)
    if ":" not in text and "=" not in text:  # each pattern has one of them, and takes its time to compile
        return text
    for pattern in _SECRETS_IN_TEXT:
        text = re.sub(pattern, lambda found: found.group(1) + MASK, text)
    return text
